// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/link"
)

// ResolveTimeout bounds how long Links waits for a registry to resolve a link. A request whose link is not
// resolved by then is answered as ErrUnavailable.
const ResolveTimeout = time.Second

// These errors can be returned by Identify. They say how the door answers.
var (
	// ErrNoCredential says that the request carries no credential: 401.
	ErrNoCredential = errors.New("request carries no credential")
	// ErrUnknownCredential says that the credential is surely not valid, or not any more: 401.
	ErrUnknownCredential = errors.New("credential is not known")
	// ErrBadCredential says that the request carries something that cannot be read as one
	// credential: 400.
	ErrBadCredential = errors.New("credential is malformed")
	// ErrUnavailable says that it could not be found out whether the credential is valid: 503,
	// and never 401.
	ErrUnavailable = errors.New("credential cannot be checked now")
)

// Caller is who sent a request.
type Caller struct {
	Key   signpost.Key   // what the request is counted under
	Bound signpost.Bound // what the key is held to
	Name  string         // a public name for logs, never the credential
	Kind  render.Kind    // what bodies call it; empty means render.Link

	registry link.Registry // where its link was found, or nil
	hash     link.Hash
}

// Seen notes in the registry that the caller's link was used. It does nothing for callers that are not
// from Links. A Door calls it by itself.
func (c *Caller) Seen(at signpost.Instant) {
	if c.registry != nil {
		c.registry.Seen(c.hash, at.Time())
	}
}

// Links returns an Identify that knows callers by the link in their Authorization header field, and by nothing
// else. It waits for the registry for at most ResolveTimeout. Links without a bound of their own, minted by an owner,
// are held to owners; the zero Bound means signpost.DefaultBound.
func Links(reg link.Registry, owners signpost.Bound) func(*http.Request) (Caller, error) {
	if owners.IsZero() {
		owners = signpost.DefaultBound()
	}
	return func(r *http.Request) (Caller, error) {
		l, err := Bearer(r.Header)
		if err != nil {
			return Caller{}, err
		}
		h := l.Hash()
		ctx := newPatience(r.Context(), ResolveTimeout)
		defer ctx.end()
		switch record, err := reg.Resolve(ctx, h); {
		case err == nil:
			return Caller{Key: record.Key(), Bound: record.HeldTo(owners), Name: h.ID(), registry: reg, hash: h}, nil
		case errors.Is(err, link.ErrUnknown):
			return Caller{}, ErrUnknownCredential
		default:
			return Caller{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// Bearer returns the link in an Authorization field. There must be exactly one, in the form
//
//	Bearer LINK
//
// with the scheme in any case and one or more spaces after it. It returns ErrNoCredential if there is no field, or an
// empty one; ErrBadCredential if there are several, or one of another form or scheme; and ErrUnknownCredential
// for a token that is not a link, and so cannot have been minted.
func Bearer(h http.Header) (link.Link, error) {
	const scheme = "bearer"
	fields := h["Authorization"]
	if len(fields) > 1 {
		return link.Link{}, ErrBadCredential
	}
	if len(fields) == 0 {
		return link.Link{}, ErrNoCredential
	}
	text := strings.Trim(fields[0], " \t") // white space around a field's value is no part of it
	if text == "" {
		return link.Link{}, ErrNoCredential
	}
	if len(text) <= len(scheme) || !strings.EqualFold(text[:len(scheme)], scheme) || text[len(scheme)] != ' ' {
		return link.Link{}, ErrBadCredential
	}
	token := strings.TrimLeft(text[len(scheme):], " ")
	if !isToken68(token) {
		return link.Link{}, ErrBadCredential
	}
	l, err := link.Parse(token)
	if err != nil {
		return link.Link{}, ErrUnknownCredential
	}
	return l, nil
}

// isToken68 reports whether s is what RFC 9110 lets follow a scheme.
func isToken68(s string) bool {
	body := strings.TrimRight(s, "=")
	for i := 0; i < len(body); i++ {
		c := body[i]
		if !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || strings.IndexByte("-._~+/", c) >= 0) {
			return false
		}
	}
	return body != ""
}
