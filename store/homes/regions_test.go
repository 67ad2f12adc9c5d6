// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package homes_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/homes"
	"github.com/signposthq/signpost/store/redis"
)

// patience is how long anything may take that happens by itself.
const patience = 20 * time.Second

// patientOfServer is long enough for a server on a machine that is busy, with an ocean before it.
const patientOfServer = 2 * time.Second

// region is a process that reaches a server for each home, its own at once and the others late.
type region struct {
	*homes.Store
	mu     sync.Mutex
	down   map[string]bool // by home
	strays atomic.Int64    // calls for a home that is not known
}

func newRegion(t *testing.T, urls map[signpost.Home]string) *region {
	t.Helper()
	r := &region{down: map[string]bool{}}
	guarded := func(name string, inner signpost.Store) signpost.Store {
		s, err := failopen.New(inner, failopen.Options{Timeout: patientOfServer, Hooks: failopen.Hooks{
			Degraded: func(string, failopen.Kind, error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.down[name] = true
			},
			Failed: func(_ string, kind failopen.Kind, _ error) {
				if kind == failopen.Home {
					r.strays.Add(1)
				}
			},
			Healed: func(string, time.Duration) {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.down, name)
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	at := map[signpost.Home]signpost.Store{}
	for h, url := range urls {
		inner, err := redis.Open(t.Context(), redis.Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		at[h] = guarded(h.String(), inner)
	}
	var err error
	if r.Store, err = homes.New(at, guarded("elsewhere", homes.Nowhere())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func (r *region) isDown(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.down[name]
}

func (r *region) take(t *testing.T, q signpost.Request) signpost.Decision {
	t.Helper()
	d, _, err := r.Take(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// TestRegions is two regions with a server each, and an ocean between them. A key of one is counted there from both, once; a
// key of the other never waits for the ocean; and a home that is lost takes only its own keys with it.
func TestRegions(t *testing.T) {
	const ocean = 60 * time.Millisecond // one way
	servers := map[signpost.Home]*redistest.Server{eu: redistest.Start(t), us: redistest.Start(t)}
	toEU, toUS := redistest.NewProxy(t, servers[eu].Addr), redistest.NewProxy(t, servers[us].Addr)
	toEU.Delay(ocean)
	toUS.Delay(ocean)
	inEU := newRegion(t, map[signpost.Home]string{eu: servers[eu].URL(), us: toUS.URL()})
	inUS := newRegion(t, map[signpost.Home]string{eu: toEU.URL(), us: servers[us].URL()})

	bound := signpost.MustParseBound("100/366d 3 concurrent")
	of := func(h signpost.Home) signpost.Request {
		return signpost.Request{Key: signpost.KeyOf("link", "x").In(h), Bound: bound}
	}
	inUS.take(t, of(eu)) // connections are made
	inEU.take(t, of(us))

	// 150 takes of one key, from both sides at once: 100 pass altogether.
	var mu sync.Mutex
	admitted := 1
	var all sync.WaitGroup
	for _, r := range []*region{inEU, inUS} {
		for range 5 {
			all.Go(func() {
				for range 15 {
					d, _, err := r.Take(t.Context(), of(eu))
					mu.Lock()
					if err != nil || d.Degraded {
						t.Errorf("degraded=%v error=%v", d.Degraded, err)
					}
					if d.Admitted {
						admitted++
					}
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	if admitted != 100 {
		t.Errorf("%d admitted of 100", admitted)
	}

	// The ocean costs the keys of the other side a round trip, and those of this side nothing: their server
	// sees the takes, the proxy none.
	begin := time.Now()
	inEU.take(t, of(us))
	if took := time.Since(begin); took < 2*ocean {
		t.Errorf("a take across took %v, less than the way there and back", took)
	}
	toUS.Lose(true) // what goes across now shows
	// From across, the home is lost: local rules, visibly. What was never sent is added when the way is back.
	const lost = 5
	for range lost { // at once, as the first is to be sent before the end of the connection is noticed
		d := inEU.take(t, of(us))
		if !d.Degraded || !d.Admitted {
			t.Errorf("across a lost way: degraded=%v admitted=%v, want both", d.Degraded, d.Admitted)
		}
	}
	for range 20 {
		if d := inUS.take(t, of(us)); d.Degraded {
			t.Fatal("a take at home is degraded though only the way across is lost")
		}
		if d := inEU.take(t, of(eu)); d.Degraded {
			t.Fatal("a take at home is degraded though only the way across is lost")
		}
	}
	eventually(t, "the region was told that us is down", func() bool { return inEU.isDown("us") }) // a moment after its callers
	if inEU.isDown("eu") {
		t.Error("the region's own home is down, though only the way across is lost")
	}
	toUS.Lose(false)
	eventually(t, "the way is back", func() bool { return !inEU.isDown("us") })
	eventually(t, "the debt is settled", func() bool {
		in, err := inUS.Inspect(t.Context(), of(us).Key, 0)
		// Before the outage 2, at home 20, and all of the outage but the one that was on its way.
		return err == nil && len(in.Counts) == 1 && in.Counts[0].Used == 2+20+lost-1
	})

	// A home that stops takes its own keys with it, from both sides, and nobody else's.
	servers[eu].Freeze()
	asks := of(eu)
	asks.Key = signpost.KeyOf("link", "not full").In(eu) // so that no region refuses it by itself
	for _, r := range []*region{inEU, inUS} {
		if d := r.take(t, asks); !d.Degraded {
			t.Error("a take at a home that is frozen is not degraded")
		}
		if d := r.take(t, of(us)); d.Degraded {
			t.Error("a take at the other home is degraded")
		}
	}
	servers[eu].Thaw()
	for _, r := range []*region{inEU, inUS} {
		eventually(t, "the home is back", func() bool { return !r.isDown("eu") && !r.take(t, of(eu)).Degraded })
		if d := r.take(t, of(eu)); d.Admitted {
			t.Error("the count of 100 was lost")
		}
	}

	// A home that this process does not know is decided locally, and says so.
	mars := of(home("mars"))
	for i := range 101 {
		if d := inEU.take(t, mars); !d.Degraded || d.Admitted != (i < 100) {
			t.Fatalf("take %d at an unknown home: degraded=%v admitted=%v", i, d.Degraded, d.Admitted)
		}
	}
	if n := inEU.strays.Load(); n != 101 || inEU.isDown("elsewhere") {
		t.Errorf("the region was told of %d takes at an unknown home, outage=%v; want 101 and none", n, inEU.isDown("elsewhere"))
	}

	// A lease goes back to its home from wherever it is released.
	slow := of(us)
	slow.Expensive, slow.LeaseID = true, signpost.NewLeaseID()
	d := inEU.take(t, slow)
	if d.Lease.IsZero() {
		t.Fatalf("no lease: %+v", d)
	}
	text, err := d.Lease.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var travelled signpost.Lease
	if err := travelled.UnmarshalText(text); err != nil {
		t.Fatal(err)
	}
	inUS.Release(travelled)
	eventually(t, "the lease is back", func() bool {
		in, err := inUS.Inspect(t.Context(), slow.Key, 0)
		return err == nil && len(in.Leases) == 0
	})
}
