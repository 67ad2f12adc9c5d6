// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
)

// t0 is 2026-01-15T10:00:00Z, where a minute and an hour begin.
const t0 signpost.Instant = 1768471200000

func after(d time.Duration) signpost.Instant { return t0.Add(d) }

// take charges 1, and fails the test if that is refused.
func take(t *testing.T, s *state.State, at signpost.Instant, bound string, lease signpost.LeaseID) {
	t.Helper()
	q := signpost.Request{Key: signpost.KeyOf("link", "x"), Bound: signpost.MustParseBound(bound), Expensive: lease != signpost.LeaseID{}, LeaseID: lease, At: at}
	var d signpost.Decision
	if s.Take(at, &q, &d); !d.Admitted {
		t.Fatalf("a take of %s at %d was refused: %+v", bound, at, d)
	}
}

// What a store writes down and reads again are the windows that are open, each under its length.
func TestWindowsAndLoad(t *testing.T) {
	var s state.State
	take(t, &s, after(0), "9/10s 9/min 9/hour 9/day", signpost.LeaseID{1})
	take(t, &s, after(30*time.Second), "9/hour 9/7d", signpost.LeaseID{})
	want := []state.Window{
		{Start: t0, Seconds: 60, Used: 1},
		{Start: t0, Seconds: 3600, Used: 2},
		{Start: t0 - 10*3600_000, Seconds: 86400, Used: 1},
		{Start: t0 - 10*3600_000, Seconds: 604800, Used: 1}, // 15 January 2026 is a Thursday
	}
	bySeconds := func(a, b state.Window) int { return int(a.Seconds) - int(b.Seconds) }
	kept := []state.Window{{Seconds: 1}}
	kept = s.Windows(kept, after(30*time.Second))
	slices.SortFunc(kept[1:], bySeconds)
	if !slices.Equal(kept[1:], want) || kept[0].Seconds != 1 {
		t.Fatalf("windows %v, want %v behind what was there", kept, want)
	}

	var loaded state.State
	loaded.Load(kept[1:], after(30*time.Second))
	again := loaded.Windows(nil, after(30*time.Second))
	slices.SortFunc(again, bySeconds)
	if !slices.Equal(again, want) {
		t.Errorf("after loading %v, want %v", again, want)
	}
	if loaded.HasLeases(after(0)) {
		t.Error("a lease was written down")
	}
}

func TestLoadOfAllLengths(t *testing.T) {
	var windows []state.Window
	for i := range state.MaxLengths {
		windows = append(windows, state.Window{Start: t0, Seconds: uint32(10 * (i + 1)), Used: uint32(i + 1)})
	}
	var s state.State
	s.Load(windows, t0)
	if got := s.Windows(nil, t0); len(got) != state.MaxLengths {
		t.Errorf("%d windows after loading %d", len(got), state.MaxLengths)
	}
}

// Settling more lengths than a key holds keeps the first, and breaks nothing.
func TestSettleOfTooManyLengths(t *testing.T) {
	var s state.State
	take(t, &s, t0, "9/11s 9/13s 9/17s 9/19s", signpost.LeaseID{})
	var counts []signpost.Count
	for i := range 12 {
		length := time.Duration(10*(i+1)) * time.Second
		counts = append(counts, signpost.Count{Len: length, Start: t0 - t0%signpost.Instant(length.Milliseconds()), Used: 1})
	}
	s.Settle(t0, counts)
	if got := s.Inspect(signpost.KeyOf("link", "x"), t0).Counts; len(got) != state.MaxLengths {
		t.Errorf("%d lengths are held: %v", len(got), got)
	}
}

func TestEnded(t *testing.T) {
	var s state.State
	if !s.Ended(t0) || s.HasLeases(t0) {
		t.Error("a new state has not ended, or has leases")
	}
	take(t, &s, after(50*time.Second), "9/10s 9/min", signpost.LeaseID{1})
	for at, want := range map[time.Duration]struct{ ended, leases bool }{
		50 * time.Second:           {false, true},
		60*time.Second - 1_000_000: {false, true},
		60 * time.Second:           {false, true},
		80*time.Second - 1_000_000: {false, true},
		80 * time.Second:           {true, false},
		-time.Hour:                 {false, true},
	} {
		if ended, leases := s.Ended(after(at)), s.HasLeases(after(at)); ended != want.ended || leases != want.leases {
			t.Errorf("at %v: ended=%v, leases=%v; want %+v", at, ended, leases, want)
		}
	}
	if !s.Release(signpost.LeaseID{1}) || s.Release(signpost.LeaseID{1}) {
		t.Error("Release does not tell whether the lease was there")
	}
	if !s.Ended(after(60 * time.Second)) {
		t.Error("not ended at the end of its windows, without a lease")
	}
}

// A million keys are a million of these.
func TestSizeOfAKey(t *testing.T) {
	if size := unsafe.Sizeof(state.State{}); size > 48 {
		t.Errorf("a State takes %d bytes, want at most 48, a size class of the allocator", size)
	}
}
