// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package homes_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/store/homes"
	"github.com/signposthq/signpost/store/memory"
)

var (
	nowhere signpost.Home
	eu, us  = home("eu"), home("us")
)

func home(name string) signpost.Home {
	h, err := signpost.ParseHome(name)
	if err != nil {
		panic(err)
	}
	return h
}

func open(t testing.TB) signpost.Store {
	t.Helper()
	s, err := homes.New(map[signpost.Home]signpost.Store{
		nowhere: memory.New(memory.Options{}), eu: memory.New(memory.Options{}), us: memory.New(memory.Options{}),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEveryCallGoesHome makes every call of a Store, with keys of two homes that differ in nothing else.
func TestEveryCallGoesHome(t *testing.T) {
	s := open(t).(*homes.Store)
	defer s.Close()
	ctx := t.Context()
	const now signpost.Instant = 1768471200000
	q := signpost.Request{Bound: signpost.MustParseBound("5/min 1 concurrent"), Expensive: true, At: now}
	used := func(h signpost.Home) (n uint32, leases int) {
		t.Helper()
		in, err := s.Inspect(ctx, signpost.KeyOf("link", "x").In(h), now)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range in.Counts {
			n += c.Used
		}
		return n, len(in.Leases)
	}
	want := func(what string, h signpost.Home, wantUsed uint32, wantLeases int) {
		t.Helper()
		if n, leases := used(h); n != wantUsed || leases != wantLeases {
			t.Errorf("%s: home %q has %d used and %d leases, want %d and %d", what, h, n, leases, wantUsed, wantLeases)
		}
	}

	held := map[signpost.Home]signpost.Lease{}
	for _, h := range []signpost.Home{nowhere, eu, us} { // each has its one slot
		q.Key, q.LeaseID = signpost.KeyOf("link", "x").In(h), signpost.LeaseID{1}
		d, _, err := s.Take(ctx, q)
		if err != nil || !d.Admitted {
			t.Fatalf("take at home %q: admitted=%v error=%v", h, d.Admitted, err)
		}
		held[h] = d.Lease
	}
	q.Key = q.Key.In(eu)
	if d, _, err := s.Peek(ctx, q); err != nil || d.Admitted || !d.ConcurrencyRefused {
		t.Errorf("peek: admitted=%v concurrency refused=%v error=%v", d.Admitted, d.ConcurrencyRefused, err)
	}
	if l, err := s.Renew(ctx, held[eu], now.Add(1000)); err != nil || l.Key != q.Key {
		t.Errorf("renew: %+v, %v", l, err)
	}
	if err := s.Settle(ctx, q.Key, now, []signpost.Count{{Len: 60e9, Start: now, Used: 3}}); err != nil {
		t.Error(err)
	}
	want("after a settlement elsewhere", us, 1, 1)
	want("after a settlement", eu, 4, 1)
	s.Release(held[eu])
	want("after a release elsewhere", us, 1, 1)
	want("after a release", eu, 4, 0)
	if err := s.Reset(ctx, q.Key); err != nil {
		t.Error(err)
	}
	want("after a reset elsewhere", nowhere, 1, 1)
	want("after a reset elsewhere", us, 1, 1)
	want("after a reset", eu, 0, 0)
	if a, b := s.Slice(q.Key), s.Slice(q.Key.In(us)); a == b {
		t.Errorf("two homes are the one slice %q", a)
	}
}

func TestUnknownHome(t *testing.T) {
	s := open(t)
	defer s.Close()
	q := signpost.Request{Key: signpost.KeyOf("link", "x").In(home("mars")), Bound: signpost.DefaultBound()}
	_, _, err := s.Take(t.Context(), q)
	if !errors.Is(err, signpost.ErrUnknownHome) || !strings.Contains(err.Error(), "mars") {
		t.Errorf("take: %v, want ErrUnknownHome and the home", err)
	}
}

func TestFaults(t *testing.T) {
	if _, err := homes.New(nil, nil); err == nil {
		t.Error("a store of no homes was made")
	}
	if _, err := homes.New(map[signpost.Home]signpost.Store{eu: nil}, nil); err == nil || !strings.Contains(err.Error(), "eu") {
		t.Errorf("a home without a store: error %v, want its name", err)
	}
}

// One guard around all homes is worse than one for each, as all share its fallback, but it too degrades the keys of one home only, for as long as
// that home is away.
func TestOneGuardAroundAll(t *testing.T) {
	down := make(chan string, 10)
	var probes atomic.Int64
	s, err := failopen.New(open(t), failopen.Options{Hooks: failopen.Hooks{
		Degraded: func(slice string, _ failopen.Kind, _ error) { down <- slice },
		Healed:   func(slice string, _ time.Duration) { t.Errorf("%q healed, but it is not there", slice) },
		Failed:   func(string, failopen.Kind, error) { probes.Add(1) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q := signpost.Request{Key: signpost.KeyOf("link", "x"), Bound: signpost.DefaultBound()}
	for _, h := range []signpost.Home{home("mars"), home("venus"), eu} {
		q.Key = q.Key.In(h)
		if d, _, err := s.Take(t.Context(), q); err != nil || d.Degraded != (h != eu) {
			t.Errorf("home %q: degraded=%v error=%v", h, d.Degraded, err)
		}
	}
	if a, b := <-down, <-down; !strings.HasPrefix(a, "mars") || !strings.HasPrefix(b, "venus") {
		t.Errorf("%q and %q are degraded, want mars and venus", a, b)
	}
	eventually(t, "both were probed, and stayed away", func() bool { return probes.Load() > 2+2 })
}
