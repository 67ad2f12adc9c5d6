// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package homes_test

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// leaving is a store that takes a while to close, and then says what was wrong.
type leaving struct {
	signpost.Store
	takes time.Duration
	err   error
}

func (l leaving) Close() error {
	time.Sleep(l.takes)
	return l.err
}

// A program that ends waits for the slowest of its homes and not for their sum, and is told of each that failed.
func TestHomesCloseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := errors.New("first"), errors.New("second")
		s, err := homes.New(map[signpost.Home]signpost.Store{
			nowhere: leaving{takes: 2 * time.Second, err: first}, eu: leaving{takes: 3 * time.Second}, us: leaving{takes: 2 * time.Second},
		}, leaving{takes: 2 * time.Second, err: second})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.Close(); !errors.Is(err, first) || !errors.Is(err, second) {
			t.Errorf("close: %v, want both faults", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("close took %v, want 3s", took)
		}
	})
}

// One guard around all homes is worse than one for each, as all share its fallback, but a home that is not known is no outage there either: its
// keys alone are decided locally, each time that one is met, and nothing has to heal.
func TestOneGuardAroundAll(t *testing.T) {
	met := map[string]int{}
	var mu sync.Mutex
	s, err := failopen.New(open(t), failopen.Options{Timeout: time.Minute, Hooks: failopen.Hooks{
		Degraded: func(slice string, _ failopen.Kind, _ error) {
			t.Errorf("an outage of %q, which nothing would end", slice)
		},
		Failed: func(slice string, kind failopen.Kind, _ error) {
			mu.Lock()
			defer mu.Unlock()
			met[slice+" "+string(kind)]++
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q := signpost.Request{Key: signpost.KeyOf("link", "x"), Bound: signpost.DefaultBound()}
	for _, h := range []signpost.Home{home("mars"), home("venus"), eu, home("mars")} {
		q.Key = q.Key.In(h)
		if d, _, err := s.Take(t.Context(), q); err != nil || d.Degraded != (h != eu) {
			t.Errorf("home %q: degraded=%v error=%v", h, d.Degraded, err)
		}
	}
	s.Close() // after every probe that there may be
	if want := map[string]int{"mars/mars home": 2, "venus/venus home": 1}; !maps.Equal(met, want) {
		t.Errorf("met %v, want %v", met, want)
	}
}
