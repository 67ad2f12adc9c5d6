// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"context"
	"net/http"
	"reflect"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
)

// exchange is one HTTP request under way, for the messages that came in it. It is its context, too.
type exchange struct {
	context.Context
	caller   httpdoor.Caller
	degraded atomic.Bool // one of its messages was answered so
	writer   writer
}

type exchangeKey struct{}

// Value implements context.Context.
func (x *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return x
	}
	return x.Context.Value(key)
}

// Wrap returns a handler that identifies who sends each HTTP request, and hands it to the handler of a server that the door was
// added to. A request without a credential, or with one that is not known, is turned away with 401, as it would be by httpdoor;
// nothing is counted for it. An answer of which a part is degraded has the field X-Signpost-RateLimit, if the
// fields had not left before.
//
// A CORS preflight passes, as it carries no credential. Layers of package auth of the SDK belong outside Wrap.
//
// The older transport of the SDK, its SSEHandler, hands a message nothing of the request that it came in: there, every message of a session counts for the
// credential that the session was opened with.
func (d *Door) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if httpdoor.IsPreflight(r) {
			next.ServeHTTP(w, r)
			return
		}
		header := render.WithoutMarker(r.Header)
		caller, err := d.o.Identify(r.Context(), &mcp.RequestExtra{Header: header, TokenInfo: auth.TokenInfoFromContext(r.Context())})
		if err != nil {
			d.turnAway(w, r, err)
			return
		}
		if header == nil {
			header = http.Header{}
		}
		x := &exchange{Context: r.Context(), caller: caller}
		x.writer = writer{ResponseWriter: w, exchange: x}
		inner := r.WithContext(x)
		inner.Header = header
		id := identity(header)
		d.exchanges.Store(id, x)
		defer d.exchanges.Delete(id)
		next.ServeHTTP(&x.writer, inner)
		x.writer.begin() // of an answer without a body, if nobody has
	})
}

func (d *Door) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	outcome, problem := httpdoor.Unidentified(&d.o.Terms, err)
	if problem.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", httpdoor.Challenge(d.o.Realm, outcome))
	}
	httpdoor.Answer(w, r, problem)
	if d.o.Observe != nil {
		e := Event{Outcome: outcome}
		if outcome == httpdoor.Unavailable {
			e.Err = err
		}
		d.o.Observe(e)
	}
}

// exchangeOf returns the HTTP request that a message came in, or nil if it is over, or did not pass Wrap. The SDK hands a
// message neither its request nor, in a session, its context. But the header is the very map that Wrap let through, and as long as
// anybody has that map, no other is where it is.
//
// Without a header there is only the context, of the request that opened the session.
func (d *Door) exchangeOf(ctx context.Context, extra *mcp.RequestExtra) *exchange {
	if extra.Header == nil {
		x, _ := ctx.Value(exchangeKey{}).(*exchange)
		return x
	}
	x, _ := d.exchanges.Load(identity(extra.Header))
	found, _ := x.(*exchange)
	return found
}

func identity(h http.Header) uintptr { return reflect.ValueOf(h).Pointer() }

// writer marks a degraded answer as its fields leave.
type writer struct {
	http.ResponseWriter
	exchange *exchange
	begun    bool
}

func (w *writer) begin() {
	if w.begun {
		return
	}
	w.begun = true
	h := w.Header()
	render.Fields{OmitRateLimit: true, OmitXRateLimit: true}.Clear(h) // the marker alone
	if w.exchange.degraded.Load() {
		render.SetMarker(h)
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

// FlushError is what http.ResponseController calls.
func (w *writer) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// Unwrap is what http.ResponseController calls for everything else.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
