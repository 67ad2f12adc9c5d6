// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/signposthq/signpost"
)

// load is what one process does to the store together with others: many takers on many keys for a while.
type load struct {
	Prefix string
	Kinds  []kind
	Takers int
	For    time.Duration
}

// kind is a number of keys, and how they are asked for.
type kind struct {
	Keys   int
	Bounds []string // each take is held to any one of them
	Costs  []uint32 // and has any one of these
	Leases bool
}

// keyID names a key of a load.
type keyID struct{ Kind, Key int }

func (l *load) key(id keyID) signpost.Key {
	return signpost.KeyOf(l.Prefix, fmt.Sprint(id.Kind, " ", id.Key))
}

// seen is everything that the takers of a process were told.
type seen struct {
	Takes, Admitted int
	Unwell          int // how often the server did not answer in time
	Faults          []string
	Windows         map[windowID]*tally
	Leases          map[keyID][]slot
}

// windowID is one interval of one window of a key.
type windowID struct {
	Key   keyID
	Len   time.Duration
	Start signpost.Instant
}

// tally is what was told of one interval.
type tally struct {
	Charged []count
	Looked  map[look]int
}

// count is an admission: Used with its cost.
type count struct{ Used, Cost, Limit uint32 }

// look is what another take was told.
type look struct {
	Count   count
	Refused bool
}

// slot is what a take was told of the leases that were alive. Times are those of the clock that all processes share.
type slot struct {
	Call, Return   int64
	InUse, Allowed int32
	Granted        bool
	Release, Gone  int64 // of a lease: when it was given back, and when that was seen to have arrived
}

const maxFaults = 5

type recorder struct {
	mu sync.Mutex
	seen
}

func (r *recorder) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

// run loads a store.
func (l *load) run(ctx context.Context, s store) *seen {
	r := &recorder{seen: seen{Windows: map[windowID]*tally{}, Leases: map[keyID][]slot{}}}
	bounds := make([][]signpost.Bound, len(l.Kinds))
	for i, k := range l.Kinds {
		for _, text := range k.Bounds {
			bounds[i] = append(bounds[i], signpost.MustParseBound(text))
		}
	}
	var wg sync.WaitGroup
	end := time.Now().Add(l.For)
	for i := range l.Takers {
		wg.Go(func() {
			<-time.After(rand.N(200 * time.Millisecond))
			// The first half of the takers spread over all keys, the others stay with those of one kind.
			for n := 0; time.Now().Before(end); time.Sleep(rand.N(200 * time.Millisecond)) {
				at := i % len(l.Kinds)
				if i < l.Takers/2 {
					at = n % len(l.Kinds)
				}
				n++
				k := &l.Kinds[at]
				id := keyID{at, rand.IntN(k.Keys)}
				q := signpost.Request{Key: l.key(id), Bound: bounds[at][rand.IntN(len(k.Bounds))], Cost: k.Costs[rand.IntN(len(k.Costs))], Expensive: k.Leases}
				l.take(ctx, s, r, id, q)
			}
		})
	}
	wg.Wait()
	return &r.seen
}

// take takes once, and holds what it is granted for a moment.
func (l *load) take(ctx context.Context, s store, r *recorder, id keyID, q signpost.Request) {
	if q.Expensive {
		q.LeaseID = signpost.NewLeaseID()
	}
	told := slot{Call: elapsed()}
	d, _, err := s.Take(ctx, q)
	told.Return = elapsed()
	switch {
	case errors.Is(err, signpost.ErrUnreachable), err == nil && d.Degraded:
		r.mu.Lock()
		r.Unwell++
		r.mu.Unlock()
		return
	case err != nil:
		r.fault("take: %v", err)
		return
	}
	r.note(id, &q, &d)
	if !q.Expensive || !d.Admitted && !d.ConcurrencyRefused {
		return // a window that is known to be full says nothing of leases
	}
	told.InUse, told.Allowed, told.Granted = d.InUse, d.Concurrent, d.Admitted
	if d.Admitted {
		<-time.After(rand.N(20 * time.Millisecond)) // the work
		told.Release = elapsed()
		s.Release(d.Lease)
		if !gone(ctx, s, d.Lease) {
			r.fault("a lease that was given back was still alive %v later", liveness)
		}
		told.Gone = elapsed()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Leases[id] = append(r.Leases[id], told)
}

// gone waits until a lease is not held any more.
func gone(ctx context.Context, s store, l signpost.Lease) bool {
	for end := time.Now().Add(liveness); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		in, err := s.Inspect(ctx, l.Key, 0)
		held := err != nil
		for _, one := range in.Leases {
			held = held || one.ID == l.ID
		}
		if !held {
			return true
		}
	}
	return false
}

// note writes down a decision, and looks whether it makes sense by itself.
func (r *recorder) note(id keyID, q *signpost.Request, d *signpost.Decision) {
	refused := d.ConcurrencyRefused
	longest := time.Duration(0)
	for _, w := range d.Windows() {
		if d.At < w.Start || d.At >= w.Reset() {
			r.fault("judged at %d in the %v from %d: nobody's clock has been set back", d.At, w.Len, w.Start)
		}
		if w.Refused {
			refused, longest = true, w.Len
		}
	}
	if d.ConcurrencyRefused {
		longest = max(longest, signpost.LeaseLife)
	}
	switch wait := d.RetryAfter(); {
	case d.ClockFault:
		r.fault("a fault of a clock at %d", d.At)
	case d.Admitted == refused:
		r.fault("admitted=%v, refused by a bound=%v", d.Admitted, refused)
	case refused && (wait <= 0 || wait > longest), !refused && wait != 0:
		r.fault("a wait of %v, of at most %v", wait, longest)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.Takes++
	if d.Admitted {
		r.Admitted++
	}
	for _, w := range d.Windows() {
		t := r.tally(windowID{id, w.Len, w.Start})
		c := count{w.Used, max(q.Cost, 1), w.Limit}
		if d.Admitted {
			t.Charged = append(t.Charged, c)
		} else {
			t.Looked[look{c, w.Refused}]++
		}
	}
}

// tally returns that of an interval, a new one if there is none. Who shares the seen holds its lock.
func (s *seen) tally(id windowID) *tally {
	t := s.Windows[id]
	if t == nil {
		t = &tally{Looked: map[look]int{}}
		s.Windows[id] = t
	}
	return t
}
