// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"runtime"
	"testing"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/memory"
)

// The cost of a take is guarded by counting: once a key is there, no take, refusal, peek or release allocates.
func TestNothingIsAllocated(t *testing.T) {
	s := memory.New(memory.Options{})
	ctx := t.Context()
	roomy, denied := signpost.MustParseBound("4294967294/min 4294967294/hour 10 concurrent"), signpost.MustParseBound("0/min 0/hour 0 concurrent")
	cheap := signpost.Request{Key: numbered(1), Bound: roomy}
	expensive := signpost.Request{Key: numbered(2), Bound: roomy, Expensive: true, LeaseID: signpost.LeaseID{1}}
	refused := signpost.Request{Key: numbered(1), Bound: denied, Expensive: true}
	four := signpost.Request{Key: numbered(3), Bound: signpost.MustParseBound("4294967294/s 4294967294/min 4294967294/hour 4294967294/day")}
	clock := signpost.InstantOf(t0.Time())
	for _, test := range []struct {
		name string
		f    func() (signpost.Decision, signpost.Commit, error)
		want bool
	}{
		{"cheap take", func() (signpost.Decision, signpost.Commit, error) { return s.Take(ctx, cheap) }, true},
		{"expensive take and its release", func() (signpost.Decision, signpost.Commit, error) {
			d, c, err := s.Take(ctx, expensive)
			s.Release(d.Lease)
			return d, c, err
		}, true},
		{"take of four windows", func() (signpost.Decision, signpost.Commit, error) { return s.Take(ctx, four) }, true},
		{"take in a new minute each time", func() (signpost.Decision, signpost.Commit, error) {
			clock += 60_000
			q := cheap
			q.Key, q.At = numbered(4), clock
			return s.Take(ctx, q)
		}, true},
		{"refused take", func() (signpost.Decision, signpost.Commit, error) { return s.Take(ctx, refused) }, false},
		{"peek", func() (signpost.Decision, signpost.Commit, error) { return s.Peek(ctx, cheap) }, true},
	} {
		var admitted bool
		allocated := testing.AllocsPerRun(200, func() {
			d, _, err := test.f()
			admitted = d.Admitted && err == nil
		})
		if allocated != 0 || admitted != test.want {
			t.Errorf("%s: %v allocations, admitted=%v; want none, and %v", test.name, allocated, admitted, test.want)
		}
	}
}

// A key of two windows takes at most the 150 bytes that the documentation promises.
func TestMemoryOfAKey(t *testing.T) {
	keys := 1_000_000
	if underRace {
		keys = 20_000
	}
	before := heap()
	s := memory.New(memory.Options{})
	for i := range keys {
		take(t, s, numbered(i), t0)
	}
	perKey := float64(heap()-before) / float64(keys) // below 0 if what an earlier test has left was dropped
	if s.Len() != keys {
		t.Fatalf("%d keys are held of %d", s.Len(), keys)
	}
	t.Logf("%.0f bytes a key", perKey)
	if perKey > 150 {
		t.Errorf("a key takes %.0f bytes, want at most 150", perKey)
	}
	runtime.KeepAlive(s)
}

// heap returns the bytes that are in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
