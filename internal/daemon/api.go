// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/link"
)

//go:embed openapi.json
var openAPI []byte

// maxQuestion is the longest body of a question to the API, in bytes.
const maxQuestion = 16 << 10

// whyAPI is why the API is strict about what it is asked.
const whyAPI = "A question that is not understood is never answered with an admission."

// api answers whether work may pass to whoever does the work elsewhere.
type api struct {
	limiter *signpost.Limiter
	links   link.Registry
	live    func() *settings
	took    func(door, caller string, k signpost.Key, d *signpost.Decision, err error)
}

// newAPI returns the handler of the decision API. Its document is openapi.json.
func newAPI(a *api, token Secret) http.Handler {
	mux := http.NewServeMux()
	for _, route := range []struct {
		method, path string
		handler      http.Handler
	}{
		{"POST", "/v1/take", http.HandlerFunc(a.take)},
		{"POST", "/v1/peek", http.HandlerFunc(a.peek)},
		{"POST", "/v1/renew", http.HandlerFunc(a.renew)},
		{"POST", "/v1/release", http.HandlerFunc(a.release)},
		{"GET", "/v1/limits", http.HandlerFunc(a.limits)},
		{"GET", "/openapi.json", http.HandlerFunc(document)},
	} {
		mux.Handle(route.method+" "+route.path, route.handler)
		mux.HandleFunc(route.path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", route.method)
			writeProblem(w, problem(http.StatusMethodNotAllowed, "method_not_allowed", "Use "+route.method+".", whyAPI))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, problem(http.StatusNotFound, "no_such_path", "There is nothing here. See /openapi.json.", whyAPI))
	})
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, problem(http.StatusForbidden, "cross_origin", "This API does not answer pages of other origins.",
			"A page that somebody reads must not spend quota."))
	}))
	if token.IsZero() {
		return onlyAsLoopback(origin.Handler(mux))
	}
	return origin.Handler(admin.RequireToken(token.Reveal(), http.HandlerFunc(deniedByAPI), mux))
}

// onlyAsLoopback lets only requests pass that name this machine itself as their host. A page can give a name
// of its own this machine's address, and then asks as if it were of this origin.
func onlyAsLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		ip, err := netip.ParseAddr(host)
		if !strings.EqualFold(host, "localhost") && (err != nil || !ip.IsLoopback()) {
			writeProblem(w, problem(http.StatusForbidden, "foreign_host",
				"Without a token this API answers only as localhost or a loopback address. Use one of these, or set SIGNPOST_API_TOKEN.",
				"A page that somebody reads must not spend quota."))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(openAPI)
}

// question is the body of a take and of a peek. It names no instant: on the network the
// store's clock is the only one.
type question struct {
	Link      string          `json:"link"`
	Namespace string          `json:"namespace"`
	Key       string          `json:"key"`
	Bound     *signpost.Bound `json:"bound"`
	Cost      uint32          `json:"cost"`
	Expensive bool            `json:"expensive"`
}

// answer is the body of a decision, admitted or refused.
type answer struct {
	Admitted          bool         `json:"admitted"`
	Degraded          bool         `json:"degraded"`
	Never             bool         `json:"never"`
	At                time.Time    `json:"at"`
	Windows           []windowJSON `json:"windows"`
	Concurrency       slotsJSON    `json:"concurrency"`
	Violated          []string     `json:"violatedPolicies,omitempty"`
	RetryAfterSeconds int64        `json:"retryAfterSeconds,omitempty"`
	*leaseJSON
}

type windowJSON struct {
	Name      string    `json:"name"`
	Seconds   int64     `json:"seconds"`
	Limit     uint32    `json:"limit"`
	Used      uint32    `json:"used"`
	Remaining uint32    `json:"remaining"`
	ResetAt   time.Time `json:"resetAt"`
}

type slotsJSON struct {
	Limit int32 `json:"limit"`
	InUse int32 `json:"inUse"` // before this decision; 0 for what is cheap
}

// leaseJSON is the body of a renewal, and part of an admission that granted a lease.
type leaseJSON struct {
	Lease     string    `json:"lease"`
	ExpiresAt time.Time `json:"leaseExpiresAt"`
}

// leaseRef is the body of a renewal and of a release.
type leaseRef struct {
	Lease string `json:"lease"`
}

func (a *api) take(w http.ResponseWriter, r *http.Request) {
	q, caller, ok := a.read(w, r)
	if !ok {
		return
	}
	d, err := a.limiter.Take(r.Context(), q)
	d.Expensive = q.Expensive // also of no decision, for who counts it
	a.took(doorAPI, caller, q.Key, &d, err)
	writeDecision(w, &d, err)
}

func (a *api) peek(w http.ResponseWriter, r *http.Request) {
	q, _, ok := a.read(w, r)
	if !ok {
		return
	}
	d, err := a.limiter.Peek(r.Context(), q)
	writeDecision(w, &d, err)
}

// writeDecision answers with a decision: 200 if it admits and 429 if not, so that who only looks at
// the status does the right thing.
func writeDecision(w http.ResponseWriter, d *signpost.Decision, err error) {
	if err != nil {
		writeProblem(w, storeProblem(err))
		return
	}
	h := w.Header()
	if d.Degraded {
		h[render.Marker] = []string{render.Degraded}
	}
	status := http.StatusOK
	if !d.Admitted {
		status = http.StatusTooManyRequests
		if s := d.RetryAfterSeconds(); s > 0 {
			h.Set("Retry-After", strconv.FormatInt(s, 10))
		}
	}
	writeJSON(w, status, answerOf(d))
}

// read reads a question and finds out whose it is; the caller is the ID of a link, or "". If it
// cannot, it answers and returns false.
func (a *api) read(w http.ResponseWriter, r *http.Request) (request signpost.Request, caller string, ok bool) {
	var q question
	if !readJSON(w, r, &q) {
		return request, "", false
	}
	request = signpost.Request{Bound: a.live().config.Links, Cost: q.Cost, Expensive: q.Expensive}
	byKey := q.Namespace != "" || q.Key != ""
	switch {
	case (q.Link != "") == byKey, byKey && (q.Namespace == "" || q.Key == ""):
		writeProblem(w, *badRequest("name a link, or a namespace and a key"))
		return request, "", false
	case byKey:
		request.Key = signpost.KeyOf(q.Namespace, q.Key)
	default:
		record, p := a.resolve(r.Context(), q.Link)
		if p != nil {
			writeProblem(w, *p)
			return request, "", false
		}
		if q.Bound != nil && record.Origin == link.Try {
			writeProblem(w, *badRequest("bound: a try link is held to the bound of all try links; name none"))
			return request, "", false
		}
		caller, request.Key, request.Bound = record.Hash.ID(), record.Key(), record.HeldTo(request.Bound)
	}
	if q.Bound != nil {
		request.Bound = *q.Bound
	}
	return request, caller, true
}

func (a *api) resolve(ctx context.Context, text string) (link.Record, *render.Problem) {
	l, err := link.Parse(text)
	if err != nil {
		return link.Record{}, badRequest(err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, httpdoor.ResolveTimeout)
	defer cancel()
	record, err := a.links.Resolve(ctx, l.Hash())
	switch {
	case errors.Is(err, link.ErrUnknown):
		p := problem(http.StatusNotFound, "unknown_link", "This link is not known here. It may have been revoked or have expired.", whyAPI)
		return link.Record{}, &p
	case err != nil:
		p := terms.Unavailable()
		return link.Record{}, &p
	}
	a.links.Seen(record.Hash, time.Now())
	return record, nil
}

func (a *api) renew(w http.ResponseWriter, r *http.Request) {
	l, ok := readLease(w, r)
	if !ok {
		return
	}
	renewed, err := a.limiter.Renew(r.Context(), l)
	switch {
	case errors.Is(err, signpost.ErrLeaseGone):
		writeProblem(w, problem(http.StatusGone, "lease_ended", "This lease has expired or was released. Take again.",
			"A lease ends by itself unless it is renewed, so that who died holds none."))
	case err != nil:
		writeProblem(w, storeProblem(err))
	default:
		writeJSON(w, http.StatusOK, leaseOf(renewed))
	}
}

// release is idempotent: a lease that has ended is released already.
func (a *api) release(w http.ResponseWriter, r *http.Request) {
	l, ok := readLease(w, r)
	if !ok {
		return
	}
	a.limiter.Release(l)
	w.WriteHeader(http.StatusNoContent)
}

func (a *api) limits(w http.ResponseWriter, _ *http.Request) {
	c := &a.live().config
	writeJSON(w, http.StatusOK, publishedLimits(c, c.Links))
}

func answerOf(d *signpost.Decision) answer {
	a := answer{
		Admitted: d.Admitted, Degraded: d.Degraded, Never: d.Never, At: d.At.Time(),
		Windows:           []windowJSON{},
		Concurrency:       slotsJSON{d.Concurrent, d.InUse},
		Violated:          render.Violated(d),
		RetryAfterSeconds: d.RetryAfterSeconds(),
	}
	for _, w := range d.Windows() {
		a.Windows = append(a.Windows, windowJSON{w.Name(), signpost.Seconds(w.Len), w.Limit, w.Used, w.Remaining(), render.Reset(d, w).Time()})
	}
	if !d.Lease.IsZero() {
		l := leaseOf(d.Lease)
		a.leaseJSON = &l
	}
	return a
}

func leaseOf(l signpost.Lease) leaseJSON {
	text, _ := l.MarshalText() // never fails
	return leaseJSON{string(text), l.Expires.Time()}
}

func readLease(w http.ResponseWriter, r *http.Request) (signpost.Lease, bool) {
	var ref leaseRef
	if !readJSON(w, r, &ref) {
		return signpost.Lease{}, false
	}
	var l signpost.Lease
	if err := l.UnmarshalText([]byte(ref.Lease)); err != nil || l.IsZero() {
		writeProblem(w, *badRequest("lease: want the text that a take answered with"))
		return signpost.Lease{}, false
	}
	return l, true
}

func badRequest(detail string) *render.Problem {
	p := problem(http.StatusBadRequest, "bad_request", detail, whyAPI)
	return &p
}

// storeProblem is what a caller is told when there is no decision.
func storeProblem(err error) render.Problem {
	switch {
	case errors.Is(err, signpost.ErrUsage):
		return *badRequest(err.Error())
	case errors.Is(err, errors.ErrUnsupported):
		return problem(http.StatusNotImplemented, "unsupported", "The store of this daemon cannot do that.", whyAPI)
	}
	return terms.Unavailable()
}
