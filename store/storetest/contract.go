// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/signposthq/signpost"
)

func testCapabilities(t *testing.T, o Options) {
	s := o.open(t)
	key := signpost.KeyOf(unused(), "link")
	calls := map[Capability]func() (bool, error){
		Renews: func() (bool, error) {
			r, ok := s.(signpost.Renewer)
			if !ok {
				return false, nil
			}
			_, err := r.Renew(t.Context(), signpost.Lease{Key: key, ID: signpost.NewLeaseID()}, t0)
			if errors.Is(err, signpost.ErrLeaseGone) {
				err = nil
			}
			return true, err
		},
		Inspects: func() (bool, error) {
			r, ok := s.(signpost.Inspector)
			if !ok {
				return false, nil
			}
			_, err := r.Inspect(t.Context(), key, t0)
			return true, err
		},
		Resets: func() (bool, error) {
			r, ok := s.(signpost.Resetter)
			if !ok {
				return false, nil
			}
			return true, r.Reset(t.Context(), key)
		},
		Settles: func() (bool, error) {
			r, ok := s.(signpost.Settler)
			if !ok {
				return false, nil
			}
			return true, r.Settle(t.Context(), key, t0, []signpost.Count{{Len: time.Minute, Start: t0, Used: 1}})
		},
	}
	for c, call := range calls {
		has, err := call()
		switch {
		case has && errors.Is(err, errors.ErrUnsupported):
			has = false
		case err != nil:
			t.Errorf("%s: %v", c, err)
		}
		if has == o.lacks(c) {
			t.Errorf("%s: the store has it: %v, lacks it by its options: %v", c, has, o.lacks(c))
		}
	}
	if r, ok := s.(signpost.Slicer); ok {
		if a, b := r.Slice(key), r.Slice(key); a != b {
			t.Errorf("a key is of slice %q, and then of %q", a, b)
		}
		if a, b := r.Slice(signpost.KeyIn("tag", unused(), "a")), r.Slice(signpost.KeyIn("tag", unused(), "b")); a != b {
			t.Errorf("two keys of one tag are of slices %q and %q", a, b)
		}
	}
}

// testLeaseAgain names one lease in two takes. It holds one slot, until the later of the two expiries.
func testLeaseAgain(t *testing.T, o Options) {
	s := o.open(t)
	q := signpost.Request{Key: signpost.KeyOf(unused(), "link"), Bound: signpost.MustParseBound("9/min 2 concurrent"), Expensive: true, LeaseID: signpost.NewLeaseID(), At: t0}
	first := take(t, s, q)
	q.At = t0.Add(10 * time.Second)
	again := take(t, s, q)
	if !first.Admitted || !again.Admitted || again.InUse != 1 {
		t.Fatalf("admitted %v and %v, %d in use at the second; want both, and 1", first.Admitted, again.Admitted, again.InUse)
	}
	other := q
	other.LeaseID, other.At = signpost.NewLeaseID(), first.Lease.Expires
	if d := take(t, s, other); !d.Admitted || d.InUse != 1 {
		t.Errorf("another lease as the first take's would end: admitted=%v with %d in use, want true with 1", d.Admitted, d.InUse)
	}
	release(t, s, again.Lease)
	other.LeaseID = signpost.NewLeaseID()
	if d := take(t, s, other); !d.Admitted || d.InUse != 1 {
		t.Errorf("another lease when that is given back: admitted=%v with %d in use, want true with 1", d.Admitted, d.InUse)
	}
}

// testOwnClock takes without an instant. The decision's instant is now, and the whole decision follows from it.
func testOwnClock(t *testing.T, o Options) {
	s := o.open(t)
	q := signpost.Request{Key: signpost.KeyOf(unused(), "link"), Bound: signpost.MustParseBound("3/min 3/hour 10 concurrent"), Expensive: true}
	const skew = time.Minute // a server may have a clock of its own
	for i := range 4 {
		q.LeaseID = signpost.NewLeaseID()
		before := signpost.InstantOf(time.Now())
		d := take(t, s, q)
		after := signpost.InstantOf(time.Now())
		if d.At < before.Add(-skew) || d.At > after.Add(skew) {
			t.Fatalf("take %d: decided for %d, want an instant from %d to %d", i, d.At, before, after)
		}
		m := newModel() // of what this decision says was there
		for _, w := range d.Windows() {
			used := int64(w.Used)
			if d.Admitted {
				used--
			}
			m.windows[int64(w.Len/time.Second)] = modelWindow{int64(w.Start), used}
		}
		now := q
		now.At = d.At
		want := m.take(&now)
		want.InUse = int(d.InUse)
		if got := verdictOf(&d); got.String() != want.String() {
			t.Errorf("take %d:\n got %v\nwant %v, which follows from its instant", i, got, want)
		}
	}
	if d := peek(t, s, q); d.At < t0 || d.Lease != (signpost.Lease{}) {
		t.Errorf("a peek without an instant was decided for %d, with lease %v", d.At, d.Lease)
	}
}

// testMisuse asks through a Limiter, as everybody does. Misuse is an error, whatever the store.
func testMisuse(t *testing.T, o Options) {
	l := signpost.New(o.open(t), signpost.Options{})
	good := signpost.Request{Key: signpost.KeyOf(unused(), "link"), Bound: signpost.MustParseBound("5/min"), At: t0}
	for name, spoil := range map[string]func(*signpost.Request){
		"no key":                func(q *signpost.Request) { q.Key = signpost.Key{} },
		"no bound":              func(q *signpost.Request) { q.Bound = signpost.Bound{} },
		"before the epoch":      func(q *signpost.Request) { q.At = signpost.InstantOf(time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)) },
		"the zero time":         func(q *signpost.Request) { q.At = signpost.InstantOf(time.Time{}) },
		"after the year 9999":   func(q *signpost.Request) { q.At = signpost.MaxInstant + 1 },
		"nanoseconds as millis": func(q *signpost.Request) { q.At = signpost.Instant(time.Duration(t0) * time.Millisecond) },
	} {
		q := good
		spoil(&q)
		if d, err := l.Take(t.Context(), q); !errors.Is(err, signpost.ErrUsage) || d.Admitted {
			t.Errorf("%s: take gave admitted=%v and error %v, want none and ErrUsage", name, d.Admitted, err)
		}
		if d, err := l.Peek(t.Context(), q); !errors.Is(err, signpost.ErrUsage) || d.Admitted {
			t.Errorf("%s: peek gave admitted=%v and error %v, want none and ErrUsage", name, d.Admitted, err)
		}
	}
	if d, err := l.Peek(t.Context(), good); err != nil || d.Windows()[0].Used != 0 {
		t.Errorf("after misuse %d are used, error %v; want 0", d.Windows()[0].Used, err)
	}
	l.Release(signpost.Lease{}) // nothing, and no panic
}

// testCommit wants every commit to be kept: that of an admission, of a refusal that saw it, and of a peek.
func testCommit(t *testing.T, o Options) {
	s := o.open(t)
	q := signpost.Request{Key: signpost.KeyOf(unused(), "link"), Bound: signpost.MustParseBound("1/min"), At: t0}
	for range 2 {
		_, c, err := s.Take(t.Context(), q)
		if err != nil {
			t.Fatalf("take: %v", err)
		}
		durable(t, c)
		if done := c.Done(); done != nil {
			select {
			case <-done:
			default:
				t.Errorf("a commit that was waited for is not done")
			}
		}
		durable(t, c)
	}
	_, c, err := s.Peek(t.Context(), q)
	if err != nil {
		t.Fatalf("peek: %v", err)
	}
	durable(t, c)
}

// testEndedContext calls with a context that has ended. The store returns at once, with a decision or an
// error, and has charged at most once.
func testEndedContext(t *testing.T, o Options) {
	s := o.open(t)
	q := signpost.Request{Key: signpost.KeyOf(unused(), "link"), Bound: signpost.MustParseBound("5/min"), At: t0}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	d, _, err := s.Take(ended, q)
	if took := time.Since(begin); took > patience {
		t.Errorf("a take with an ended context took %v", took)
	}
	after := peek(t, s, q)
	used := after.Windows()[0].Used
	if used > 1 || err == nil && d.Admitted && used != 1 {
		t.Errorf("%d are used after one take with an ended context (admitted=%v, error %v)", used, d.Admitted, err)
	}
}

func testClose(t *testing.T, o Options) {
	s := o.Open(t)
	q := signpost.Request{Key: signpost.KeyOf(unused(), "link"), Bound: signpost.MustParseBound("5/min 2 concurrent"), Expensive: true, LeaseID: signpost.NewLeaseID(), At: t0}
	d := take(t, s, q)
	for i := range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close, call %d: %v", i+1, err)
		}
	}
	wantClosed := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, signpost.ErrClosed) {
			t.Errorf("%s after close: error %v, want ErrClosed", call, err)
		}
	}
	_, _, err := s.Take(t.Context(), q)
	wantClosed("take", err)
	_, _, err = s.Peek(t.Context(), q)
	wantClosed("peek", err)
	if r, ok := s.(signpost.Renewer); ok && !o.lacks(Renews) {
		_, err = r.Renew(t.Context(), d.Lease, t0)
		wantClosed("renew", err)
	}
	if r, ok := s.(signpost.Inspector); ok && !o.lacks(Inspects) {
		_, err = r.Inspect(t.Context(), q.Key, t0)
		wantClosed("inspect", err)
	}
	if r, ok := s.(signpost.Resetter); ok && !o.lacks(Resets) {
		wantClosed("reset", r.Reset(t.Context(), q.Key))
	}
	if r, ok := s.(signpost.Settler); ok && !o.lacks(Settles) {
		wantClosed("settle", r.Settle(t.Context(), q.Key, t0, []signpost.Count{{Len: time.Minute, Start: t0, Used: 1}}))
	}
	s.Release(d.Lease) // nothing, and no panic
}

// testReopen opens the counts again: no admitted take is missing, and the windows go on where they were.
func testReopen(t *testing.T, o Options) {
	if o.Reopen == nil {
		s := o.open(t)
		q := signpost.Request{Key: signpost.KeyOf(unused(), "link"), Bound: signpost.MustParseBound("5/min"), At: t0}
		_, c, err := s.Take(t.Context(), q)
		if err != nil || c.Done() != nil {
			t.Errorf("a store whose counts end with it has nothing to wait for (error %v)", err)
		}
		return
	}
	s := o.Open(t)
	key := signpost.KeyOf(unused(), "link")
	now := signpost.InstantOf(time.Now()) // so that nothing which was stored has ended when it is read again
	bound := signpost.MustParseBound("12/366d 10 concurrent")
	var leases []signpost.Lease
	for i := range 8 {
		q := signpost.Request{Key: key, Bound: bound, Expensive: i < 5, LeaseID: signpost.NewLeaseID(), At: now}
		d, c, err := s.Take(t.Context(), q)
		if err != nil {
			t.Fatalf("take: %v", err)
		}
		durable(t, c)
		if q.Expensive {
			leases = append(leases, d.Lease)
		}
	}
	for round := range 2 {
		s = o.Reopen(t, s)
		want := 0
		if o.KeepsLeases {
			want = len(leases)
		}
		q := signpost.Request{Key: key, Bound: bound, Expensive: true, At: now}
		d := peek(t, s, q)
		if used := d.Windows()[0].Used; used != 8 || int(d.InUse) != want {
			t.Fatalf("reopened %d times: %d used and %d leases, want 8 and %d", round+1, used, d.InUse, want)
		}
	}
	for _, l := range leases {
		release(t, s, l) // of before: back if they are kept, and nothing else
	}
	q := signpost.Request{Key: key, Bound: bound, At: now}
	admitted := 0
	for range 12 {
		if d := take(t, s, q); d.Admitted {
			admitted++
		}
	}
	if admitted != 4 {
		t.Errorf("%d were admitted after 8 of 12 and reopening, want 4", admitted)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close the store: %v", err)
	}
}
