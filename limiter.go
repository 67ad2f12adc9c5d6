// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limiter is what an application and every door call. It checks requests, names leases, and waits until what
// it returns is durable. It holds nothing but its Store, which stays the owner's to close, so several
// Limiters may share one. It is safe for concurrent use.
type Limiter struct {
	store   Store
	observe func(Observation)
}

// Options are what a Limiter can be told. The zero Options are right for most.
type Options struct {
	// Observe is called with every decision and every error of the store in Take, TakeEarly and Peek, on the
	// caller's path, before they return: for metrics and logs. It must be safe for concurrent use and must not block.
	// Without it no clock is read.
	Observe func(Observation)
}

// Observation is what Observe is told.
type Observation struct {
	Request  Request
	Decision Decision // the zero Decision if Err is set
	Peek     bool
	Err      error
	// Elapsed is how long the store took to decide, without the wait for durability.
	Elapsed time.Duration
}

// New returns a Limiter over a store. It panics if there is none.
func New(s Store, o Options) *Limiter {
	if s == nil {
		panic("signpost.New: no store; make one with memory.New, disk.Open or redis.Open")
	}
	return &Limiter{store: s, observe: o.Observe}
}

// Take decides, charges if it admits, and returns when that is durable: the safe default. An
// answer that could not be made durable in time is Degraded. An error means that there is no
// decision: misuse ([ErrUsage]), a closed store, the end of ctx, or a store that failed and has
// no failopen around it. What was charged by then stays charged.
func (l *Limiter) Take(ctx context.Context, q Request) (d Decision, err error) {
	if err = q.prepare(); err != nil {
		return d, err
	}
	var c Commit
	if l.observe == nil {
		d, c, err = l.store.Take(ctx, q)
	} else {
		d, c, err = l.observed(ctx, q)
	}
	if err != nil {
		return Decision{}, err
	}
	if c != (Commit{}) {
		err = l.settle(ctx, &d, c)
	}
	return d, err
}

// TakeEarly is Take that returns as soon as it is decided, with a Commit to wait for. It is for
// doors that begin the work at once and hold the answer until the Commit is kept, so that the
// flush overlaps with the work. Nothing of the answer may leave before.
func (l *Limiter) TakeEarly(ctx context.Context, q Request) (d Decision, c Commit, err error) {
	if err = q.prepare(); err != nil {
		return d, c, err
	}
	if l.observe == nil {
		return l.store.Take(ctx, q)
	}
	return l.observed(ctx, q)
}

func (l *Limiter) observed(ctx context.Context, q Request) (Decision, Commit, error) {
	begin := time.Now()
	d, c, err := l.store.Take(ctx, q)
	l.observe(Observation{Request: q, Decision: d, Err: err, Elapsed: time.Since(begin)})
	return d, c, err
}

// Peek tells what a take of cost 1 would be told now, and charges and grants nothing. The counts
// that it shows are durable when it returns.
func (l *Limiter) Peek(ctx context.Context, q Request) (Decision, error) {
	if err := q.check(); err != nil {
		return Decision{}, fmt.Errorf("peek: %w", err)
	}
	var begin time.Time
	if l.observe != nil {
		begin = time.Now()
	}
	d, c, err := l.store.Peek(ctx, q)
	if l.observe != nil {
		l.observe(Observation{Request: q, Decision: d, Peek: true, Err: err, Elapsed: time.Since(begin)})
	}
	if err != nil {
		return Decision{}, err
	}
	err = l.settle(ctx, &d, c)
	return d, err
}

// settle waits for the commit of a decision. A lease that nobody will learn of goes back.
func (l *Limiter) settle(ctx context.Context, d *Decision, c Commit) error {
	switch err := c.Wait(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotDurable):
		d.Degraded = true
		return nil
	default:
		l.Release(d.Lease)
		*d = Decision{}
		return fmt.Errorf("wait for a durable count: %w", err)
	}
}

// Release gives a lease back. It does not block, may be called twice, and does nothing for the zero Lease.
func (l *Limiter) Release(le Lease) {
	if !le.IsZero() {
		l.store.Release(le)
	}
}

// Renew extends a lease by LeaseLife from now and returns it. It returns [ErrLeaseGone] if the
// lease has ended, and [errors.ErrUnsupported] if the store cannot renew.
func (l *Limiter) Renew(ctx context.Context, le Lease) (Lease, error) {
	r, ok := l.store.(Renewer)
	if !ok {
		return Lease{}, fmt.Errorf("renew lease: %w", errors.ErrUnsupported)
	}
	return r.Renew(ctx, le, 0)
}

// prepare checks a request for a take, and names its lease.
func (q *Request) prepare() error {
	if err := q.check(); err != nil {
		return fmt.Errorf("take: %w", err)
	}
	if q.Expensive && q.LeaseID == (LeaseID{}) {
		q.LeaseID = NewLeaseID()
	}
	return nil
}

func (q *Request) check() error {
	switch {
	case q.Key.IsZero():
		return fmt.Errorf("%w: no key; make one with KeyOf", ErrUsage)
	case q.Bound.IsZero():
		return fmt.Errorf("%w: no bound; make one with NewBound or ParseBound", ErrUsage)
	case q.At < 0 || q.At > MaxInstant:
		return fmt.Errorf("%w: instant %d is not from 1 to %d milliseconds after the epoch", ErrUsage, q.At, MaxInstant)
	}
	return nil
}
