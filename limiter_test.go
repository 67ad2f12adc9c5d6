// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/memory"
)

// slowStore is a store in memory whose counts become durable when the test says so.
type slowStore struct {
	*memory.Store
	pending pending
	calls   int
	lost    error // what Take and Peek return, if set
}

type pending struct {
	done chan struct{}
	err  error
}

func (p *pending) Done() <-chan struct{} { return p.done }
func (p *pending) Err() error            { return p.err }

// end ends the wait with nil or an error.
func (p *pending) end(err error) {
	p.err = err
	close(p.done)
}

func newSlowStore(t *testing.T) *slowStore {
	s := &slowStore{Store: memory.New(memory.Options{}), pending: pending{done: make(chan struct{})}}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *slowStore) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	s.calls++
	if s.lost != nil {
		return signpost.Decision{}, signpost.Commit{}, s.lost
	}
	d, _, err := s.Store.Take(ctx, q)
	return d, signpost.CommitOf(&s.pending), err
}

func (s *slowStore) Peek(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	s.calls++
	if s.lost != nil {
		return signpost.Decision{}, signpost.Commit{}, s.lost
	}
	d, _, err := s.Store.Peek(ctx, q)
	return d, signpost.CommitOf(&s.pending), err
}

func (s *slowStore) Release(l signpost.Lease) {
	s.calls++
	s.Store.Release(l)
}

var (
	cheap     = signpost.Request{Key: signpost.KeyOf("link", "x"), Bound: signpost.MustParseBound("5/min 2 concurrent"), At: t0}
	expensive = signpost.Request{Key: cheap.Key, Bound: cheap.Bound, At: t0, Expensive: true}
)

type answer struct {
	d   signpost.Decision
	err error
}

// started runs f beside the test, until it returns or waits.
func started(f func() (signpost.Decision, error)) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		d, err := f()
		c <- answer{d, err}
	}()
	synctest.Wait()
	return c
}

func wantWaiting(t *testing.T, call string, c <-chan answer) {
	t.Helper()
	select {
	case a := <-c:
		t.Fatalf("%s returned %+v before its count was durable", call, a)
	default:
	}
}

func TestTakeAndPeekReturnWhenDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		l := signpost.New(s, signpost.Options{})
		taken := started(func() (signpost.Decision, error) { return l.Take(t.Context(), expensive) })
		peeked := started(func() (signpost.Decision, error) { return l.Peek(t.Context(), cheap) })
		wantWaiting(t, "take", taken)
		wantWaiting(t, "peek", peeked)
		s.pending.end(nil)
		if a := <-taken; a.err != nil || !a.d.Admitted || a.d.Degraded || a.d.Lease.IsZero() {
			t.Errorf("take: %+v", a)
		}
		if a := <-peeked; a.err != nil || !a.d.Admitted || a.d.Degraded || a.d.Windows()[0].Used != 1 {
			t.Errorf("peek: %+v", a)
		}
	})
}

func TestNotDurableIsDegraded(t *testing.T) {
	s := newSlowStore(t)
	s.pending.end(signpost.ErrNotDurable)
	l := signpost.New(s, signpost.Options{})
	d, err := l.Take(t.Context(), expensive)
	if err != nil || !d.Admitted || !d.Degraded || d.Lease.IsZero() {
		t.Errorf("take: %+v, %v; want a degraded admission with its lease", d, err)
	}
	if d, err = l.Peek(t.Context(), expensive); err != nil || !d.Degraded || d.InUse != 1 {
		t.Errorf("peek: %+v, %v; want it degraded, with the lease still held", d, err)
	}
}

// A caller that goes away while it waits never learns of its lease, so the lease goes back. What was
// charged stays charged.
func TestEndOfContextGivesTheLeaseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowStore(t)
		l := signpost.New(s, signpost.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d, err := l.Take(ctx, expensive)
		if !errors.Is(err, context.DeadlineExceeded) || d != (signpost.Decision{}) {
			t.Errorf("take: %+v, %v; want no decision and the context's error", d, err)
		}
		in, err := s.Inspect(t.Context(), cheap.Key, t0)
		if err != nil || len(in.Leases) != 0 || len(in.Counts) != 1 || in.Counts[0].Used != 1 {
			t.Errorf("the store holds %+v, %v; want one used and no lease", in, err)
		}
	})
}

func TestTakeEarlyDoesNotWait(t *testing.T) {
	s := newSlowStore(t)
	l := signpost.New(s, signpost.Options{})
	d, c, err := l.TakeEarly(t.Context(), cheap)
	if err != nil || !d.Admitted {
		t.Fatalf("take: %+v, %v", d, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v, want the context's error: the count is not durable", err)
	}
	s.pending.end(nil)
	if err := c.Wait(ended); err != nil {
		t.Errorf("wait for a kept commit: %v, whatever the context", err)
	}
	<-c.Done()
}

func TestZeroCommitIsKept(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var c signpost.Commit
	if err := c.Wait(ended); err != nil || c.Done() != nil {
		t.Errorf("the zero Commit: wait %v, done %v", err, c.Done())
	}
}

func TestLimiterNamesLeases(t *testing.T) {
	l := signpost.New(memory.New(memory.Options{}), signpost.Options{})
	first, err := l.Take(t.Context(), expensive)
	if err != nil {
		t.Fatal(err)
	}
	named := expensive
	named.LeaseID = signpost.LeaseID{1, 2, 3}
	second, err := l.Take(t.Context(), named)
	if err != nil {
		t.Fatal(err)
	}
	if first.Lease.IsZero() || second.Lease.ID != named.LeaseID || first.Lease.ID == second.Lease.ID {
		t.Errorf("leases %x and %x, want one that was made up and %x", first.Lease.ID, second.Lease.ID, named.LeaseID)
	}
	l.Release(first.Lease)
	l.Release(first.Lease)
	if d, err := l.Take(t.Context(), expensive); err != nil || !d.Admitted || d.InUse != 1 {
		t.Errorf("after a release: %+v, %v", d, err)
	}
	if d, err := l.Take(t.Context(), cheap); err != nil || !d.Lease.IsZero() {
		t.Errorf("a cheap take: lease %v, %v", d.Lease, err)
	}
}

func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := signpost.New(memory.New(memory.Options{}), signpost.Options{})
		q := expensive
		q.At = 0
		d, err := l.Take(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Second)
		renewed, err := l.Renew(t.Context(), d.Lease)
		if got := renewed.Expires.Sub(d.Lease.Expires); err != nil || got != 20*time.Second || renewed.ID != d.Lease.ID {
			t.Errorf("renewed after 20 s: %v later, %v", got, err)
		}
		<-time.After(signpost.LeaseLife)
		if _, err := l.Renew(t.Context(), renewed); !errors.Is(err, signpost.ErrLeaseGone) {
			t.Errorf("renewed after its end: %v, want ErrLeaseGone", err)
		}
		cannot := signpost.New(struct{ signpost.Store }{memory.New(memory.Options{})}, signpost.Options{})
		if _, err := cannot.Renew(t.Context(), renewed); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("renewed by a store that cannot: %v, want ErrUnsupported", err)
		}
	})
}

// Misuse never reaches the store, and neither does the release of nothing.
func TestMisuseStaysOutOfTheStore(t *testing.T) {
	s := newSlowStore(t)
	s.pending.end(nil)
	l := signpost.New(s, signpost.Options{Observe: func(o signpost.Observation) { t.Errorf("misuse was observed: %+v", o) }})
	for _, q := range []signpost.Request{{}, {Key: cheap.Key}, {Bound: cheap.Bound}, {Key: cheap.Key, Bound: cheap.Bound, At: -1}, {Key: cheap.Key, Bound: cheap.Bound, At: signpost.MaxInstant + 1}} {
		if _, err := l.Take(t.Context(), q); !errors.Is(err, signpost.ErrUsage) {
			t.Errorf("take of %+v: %v, want ErrUsage", q, err)
		}
		if _, _, err := l.TakeEarly(t.Context(), q); !errors.Is(err, signpost.ErrUsage) {
			t.Errorf("early take of %+v: %v, want ErrUsage", q, err)
		}
		if _, err := l.Peek(t.Context(), q); !errors.Is(err, signpost.ErrUsage) {
			t.Errorf("peek of %+v: %v, want ErrUsage", q, err)
		}
	}
	l.Release(signpost.Lease{})
	if s.calls != 0 {
		t.Errorf("the store was called %d times", s.calls)
	}
}

func TestStoreErrorsAreNoDecisions(t *testing.T) {
	s := newSlowStore(t)
	s.lost = errors.New("the line is cut")
	var seen []signpost.Observation
	l := signpost.New(s, signpost.Options{Observe: func(o signpost.Observation) { seen = append(seen, o) }})
	if d, err := l.Take(t.Context(), cheap); !errors.Is(err, s.lost) || d != (signpost.Decision{}) {
		t.Errorf("take: %+v, %v", d, err)
	}
	if d, err := l.Peek(t.Context(), cheap); !errors.Is(err, s.lost) || d != (signpost.Decision{}) {
		t.Errorf("peek: %+v, %v", d, err)
	}
	if len(seen) != 2 || seen[0].Err != s.lost || seen[0].Peek || seen[1].Err != s.lost || !seen[1].Peek {
		t.Errorf("observed %+v, want the errors of a take and a peek", seen)
	}
}

func TestObserve(t *testing.T) {
	var seen []signpost.Observation
	l := signpost.New(memory.New(memory.Options{}), signpost.Options{Observe: func(o signpost.Observation) { seen = append(seen, o) }})
	d1, err1 := l.Take(t.Context(), expensive)
	d2, err2 := l.Peek(t.Context(), cheap)
	d3, _, err3 := l.TakeEarly(t.Context(), cheap)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 3 {
		t.Fatalf("%d observations of 3 calls", len(seen))
	}
	for i, want := range []signpost.Observation{{Decision: d1}, {Decision: d2, Peek: true}, {Decision: d3}} {
		got := seen[i]
		if got.Decision != want.Decision || got.Peek != want.Peek || got.Err != nil || got.Elapsed < 0 || got.Request.Key != cheap.Key {
			t.Errorf("observation %d is %+v", i, got)
		}
	}
}

// TestNoStore finds a missing store where it is missing, and not at the first request.
func TestNoStore(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a limiter without a store was made")
		}
	}()
	signpost.New(nil, signpost.Options{})
}
