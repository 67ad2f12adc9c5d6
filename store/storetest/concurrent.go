// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signposthq/signpost"
)

// crowd is how many goroutines want the same thing at once.
const crowd = 200

// together calls f from a crowd, on the stores in turn, all released at once.
func together(t *testing.T, stores []signpost.Store, f func(s signpost.Store)) {
	t.Helper()
	var (
		wg    sync.WaitGroup
		begin = make(chan struct{})
	)
	for i := range crowd {
		wg.Go(func() {
			<-begin
			f(stores[i%len(stores)])
		})
	}
	close(begin)
	wg.Wait()
}

func countAdmitted(t *testing.T, stores []signpost.Store, q signpost.Request) int {
	t.Helper()
	var admitted atomic.Int64
	together(t, stores, func(s signpost.Store) {
		q := q
		if q.Expensive {
			q.LeaseID = signpost.NewLeaseID()
		}
		d, c, err := s.Take(t.Context(), q)
		if err != nil {
			t.Errorf("take: %v", err)
			return
		}
		if d.Admitted {
			admitted.Add(1)
		}
		if err := c.Wait(t.Context()); err != nil {
			t.Errorf("wait for the commit: %v", err)
		}
	})
	return int(admitted.Load())
}

// rounds yields a few times, and to a fast store more often: its races are short.
func rounds(yield func(int) bool) {
	begin := time.Now()
	for i := 0; i < 3 || i < 200 && time.Since(begin) < 300*time.Millisecond; i++ {
		if !yield(i) {
			return
		}
	}
}

func testExact(t *testing.T, o Options) {
	stores := o.clients(t, 4)
	for range rounds {
		q := signpost.Request{Key: signpost.KeyOf(unused(), "link"), Bound: signpost.MustParseBound("10/min 1000/hour"), At: t0}
		if n := countAdmitted(t, stores, q); n != 10 {
			t.Errorf("%d of %d were admitted, want exactly 10", n, crowd)
		}
		d := peek(t, stores[0], q)
		if minute, hour := d.Windows()[0].Used, d.Windows()[1].Used; minute != 10 || hour != 10 {
			t.Errorf("%d used of the minute and %d of the hour, want 10 and 10", minute, hour)
		}
	}
}

func testLastOne(t *testing.T, o Options) {
	stores := o.clients(t, 4)
	for range rounds {
		q := signpost.Request{Key: signpost.KeyOf(unused(), "link"), Bound: signpost.MustParseBound("10/min"), Cost: 9, At: t0}
		take(t, stores[0], q)
		q.Cost = 1
		if n := countAdmitted(t, stores, q); n != 1 {
			t.Errorf("%d were admitted at 9 of 10, want exactly 1", n)
		}
	}
}

func testLeasesConcurrently(t *testing.T, o Options) {
	stores := o.clients(t, 4)
	q := signpost.Request{Key: signpost.KeyOf(unused(), "link"), Bound: signpost.MustParseBound("1000/min 10 concurrent"), Expensive: true, At: t0}
	if n := countAdmitted(t, stores, q); n != 10 {
		t.Errorf("%d leases were granted at one instant, want exactly 10", n)
	}

	// Never more than ten at a time, and all given back at the end.
	q.Key = signpost.KeyOf(unused(), "link")
	var holding atomic.Int64
	together(t, stores, func(s signpost.Store) {
		q := q
		q.LeaseID = signpost.NewLeaseID()
		d, _, err := s.Take(t.Context(), q)
		if err != nil {
			t.Errorf("take: %v", err)
			return
		}
		if !d.Admitted {
			return
		}
		if n := holding.Add(1); n > 10 {
			t.Errorf("%d hold a lease at once, want at most 10", n)
		}
		holding.Add(-1)
		release(t, s, d.Lease)
		release(t, s, d.Lease)
	})
	if d := peek(t, stores[0], q); d.InUse != 0 {
		t.Errorf("%d leases are held after all were released, want 0", d.InUse)
	}
}

// testAllOrNothing lets refused takes of two kinds race with admitted ones: no sum may be off.
func testAllOrNothing(t *testing.T, o Options) {
	stores := o.clients(t, 4)
	key := signpost.KeyOf(unused(), "link")
	bound := signpost.MustParseBound("20/min 50/hour 5 concurrent")
	var (
		turn  atomic.Int64
		spent atomic.Int64
		held  atomic.Int64
	)
	together(t, stores, func(s signpost.Store) {
		i := turn.Add(1)
		q := signpost.Request{Key: key, Bound: bound, Cost: uint32(1 + i%3), Expensive: i%2 == 0, LeaseID: signpost.NewLeaseID(), At: t0}
		d, _, err := s.Take(t.Context(), q)
		if err != nil {
			t.Errorf("take: %v", err)
			return
		}
		if d.Admitted {
			spent.Add(int64(q.Cost))
			if q.Expensive {
				held.Add(1)
			}
		}
	})
	d := peek(t, stores[0], signpost.Request{Key: key, Bound: bound, Expensive: true, At: t0})
	minute, hour := int64(d.Windows()[0].Used), int64(d.Windows()[1].Used)
	if minute != spent.Load() || hour != spent.Load() || minute > 20 {
		t.Errorf("the minute has %d and the hour %d used, want the %d that were admitted, at most 20", minute, hour, spent.Load())
	}
	if int64(d.InUse) != held.Load() || held.Load() > 5 {
		t.Errorf("%d leases are held, want the %d that were granted, at most 5", d.InUse, held.Load())
	}
}
