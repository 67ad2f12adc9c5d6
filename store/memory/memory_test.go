// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/memory"
	"github.com/signposthq/signpost/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Options{
		Open: func(testing.TB) signpost.Store { return memory.New(memory.Options{}) },
	})
}

// t0 is 2026-01-15T10:00:00Z, where a minute and an hour begin.
const t0 signpost.Instant = 1768471200000

var five = signpost.MustParseBound("5/min 1000/hour 10 concurrent")

func numbered(i int) signpost.Key {
	var text [8]byte
	binary.BigEndian.PutUint64(text[:], uint64(i))
	return signpost.KeyOf("numbered", string(text[:]))
}

// take charges 1 to a key, and reports whether that was admitted.
func take(t testing.TB, s *memory.Store, k signpost.Key, at signpost.Instant) bool {
	t.Helper()
	d, _, err := s.Take(t.Context(), signpost.Request{Key: k, Bound: five, At: at})
	if err != nil {
		t.Fatal(err)
	}
	return d.Admitted
}

// full returns a store of 1,024 keys that is about to clear: full of keys, the first of which has used up its minute.
func full(t *testing.T) (s *memory.Store, cleared *int) {
	t.Helper()
	cleared = new(int)
	s = memory.New(memory.Options{MaxKeys: 1024, OnClear: func() { *cleared++ }})
	for range 5 {
		take(t, s, numbered(0), t0)
	}
	for i := 1; i < 1024; i++ {
		take(t, s, numbered(i), t0)
	}
	if s.Len() != 1024 || *cleared != 0 {
		t.Fatalf("%d keys are held after 1,024, cleared %d times; want all, and never", s.Len(), *cleared)
	}
	return s, cleared
}

func TestClearsAtTheKeyThatIsOneTooMany(t *testing.T) {
	s, cleared := full(t)
	for i := range 1024 { // those that are held take no room
		if admitted := take(t, s, numbered(i), t0); admitted == (i == 0) {
			t.Fatalf("key %d: admitted=%v", i, admitted)
		}
	}
	if *cleared != 0 {
		t.Fatalf("cleared %d times before a new key came", *cleared)
	}
	if !take(t, s, numbered(1024), t0) {
		t.Error("the 1,025th key was refused")
	}
	if s.Len() != 1 || *cleared != 1 {
		t.Errorf("%d keys after the 1,025th, cleared %d times; want 1 and once", s.Len(), *cleared)
	}
	if !take(t, s, numbered(0), t0) {
		t.Error("the first key was refused after the store was cleared")
	}
}

// What nothing is charged to needs no room: it must not clear the store.
func TestNewKeysThatAreRefusedOrOnlyLookedAtTakeNoRoom(t *testing.T) {
	s, cleared := full(t)
	ctx := t.Context()
	for i := range 100 {
		k := numbered(5000 + i)
		if d, _, err := s.Take(ctx, signpost.Request{Key: k, Bound: five, Cost: 6, At: t0}); err != nil || d.Admitted {
			t.Fatalf("a cost above the limit: %+v, %v", d, err)
		}
		if d, _, err := s.Peek(ctx, signpost.Request{Key: k, Bound: five, At: t0}); err != nil || !d.Admitted {
			t.Fatalf("peek: %+v, %v", d, err)
		}
		if in, err := s.Inspect(ctx, k, t0); err != nil || len(in.Counts) != 0 {
			t.Fatalf("inspect: %+v, %v", in, err)
		}
		if _, err := s.Renew(ctx, signpost.Lease{Key: k, ID: signpost.NewLeaseID()}, t0); !errors.Is(err, signpost.ErrLeaseGone) {
			t.Fatalf("renew: %v", err)
		}
		s.Release(signpost.Lease{Key: k, ID: signpost.NewLeaseID()})
		if err := s.Reset(ctx, k); err != nil {
			t.Fatalf("reset: %v", err)
		}
		if err := s.Settle(ctx, k, t0, []signpost.Count{{Len: time.Minute, Start: t0, Used: 1}}); err != nil {
			t.Fatalf("settle: %v", err)
		}
	}
	if s.Len() != 1024 || *cleared != 0 || take(t, s, numbered(0), t0) {
		t.Errorf("%d keys are held, cleared %d times; want 1,024 and never, and the first key still full", s.Len(), *cleared)
	}
}

// The leases that were lost with a clearing are given back later. That frees nobody else's slot.
func TestLateReleasesAfterAClearing(t *testing.T) {
	s := memory.New(memory.Options{MaxKeys: 1})
	q := signpost.Request{Key: numbered(0), Bound: signpost.MustParseBound("600/min 10 concurrent"), Expensive: true, At: t0}
	hold := func() (leases []signpost.Lease) {
		for range 10 {
			q.LeaseID = signpost.NewLeaseID()
			d, _, err := s.Take(t.Context(), q)
			if err != nil || !d.Admitted {
				t.Fatalf("take: %+v, %v", d, err)
			}
			leases = append(leases, d.Lease)
		}
		return leases
	}
	before := hold()
	take(t, s, numbered(1), t0)
	hold()
	for _, l := range before {
		s.Release(l)
	}
	if d, _, err := s.Peek(t.Context(), q); err != nil || d.Admitted || d.InUse != 10 {
		t.Errorf("after late releases: %+v, %v; want 10 in use", d, err)
	}
}

func TestEndedKeysMakeRoomBeforeTheStoreIsCleared(t *testing.T) {
	cleared := 0
	s := memory.New(memory.Options{MaxKeys: 1024, OnClear: func() { cleared++ }})
	minute := signpost.MustParseBound("5/min")
	for i := range 1024 {
		q := signpost.Request{Key: numbered(i), Bound: five, At: t0}
		if i >= 500 {
			q.Bound = minute // over at the end of the minute
		}
		if d, _, err := s.Take(t.Context(), q); err != nil || !d.Admitted {
			t.Fatalf("take: %+v, %v", d, err)
		}
	}
	take(t, s, numbered(1024), t0.Add(time.Minute))
	if s.Len() != 501 || cleared != 0 {
		t.Errorf("%d keys after the minute, cleared %d times; want the 500 with an open hour and the new one, and never", s.Len(), cleared)
	}
}

func TestSweep(t *testing.T) {
	s := memory.New(memory.Options{})
	minute := signpost.MustParseBound("5/min 10 concurrent")
	for i := range 100 {
		q := signpost.Request{Key: numbered(i), Bound: minute, At: t0.Add(45 * time.Second), Expensive: i < 10, LeaseID: signpost.NewLeaseID()}
		if d, _, err := s.Take(t.Context(), q); err != nil || !d.Admitted {
			t.Fatalf("take: %+v, %v", d, err)
		}
	}
	for _, step := range []struct {
		at            signpost.Instant
		dropped, left int
	}{
		{t0.Add(59999 * time.Millisecond), 0, 100},
		{t0.Add(60 * time.Second), 90, 10}, // ten have a lease
		{t0.Add(74999 * time.Millisecond), 0, 10},
		{t0.Add(75 * time.Second), 10, 0},
	} {
		if dropped := s.Sweep(step.at); dropped != step.dropped || s.Len() != step.left {
			t.Errorf("swept %d at %d, %d left; want %d and %d", dropped, step.at, s.Len(), step.dropped, step.left)
		}
	}
}

// A stream of strangers, each seen once, must not pile up: new keys drop old ones.
func TestOneShotKeysDoNotPileUp(t *testing.T) {
	s := memory.New(memory.Options{})
	minute := signpost.MustParseBound("5/min")
	const perMinute = 1000
	for i := range 10 * perMinute {
		at := t0.Add(time.Duration(i) * time.Minute / perMinute)
		if _, _, err := s.Take(t.Context(), signpost.Request{Key: numbered(i), Bound: minute, At: at}); err != nil {
			t.Fatal(err)
		}
	}
	// In the middle of a minute, all of the minute's keys are open. A quarter more may be over, and some slack.
	if s.Len() > perMinute*2 {
		t.Errorf("%d keys are held of %d a minute", s.Len(), perMinute)
	}
}

func TestSettleStartsAKey(t *testing.T) {
	s := memory.New(memory.Options{MaxKeys: 1})
	ended := []signpost.Count{{Len: time.Minute, Start: t0.Add(-time.Minute), Used: 3}}
	open := []signpost.Count{{Len: time.Minute, Start: t0, Used: 3}}
	for _, step := range []struct {
		k      signpost.Key
		counts []signpost.Count
		want   int
	}{{numbered(0), ended, 0}, {numbered(0), open, 1}, {numbered(1), open, 1}} {
		if err := s.Settle(t.Context(), step.k, t0, step.counts); err != nil || s.Len() != step.want {
			t.Errorf("settle %v: %d keys, %v; want %d", step.counts, s.Len(), err, step.want)
		}
	}
	if d, _, err := s.Peek(t.Context(), signpost.Request{Key: numbered(0), Bound: five, At: t0}); err != nil || d.Windows()[0].Used != 3 {
		t.Errorf("peek: %+v, %v; want 3 used", d, err)
	}
}

func TestNewKeysFromManyGoroutines(t *testing.T) {
	var cleared atomic.Int64
	s := memory.New(memory.Options{MaxKeys: 100, OnClear: func() { cleared.Add(1) }})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				if !take(t, s, numbered(g*1000+i), t0) {
					t.Errorf("a new key was refused")
				}
			}
		})
	}
	wg.Wait()
	if n := s.Len(); n < 1 || n > 100 {
		t.Errorf("%d keys are held of at most 100", n)
	}
	if n := cleared.Load(); n < 8000/100-8 || n > 8000/(100-8) { // a caller that waits for room is counted as a key for a moment
		t.Errorf("cleared %d times for 8,000 keys of 100, want about 80", n)
	}
	dropped := s.Sweep(t0.Add(time.Hour))
	if s.Len() != 0 {
		t.Errorf("swept %d, and %d are counted that are not there", dropped, s.Len())
	}
}

func TestCloseWhileOthersTake(t *testing.T) {
	s := memory.New(memory.Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				d, _, err := s.Take(t.Context(), signpost.Request{Key: numbered(g), Bound: five, At: t0})
				if errors.Is(err, signpost.ErrClosed) {
					return
				}
				if err != nil || d.Admitted != (i < 5) {
					t.Errorf("take %d: %+v, %v", i, d, err)
					return
				}
			}
		})
	}
	runtime.Gosched()
	for range 2 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
		before := runtime.NumGoroutine()
		s := memory.New(memory.Options{})
		take(t, s, numbered(0), t0)
		if now := runtime.NumGoroutine(); now > before { // one of another test may have ended
			t.Errorf("%d goroutines, %d before the store", now, before)
		}
		s.Close()
	})
}
