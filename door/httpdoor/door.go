// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpdoor holds the requests of a net/http handler to the bounds of their callers.
//
// [New] makes a [Door], and [Door.Wrap] puts it around a handler. A request is identified, its declared size
// is looked at, it is taken, and then the handler runs: once for each request that was admitted, and not at all
// for one that was refused. The door answers refusals by itself, with problem bodies that
// no cache keeps.
//
// The handler starts as soon as the take is decided. The first byte of its response waits until the
// count is durable, so that the two overlap and no answer leaves uncounted.
//
// A layer that adds CORS fields belongs outside the door, so that browsers can read refusals; it should expose
// Retry-After.
//
// [Links] identifies callers by link. [NewByAddress] is for handlers that have no credential to go by.
package httpdoor

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
)

// DefaultMaxBody is the largest request body in bytes unless Options says otherwise.
const DefaultMaxBody = 1 << 20

// Options say how a Door works. Identify is required; the zero value of everything else is
// right for most.
type Options struct {
	// Identify tells who sent a request, from what the request proves, such as a credential that was looked up. Its
	// error says how the door answers: see ErrNoCredential and the others. Any other error is answered as
	// ErrUnavailable. It must be safe for concurrent use, and must not read the body.
	Identify func(*http.Request) (Caller, error)

	// Classify tells what a request takes; nil means that all are cheap and cost 1. It must be safe for
	// concurrent use, and must not read the body.
	Classify func(*http.Request) Work

	// MaxBody is the largest request body in bytes; 0 means DefaultMaxBody, and a negative number no
	// limit. It holds for the bytes on the wire, and for what a gzip or deflate encoding of them
	// decodes to, whoever decodes it; a body in another encoding, whose size cannot be known here, is refused
	// with 415. A body that is declared too large is refused with 413 and costs nothing. One that turns out too
	// large gives its reader an *http.MaxBytesError, and if the handler then answers with an error status, or not at all, its answer
	// is replaced by the 413. The handler gets the bytes as they were sent; with an encoding, each piece of
	// them is held back until the next one, or the end, arrives.
	MaxBody int64

	// BeforeHandler waits for a durable count before the handler runs instead of before the first byte of its response: for work that
	// must not begin uncounted.
	BeforeHandler bool

	// CountPreflight treats a CORS preflight as any other request. As it carries no credential, it otherwise
	// passes uncounted and unidentified.
	CountPreflight bool

	// OmitRateLimit leaves out RateLimit and RateLimit-Policy, and OmitXRateLimit the X-RateLimit-
	// fields. A handler's own fields of a family that is not left out are replaced.
	OmitRateLimit, OmitXRateLimit bool

	// Realm is the realm of WWW-Authenticate in a 401; empty means "api".
	Realm string

	// Terms are what problem bodies say besides the facts.
	Terms render.Terms

	// Observe is told of every request once, after its handler has returned or the door has answered:
	// for metrics and logs. It must be safe for concurrent use.
	Observe func(Event)
}

// Work is what a request takes.
type Work struct {
	// Expensive work needs one of the bound's concurrent slots, until it has ended.
	Expensive bool
	// Cost is what the work takes from each window. 0 means 1.
	Cost uint32
}

// Event is what Observe is told.
type Event struct {
	Request  *http.Request // as it came to the door
	Outcome  Outcome
	Caller   Caller            // the zero Caller if none was identified
	Decision signpost.Decision // the zero Decision if none was made; Degraded if the answer was
	Err      error             // why, for Aborted, and for Unavailable without a Decision; it holds no credential unless Identify puts one in
}

// Outcome is what became of a request. There are only these.
type Outcome string

const (
	Admitted          Outcome = "admitted"           // and charged
	Uncounted         Outcome = "uncounted"          // a preflight, or admitted by another door before
	Refused           Outcome = "refused"            // 429: a bound was looked at, and refused
	NoCredential      Outcome = "no_credential"      // 401
	UnknownCredential Outcome = "unknown_credential" // 401
	BadCredential     Outcome = "bad_credential"     // 400
	TooLarge          Outcome = "too_large"          // 413 before the take
	BadEncoding       Outcome = "bad_encoding"       // 415
	Unavailable       Outcome = "unavailable"        // 503; with a Decision if a store that does not answer is told to deny then
	Aborted           Outcome = "aborted"            // the client went away before it could be answered
)

// Door holds handlers to the bounds of their callers. Make one with New. It is safe for concurrent use.
type Door struct {
	limiter *signpost.Limiter
	o       Options
	fields  render.Fields
}

// New returns a door that takes from a limiter. Several doors may share one: a request that passes two
// of them as the same caller is counted by the first, whose class and cost hold. The error lists every fault.
func New(l *signpost.Limiter, o Options) (*Door, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("httpdoor: "+format, args...)) }
	if l == nil {
		fault("no limiter")
	}
	if o.Identify == nil {
		fault("no Identify; use Links, or NewByAddress for callers without a credential")
	}
	if o.Realm == "" {
		o.Realm = "api"
	}
	if strings.ContainsFunc(o.Realm, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		fault("realm %q has a character that is not printable ASCII, or a quote", o.Realm)
	}
	if len(o.Terms.LimitsURL) > render.MaxURL || len(o.Terms.Docs) > render.MaxURL {
		fault("a URL of Terms is longer than %d bytes", render.MaxURL)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if o.Classify == nil {
		o.Classify = func(*http.Request) Work { return Work{} }
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	return &Door{
		limiter: l,
		o:       o,
		fields:  render.Fields{OmitRateLimit: o.OmitRateLimit, OmitXRateLimit: o.OmitXRateLimit},
	}, nil
}

// Wrap returns a handler that runs next for the requests that are admitted. The context of
// those carries the decision: see FromContext.
func (d *Door) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, next) })
}

// IsPreflight reports whether r is a CORS preflight, to which browsers add no credential. Doors let it pass.
func IsPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}
