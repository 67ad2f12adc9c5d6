// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"net/http"

	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
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
		outcome, p := credentialProblem(err)
		writeProblem(w, p)
		d.observe(httpdoor.Event{Request: in, Outcome: outcome})
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
		_, p := credentialProblem(err)
		writeProblem(w, p)
		return
	default:
		h.Set("Cache-Control", "private, max-age=60")
	}
	writeDocument(w, http.StatusOK, publishedLimits(&s.config, caller.Bound))
}

// credentialProblem returns what becomes of a request that proves nobody.
func credentialProblem(err error) (httpdoor.Outcome, render.Problem) {
	switch {
	case errors.Is(err, httpdoor.ErrUnknownCredential):
		return httpdoor.UnknownCredential, terms.UnknownCredential()
	case errors.Is(err, httpdoor.ErrBadCredential):
		return httpdoor.BadCredential, terms.BadCredential()
	}
	return httpdoor.Unavailable, terms.Unavailable()
}
