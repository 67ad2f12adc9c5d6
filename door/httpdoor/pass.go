// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"context"
	"errors"
	"net/http"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/internal/hold"
)

// pass is one request on its way through a door. All that the door remembers of it is in
// this one allocation. The handler's context points into it, so a pass is never used again.
type pass struct {
	door    *Door
	request *http.Request
	ctx     passContext
	outer   *pass // of another door that the request came through before, or nil

	outcome  Outcome
	caller   Caller
	decision signpost.Decision // not written after the handler has begun: it may be reading
	counted  bool              // a decision was made here
	err      error             // why no answer may leave, or why none could be made

	commit   signpost.Commit
	settled  bool // the wait for the commit is over
	degraded bool // the decision's, or because its count could not be made durable
	spoken   bool // a door further in has set the fields of the answer

	writer writer
	body   body
	hold   hold.Hold
}

// passContext is the request's context and the way from it to the pass.
type passContext struct {
	context.Context
	pass *pass
}

type passKey struct{}

func (c *passContext) Value(key any) any {
	if key == (passKey{}) {
		return c.pass
	}
	return c.Context.Value(key)
}

func passOf(ctx context.Context) *pass {
	p, _ := ctx.Value(passKey{}).(*pass)
	return p
}

// FromContext returns the decision that admitted the request whose context ctx is, or comes from. It says what was known
// when the handler began: Degraded can still become true of the answer. It must not be changed.
func FromContext(ctx context.Context) (*signpost.Decision, bool) {
	for p := passOf(ctx); p != nil; p = p.outer {
		if p.counted {
			return &p.decision, true
		}
	}
	return nil, false
}

// CallerFromContext returns who sent the request whose context ctx is, or comes from.
func CallerFromContext(ctx context.Context) (Caller, bool) {
	for p := passOf(ctx); p != nil; p = p.outer {
		if !p.caller.Key.IsZero() {
			return p.caller, true
		}
	}
	return Caller{}, false
}

func (d *Door) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	p := &pass{door: d, request: r, outer: passOf(r.Context())}
	p.ctx = passContext{r.Context(), p}
	if d.o.Observe != nil {
		defer p.report()
	}
	if !d.o.CountPreflight && IsPreflight(r) {
		p.outcome = Uncounted
	} else if !p.admit(w) {
		return
	}
	p.run(w, next)
}

// admit finds out whether the handler may run. If not, it has answered.
func (p *pass) admit(w http.ResponseWriter) bool {
	d, r := p.door, p.request
	caller, err := d.o.Identify(r)
	if err != nil {
		p.unidentified(w, err)
		return false
	}
	p.caller = caller
	switch encoded, known := encoding(r); {
	case d.o.MaxBody < 0:
	case r.ContentLength > d.o.MaxBody:
		p.outcome = TooLarge
		p.answer(w, d.o.Terms.TooLarge(d.o.MaxBody))
		return false
	case !known:
		p.outcome = BadEncoding
		w.Header().Set("Accept-Encoding", acceptedEncodings)
		p.answer(w, d.o.Terms.BadEncoding(acceptedEncodings))
		return false
	default:
		p.body.encoding = encoded
	}
	if p.countedBefore() {
		p.outcome = Uncounted
		return true
	}
	return p.take(w)
}

func (p *pass) unidentified(w http.ResponseWriter, err error) {
	outcome, problem := Unidentified(&p.door.o.Terms, err)
	if outcome == Unavailable {
		p.unavailable(w, err)
		return
	}
	p.outcome = outcome
	p.answer(w, problem)
}

// unavailable answers for an error that leaves the request undecided. If the client has gone, that is why.
func (p *pass) unavailable(w http.ResponseWriter, err error) {
	if errors.Is(p.ctx.Err(), context.Canceled) {
		p.abort(err)
	}
	p.outcome, p.err = Unavailable, err
	p.answer(w, p.door.o.Terms.Unavailable())
}

// countedBefore reports whether another door of the same limiter has counted the request for the same caller.
func (p *pass) countedBefore() bool {
	for o := p.outer; o != nil; o = o.outer {
		if o.counted && o.door.limiter == p.door.limiter && o.caller.Key == p.caller.Key {
			return true
		}
	}
	return false
}

func (p *pass) take(w http.ResponseWriter) bool {
	d := p.door
	work := d.o.Classify(p.request)
	q := signpost.Request{Key: p.caller.Key, Bound: p.caller.Bound, Cost: work.Cost, Expensive: work.Expensive}
	if q.Expensive {
		q.LeaseID = signpost.NewLeaseID()
	}
	var err error
	p.decision, p.commit, err = d.limiter.TakeEarly(p.ctx.Context, q)
	if err != nil {
		// The lease may have been granted though its answer was lost.
		d.limiter.Release(signpost.Lease{Key: q.Key, ID: q.LeaseID})
		p.unavailable(w, err)
		return false
	}
	p.counted, p.degraded = true, p.decision.Degraded
	p.caller.Seen(p.decision.At)

	if !p.decision.Admitted || d.o.BeforeHandler {
		if err := p.settle(); err != nil {
			d.limiter.Release(p.decision.Lease)
			p.abort(err)
		}
		p.decision.Degraded = p.degraded
	}
	if !p.decision.Admitted {
		problem := d.o.Terms.Refused(&p.decision, p.caller.kind())
		p.outcome = Refused
		if problem.Status == http.StatusServiceUnavailable { // denied without a look at any bound
			p.outcome = Unavailable
		}
		p.answer(w, problem)
		return false
	}
	p.outcome = Admitted
	return true
}

// settle waits until the decision is durable, or known not to be for now. On an error nothing of the answer
// may leave.
func (p *pass) settle() error {
	if p.settled {
		return p.err
	}
	p.settled = true
	switch err := p.commit.Wait(p.ctx.Context); {
	case errors.Is(err, signpost.ErrNotDurable):
		p.degraded = true
	case err != nil:
		p.err = err
	}
	return p.err
}

// abort ends the request without a byte of an answer. It does not return.
func (p *pass) abort(err error) {
	p.outcome, p.err = Aborted, err
	panic(http.ErrAbortHandler)
}

// run calls the handler and sees the answer and the lease through, however the handler ends.
func (p *pass) run(w http.ResponseWriter, next http.Handler) {
	r := p.request.WithContext(&p.ctx)
	r.Header = render.WithoutMarker(r.Header)
	if p.body.limit(r, p.door.o.MaxBody, p.commit) {
		r.Body = &p.body
	}
	p.writer = writer{inner: w, pass: p}
	p.hold.Begin(p.door.limiter, p.decision.Lease)

	returned := false
	defer func() {
		if p.writer.hijacked {
			return // the connection has the lease, and there is nothing more to answer
		}
		p.hold.End()
		if !returned {
			p.writer.abandon()
			return
		}
		p.writer.finish()
	}()
	next.ServeHTTP(p.writer.faces(), r)
	returned = true
}

// report tells Observe. It is deferred first, and so runs last.
func (p *pass) report() {
	e := Event{Request: p.request, Outcome: p.outcome, Caller: p.caller, Decision: p.decision, Err: p.err}
	e.Decision.Degraded = p.degraded
	p.door.o.Observe(e)
}

// kind returns what the caller is told apart by.
func (c *Caller) kind() render.Kind {
	if c.Kind == "" {
		return render.Link
	}
	return c.Kind
}
