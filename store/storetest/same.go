// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/signposthq/signpost"
)

// Same feeds random streams of operations to every store and to the model, and wants the same answers from all:
// takes and peeks of changing bounds and costs, releases, renewals, resets, settling and inspections, on a
// clock that stands still, runs, jumps ahead and is set back. Whether an answer is degraded is not compared, so a store that
// is wrapped, or a fallback, can be among them. What a store lacks is left out for all of them.
//
// A failing stream is made as short as it can be, and printed with a seed that brings it back (-rapid.seed).
func Same(t *testing.T, open map[string]func(testing.TB) signpost.Store) {
	stores := map[string]signpost.Store{}
	for name, f := range open {
		stores[name] = f(t)
		closeAtEnd(t, stores[name])
	}
	names := slices.Sorted(maps.Keys(stores))
	kinds := shared(t, stores)
	rapid.Check(t, func(rt *rapid.T) {
		// One key a stream: a store may drop a key that has ended when it is given another one.
		key := signpost.KeyOf(unused(), "link")
		m, now := newModel(), t0.Add(time.Duration(rapid.IntRange(0, 7_200_000).Draw(rt, "begin"))*time.Millisecond)
		var granted []signpost.LeaseID
		held := map[string]leases{}
		for _, name := range names {
			held[name] = leases{}
		}
		for range rapid.IntRange(1, 40).Draw(rt, "length") {
			now = moved.Draw(rt, "clock")(now)
			o := drawOperation(rt, kinds, key, now, granted)
			want := o.model(m)
			rt.Logf("%v\n%s", o, want)
			for _, name := range names {
				got, err := o.store(t, stores[name], held[name])
				if err != nil {
					rt.Fatalf("%s: %v: %v", name, o, err)
				}
				if got != want {
					rt.Fatalf("%s: %v\n got %s\nwant %s\nstate before or after: %v", name, o, got, want, m)
				}
			}
			if o.kind == opTake && o.q.Expensive {
				granted = append(granted, o.q.LeaseID)
			}
		}
	})
}

// shared returns the kinds of operations that all stores can do, the frequent ones several times.
func shared(t *testing.T, stores map[string]signpost.Store) []opKind {
	t.Helper()
	kinds := []opKind{opTake, opTake, opTake, opTake, opTake, opTake, opTake, opTake, opTake, opPeek, opPeek, opRelease, opRelease}
	for _, kind := range []opKind{opRenew, opReset, opSettle, opInspect} {
		all := true
		for name, s := range stores {
			o := operation{kind: kind, q: signpost.Request{Key: signpost.KeyOf(unused(), "link"), At: t0}}
			_, err := o.store(t, s, nil)
			if errors.Is(err, errors.ErrUnsupported) {
				all = false
			} else if err != nil {
				t.Fatalf("%s: %v: %v", name, o, err)
			}
		}
		if all {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func testModel(t *testing.T, o Options) {
	Same(t, map[string]func(testing.TB) signpost.Store{"store": o.Open})
}

type opKind int

const (
	opTake opKind = iota
	opPeek
	opRelease
	opRenew
	opReset
	opSettle
	opInspect
)

// operation is one call, and everything that goes into it.
type operation struct {
	kind   opKind
	q      signpost.Request // its key, lease and instant are those of the call
	counts []signpost.Count
}

// leases are what a store granted, as it said it: a wrapper leaves marks of its own in them.
type leases map[signpost.LeaseID]signpost.Lease

func (l leases) of(q *signpost.Request) signpost.Lease {
	if granted, ok := l[q.LeaseID]; ok {
		return granted
	}
	return signpost.Lease{Key: q.Key, ID: q.LeaseID}
}

func (o operation) String() string {
	switch o.kind {
	case opTake, opPeek:
		return fmt.Sprintf("%s at %d, bound %v, cost %d, expensive=%v", o.kind, o.q.At, o.q.Bound, o.q.Cost, o.q.Expensive)
	case opRelease, opRenew:
		return fmt.Sprintf("%s at %d, lease %x", o.kind, o.q.At, o.q.LeaseID)
	default:
		return fmt.Sprintf("%s at %d, counts %v", o.kind, o.q.At, o.counts)
	}
}

func (k opKind) String() string {
	return [...]string{"take", "peek", "release", "renew", "reset", "settle", "inspect"}[k]
}

// model does the operation on the model, and writes down the answer.
func (o operation) model(m *model) string {
	switch o.kind {
	case opTake:
		return m.take(&o.q).String()
	case opPeek:
		return m.peek(&o.q).String()
	case opRelease:
		m.release(o.q.LeaseID)
		return ""
	case opRenew:
		expires, ok := m.renew(o.q.LeaseID, o.q.At)
		return renewalText(expires, ok)
	case opReset:
		m.reset()
		return ""
	case opSettle:
		m.settle(o.q.At, o.counts)
		return ""
	default:
		return inspectionText(m.inspect(o.q.Key, o.q.At))
	}
}

// store does the operation on a store, and writes down the answer in the same way. A lease that is granted is
// kept for its release.
func (o operation) store(t testing.TB, s signpost.Store, l leases) (string, error) {
	ctx := t.Context()
	switch o.kind {
	case opTake:
		d, _, err := s.Take(ctx, o.q)
		if !d.Lease.IsZero() {
			l[d.Lease.ID] = d.Lease
		}
		return verdictOf(&d).String(), err
	case opPeek:
		d, _, err := s.Peek(ctx, o.q)
		return verdictOf(&d).String(), err
	case opRelease:
		release(t, s, l.of(&o.q))
		return "", nil
	case opRenew:
		if r, ok := s.(signpost.Renewer); ok {
			renewed, err := r.Renew(ctx, l.of(&o.q), o.q.At)
			if errors.Is(err, signpost.ErrLeaseGone) {
				return renewalText(0, false), nil
			}
			return renewalText(renewed.Expires, true), err
		}
	case opReset:
		if r, ok := s.(signpost.Resetter); ok {
			return "", r.Reset(ctx, o.q.Key)
		}
	case opSettle:
		if r, ok := s.(signpost.Settler); ok {
			return "", r.Settle(ctx, o.q.Key, o.q.At, o.counts)
		}
	case opInspect:
		if r, ok := s.(signpost.Inspector); ok {
			in, err := r.Inspect(ctx, o.q.Key, o.q.At)
			return inspectionText(in), err
		}
	}
	return "", errors.ErrUnsupported
}

func renewalText(expires signpost.Instant, ok bool) string {
	return fmt.Sprintf("lease until %d, alive=%v", expires, ok)
}

// moved draws what happens to the clock between two operations.
var moved = rapid.Custom(func(t *rapid.T) func(signpost.Instant) signpost.Instant {
	by := func(d time.Duration) func(signpost.Instant) signpost.Instant {
		return func(now signpost.Instant) signpost.Instant { return max(1, now.Add(d)) }
	}
	const year = 365 * 24 * time.Hour
	switch rapid.IntRange(0, 19).Draw(t, "move") {
	case 0, 1, 2, 3, 4, 5:
		return by(0)
	case 6, 7, 8:
		return by(time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond)
	case 9, 10, 11:
		return by(time.Duration(rapid.IntRange(1, 90).Draw(t, "s")) * time.Second)
	case 12:
		return by(time.Duration(rapid.IntRange(1, 48).Draw(t, "h")) * time.Hour)
	case 13, 14: // to an edge, or a millisecond before it
		length := rapid.SampledFrom(lengths).Draw(t, "edge")
		before := signpost.Instant(rapid.IntRange(0, 1).Draw(t, "before"))
		return func(now signpost.Instant) signpost.Instant {
			ms := signpost.Instant(length.Milliseconds())
			return (now/ms+1)*ms - before
		}
	case 15, 16:
		return by(-time.Duration(rapid.IntRange(1, 5000).Draw(t, "back ms")) * time.Millisecond)
	case 17:
		return by(-time.Duration(rapid.IntRange(5, 600).Draw(t, "back s")) * time.Second)
	case 18:
		return by(-time.Duration(rapid.IntRange(1, 400).Draw(t, "back h")) * time.Hour)
	default:
		return by(rapid.SampledFrom([]time.Duration{year, -year}).Draw(t, "fault"))
	}
})

// lengths are more than a key holds.
var lengths = []time.Duration{
	time.Second, 2 * time.Second, 10 * time.Second, 20 * time.Second, time.Minute, 90 * time.Second,
	5 * time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, signpost.MaxWindowLen,
}

var bounds = rapid.Custom(func(t *rapid.T) signpost.Bound {
	var ws []signpost.Window
	n := rapid.IntRange(1, signpost.MaxWindows).Draw(t, "windows")
	chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(lengths), n, n, rapid.ID[time.Duration]).Draw(t, "lengths")
	slices.Sort(chosen)
	limit := 0
	for _, length := range chosen {
		limit += rapid.IntRange(0, 5).Draw(t, "more")
		ws = append(ws, signpost.Window{Len: length, Limit: uint32(limit)})
	}
	b, err := signpost.NewBound(rapid.IntRange(0, 3).Draw(t, "concurrent"), ws...)
	if err != nil {
		t.Fatalf("make a bound: %v", err)
	}
	return b
})

func drawOperation(t *rapid.T, kinds []opKind, key signpost.Key, now signpost.Instant, granted []signpost.LeaseID) operation {
	o := operation{kind: rapid.SampledFrom(kinds).Draw(t, "op"), q: signpost.Request{Key: key, At: now, LeaseID: signpost.NewLeaseID()}}
	switch o.kind {
	case opTake, opPeek:
		o.q.Bound = bounds.Draw(t, "bound")
		o.q.Cost = rapid.SampledFrom([]uint32{0, 0, 1, 1, 2, 5, 1<<32 - 1}).Draw(t, "cost")
		o.q.Expensive = rapid.Bool().Draw(t, "expensive")
	case opRelease, opRenew:
		if len(granted) > 0 {
			o.q.LeaseID = rapid.SampledFrom(granted).Draw(t, "lease")
		}
	case opSettle:
		length := rapid.SampledFrom(lengths).Draw(t, "length")
		ms := signpost.Instant(length.Milliseconds())
		start := now/ms*ms + ms*signpost.Instant(rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "interval"))
		o.counts = []signpost.Count{{Len: length, Start: start, Used: rapid.SampledFrom([]uint32{1, 3, 1<<32 - 1}).Draw(t, "used")}}
	}
	return o
}
