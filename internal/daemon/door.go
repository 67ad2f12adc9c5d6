// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"net/http"

	"github.com/signposthq/signpost/door/httpdoor"
)

// doorHandler is the door listener: what a caller is held to, the try door, and the upstream
// for those who show a link.
type doorHandler struct {
	live    func() *settings
	observe func(httpdoor.Event) // as the door for links does
}

func (d *doorHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := d.live()
	in := withoutURLLink(r)
	if in != r {
		w.Header().Set("Referrer-Policy", "no-referrer")
	}
	if err := urlLinkOf(in.Context()).err; err != nil { // whatever the method: a door identifies no preflight
		d.observe(httpdoor.Event{Request: in, Outcome: turnAway(w, in, err)})
		return
	}
	switch {
	case in.URL.Path == limitsPath && (in.Method == http.MethodGet || in.Method == http.MethodHead):
		s.publish(w, in)
	case in.URL.Path == tryPath && in.Method == http.MethodPost && s.try != nil:
		s.try.ServeHTTP(w, in)
	default:
		s.upstream.ServeHTTP(w, in)
	}
}

// publish answers what a caller is held to: the bound of the link that it shows, or that of
// owners' links. It costs nothing, and touches no count.
func (s *settings) publish(w http.ResponseWriter, r *http.Request) {
	caller, err := s.identify(r)
	h := w.Header()
	h.Set("Vary", "Authorization")
	switch {
	case errors.Is(err, httpdoor.ErrNoCredential):
		h.Set("Cache-Control", "public, max-age=300, s-maxage=300")
		caller.Bound = s.config.Links
	case err != nil:
		turnAway(w, r, err)
		return
	default:
		h.Set("Cache-Control", "private, max-age=60")
	}
	writeDocument(w, http.StatusOK, publishedLimits(&s.config, caller.Bound))
}

// turnAway answers a request that proves nobody, as the doors do, and returns what became of it.
func turnAway(w http.ResponseWriter, r *http.Request, err error) httpdoor.Outcome {
	outcome, p := httpdoor.Unidentified(&terms, err)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", httpdoor.Challenge("api", outcome))
	}
	httpdoor.Answer(w, r, p)
	return outcome
}
