// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package admin is the HTTP API by which an operator manages links and keys, and the client of it
// that the command line uses.
//
//	GET  /livez, /readyz, /healthz      health, without a token (?verbose: each check)
//	POST /v1/links                      mint a link: the one answer that holds a credential
//	GET  /v1/links?after=ID&limit=N     list links, in order of their IDs
//	GET  /v1/links/{id}                 show a link
//	POST /v1/links/{id}/revoke          revoke a link
//	GET  /v1/keys/{id}                  inspect the counts of a link, charging nothing
//	POST /v1/keys/{id}/reset            forget the counts of a link
//	POST /v1/keys/inspect, /reset       the same for any key: {"namespace": "...", "key": "..."}
//
// A link is named by its ID, never by itself, and a key that is not a link's goes in a body, so
// that no credential is in a URL. Everything but health needs the bearer token. Bodies are JSON;
// errors are application/problem+json, as a [Problem]. Nothing may be cached.
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
)

const (
	// timeout is how long a registry and a store may take to answer one request.
	timeout = 5 * time.Second
	// maxBody is the largest request body in bytes: a label, a bound and JSON around them.
	maxBody = 16 << 10
)

// Options are what the admin API works on. All but Homes, Home, Checks and Log are required.
type Options struct {
	// Token is the bearer token. Guessing is not slowed down, because whoever guesses would lock the owner out:
	// a token that a machine did not make should have at least 16 characters.
	Token string
	Links link.Registry
	// Store holds the counts of links. What it cannot inspect or reset is answered with 501.
	Store signpost.Store
	// Bound returns the bound of the links that have none of their own, as it is configured now.
	Bound func() signpost.Bound
	// Homes are those that a link can be minted for, and Home returns the one of links that name none, as it is configured now;
	// nil: no home in particular.
	Homes []signpost.Home
	Home  func() signpost.Home
	// Checks are what /readyz reports, in this order.
	Checks []Check
	// Log gets one line for each change, and for errors; nil: nobody.
	Log *slog.Logger
}

// New returns the API. It serves the paths above and nothing else, and panics if a required option is missing.
func New(o Options) http.Handler {
	if o.Token == "" || o.Links == nil || o.Store == nil || o.Bound == nil {
		panic("admin.New: Token, Links, Store and Bound are required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Home == nil {
		o.Home = func() signpost.Home { return signpost.Home{} }
	}
	s := &server{Options: o, limiter: signpost.New(o.Store, signpost.Options{})}

	api := http.NewServeMux()
	for path, methods := range map[string]map[string]handler{
		"/v1/links":             {"GET": s.listLinks, "POST": s.mintLink},
		"/v1/links/{id}":        {"GET": s.showLink},
		"/v1/links/{id}/revoke": {"POST": s.revokeLink},
		"/v1/keys/{id}":         {"GET": s.inspectLink},
		"/v1/keys/{id}/reset":   {"POST": s.resetLink},
		"/v1/keys/inspect":      {"POST": s.inspectKey},
		"/v1/keys/reset":        {"POST": s.resetKey},
	} {
		api.Handle(path, s.route(methods))
	}
	api.HandleFunc("/", noSuchPath)

	mux := http.NewServeMux()
	mux.Handle("/v1/", RequireToken(o.Token, http.HandlerFunc(Denied), api))
	mux.HandleFunc("/", noSuchPath)
	mux.HandleFunc("GET /livez", live)
	mux.Handle("GET /readyz", ready(o.Checks))
	mux.Handle("GET /healthz", ready(o.Checks))
	return mux
}

func noSuchPath(w http.ResponseWriter, _ *http.Request) {
	writeProblem(w, problem(http.StatusNotFound, "no_such_path", "The admin API has no such path."))
}

// TokenFile returns where a daemon with a data directory keeps the token that it made.
func TokenFile(data string) string { return filepath.Join(data, "admin-token") }

type server struct {
	Options
	limiter *signpost.Limiter
}

// RequireToken lets through only the requests that carry the bearer token; denied answers the others.
func RequireToken(token string, denied, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(given))) // digests have one length: the time it takes tells nothing
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
			denied.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// adminRealm tells the 401 of this API from those of others.
const adminRealm = `Bearer realm="signpost admin"`

// Denied answers a request without the token of this API.
func Denied(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("WWW-Authenticate", adminRealm)
	writeProblem(w, problem(http.StatusUnauthorized, "unauthorized", "The admin token is missing or wrong.").
		try(`Send "Authorization: Bearer TOKEN" with the token that the daemon was started with, or that it keeps in its data directory.`))
}

// handler answers one method of one path with a status and a body of JSON, or with an error.
type handler func(*http.Request) (status int, body any, err error)

// route serves a path: by method, within the timeout, with a bounded body.
func (s *server) route(methods map[string]handler) http.Handler {
	allowed := slices.Sorted(maps.Keys(methods))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handle := methods[r.Method]
		if handle == nil {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			writeProblem(w, problem(http.StatusMethodNotAllowed, "method_not_allowed", "This path does not take that method.").
				try("Use "+strings.Join(allowed, " or ")+"."))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		r = r.WithContext(ctx)
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		status, body, err := handle(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		write(w, status, "application/json", body)
	})
}

// write sends a body that nobody may keep.
func write(w http.ResponseWriter, status int, contentType string, body any) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	noStore(h)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // an error means that the client has gone
}

func noStore(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("CDN-Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}
