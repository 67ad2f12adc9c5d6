// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package state holds the counts and leases of one key, for the stores that keep them in memory.
package state

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/signposthq/signpost"
)

// MaxLengths is how many window lengths one key holds (step 8 of the rules).
const MaxLengths = 8

// Window is one count. Lengths are in seconds to keep a key small.
type Window struct {
	Start   signpost.Instant
	Seconds uint32 // 0: no window
	Used    uint32
}

// End returns the end of the interval.
func (w Window) End() signpost.Instant { return w.Start + w.length() }

func (w Window) length() signpost.Instant { return signpost.Instant(w.Seconds) * 1000 }

// State is one key. The zero State has used nothing. Its methods need the caller's lock.
type State struct {
	first [2]Window // most bounds have two windows: they cost no allocation
	rest  *rest
}

type rest struct {
	windows []Window
	leases  []lease
}

type lease struct {
	id      signpost.LeaseID
	expires signpost.Instant
}

// Take judges a request at now and, if it admits, charges it.
func (s *State) Take(now signpost.Instant, q *signpost.Request) signpost.Decision {
	raw := signpost.Raw{Now: now}
	s.read(&raw, q)
	d := signpost.Judge(&raw, q)
	if d.Admitted {
		s.charge(now, &d)
	}
	return d
}

// Peek judges a request of cost 1 at now. It changes nothing.
func (s *State) Peek(now signpost.Instant, q *signpost.Request) signpost.Decision {
	raw := signpost.Raw{Now: now}
	s.read(&raw, q)
	return signpost.JudgePeek(&raw, q)
}

func (s *State) read(raw *signpost.Raw, q *signpost.Request) {
	for i, seconds := range q.Bound.Seconds() {
		if seconds == 0 {
			break
		}
		if w := s.find(seconds); w != nil {
			raw.Windows[i] = signpost.RawWindow{Start: w.Start, Used: w.Used}
		}
	}
	if q.Expensive {
		s.readLeases(raw, q.Bound.Concurrent())
	}
}

// readLeases counts the living and finds the expiry that frees a slot. It orders the
// set, which holds the living only from then on; that changes nothing which could be asked.
func (s *State) readLeases(raw *signpost.Raw, allowed int) {
	s.dropEnded(raw.Now)
	if s.rest == nil {
		return
	}
	alive := s.rest.leases
	raw.InUse = uint32(len(alive))
	if allowed > 0 && len(alive) >= allowed {
		slices.SortFunc(alive, func(a, b lease) int { return cmp.Compare(a.expires, b.expires) })
		raw.FreesAt = alive[len(alive)-allowed].expires
	}
}

// dropEnded forgets leases that are over at now, and brings those that lie further ahead than a
// lease can live (the clock was set back) to where they would be if granted now.
func (s *State) dropEnded(now signpost.Instant) {
	if s.rest == nil || len(s.rest.leases) == 0 {
		return
	}
	s.rest.leases = slices.DeleteFunc(s.rest.leases, func(l lease) bool { return l.expires <= now })
	latest := now.Add(signpost.LeaseLife)
	for i := range s.rest.leases {
		s.rest.leases[i].expires = min(s.rest.leases[i].expires, latest)
	}
}

func (s *State) charge(now signpost.Instant, d *signpost.Decision) {
	for _, w := range d.Windows() {
		*s.slot(uint32(w.Len/time.Second), now) = Window{Start: w.Start, Seconds: uint32(w.Len / time.Second), Used: w.Used}
	}
	if !d.Lease.IsZero() {
		s.more().leases = append(s.more().leases, lease{d.Lease.ID, d.Lease.Expires})
	}
}

func (s *State) find(seconds uint32) *Window {
	for i := range s.first {
		if s.first[i].Seconds == seconds {
			return &s.first[i]
		}
	}
	if s.rest != nil {
		for i := range s.rest.windows {
			if s.rest.windows[i].Seconds == seconds {
				return &s.rest.windows[i]
			}
		}
	}
	return nil
}

// slot returns where the window of this length is to be written: its own place, a free one, or, with
// MaxLengths in use, that of the window that ended or ends first (step 8).
func (s *State) slot(seconds uint32, now signpost.Instant) *Window {
	if w := s.find(seconds); w != nil {
		return w
	}
	for i := range s.first {
		if s.first[i].Seconds == 0 || s.first[i].End() <= now {
			return &s.first[i]
		}
	}
	r := s.more()
	for i := range r.windows {
		if r.windows[i].End() <= now {
			return &r.windows[i]
		}
	}
	if len(s.first)+len(r.windows) < MaxLengths {
		r.windows = append(r.windows, Window{})
		return &r.windows[len(r.windows)-1]
	}
	soonest := &s.first[0]
	for w := range s.all {
		if w.End() < soonest.End() {
			soonest = w
		}
	}
	return soonest
}

func (s *State) more() *rest {
	if s.rest == nil {
		s.rest = &rest{}
	}
	return s.rest
}

// all yields every window that is in use.
func (s *State) all(yield func(*Window) bool) {
	for i := range s.first {
		if s.first[i].Seconds != 0 && !yield(&s.first[i]) {
			return
		}
	}
	if s.rest == nil {
		return
	}
	for i := range s.rest.windows {
		if !yield(&s.rest.windows[i]) {
			return
		}
	}
}

// Release gives a lease back, and reports whether it was there.
func (s *State) Release(id signpost.LeaseID) bool {
	if s.rest == nil {
		return false
	}
	before := len(s.rest.leases)
	s.rest.leases = slices.DeleteFunc(s.rest.leases, func(l lease) bool { return l.id == id })
	return len(s.rest.leases) < before
}

// Renew extends a living lease from now and returns its new expiry.
func (s *State) Renew(id signpost.LeaseID, now signpost.Instant) (signpost.Instant, bool) {
	s.dropEnded(now)
	if s.rest == nil {
		return 0, false
	}
	for i := range s.rest.leases {
		if l := &s.rest.leases[i]; l.id == id {
			l.expires = now.Add(signpost.LeaseLife)
			return l.expires, true
		}
	}
	return 0, false
}

// Settle adds counts to the windows that are open at now, whatever the limit. Sums stop at the largest number.
func (s *State) Settle(now signpost.Instant, counts []signpost.Count) {
	for _, c := range counts {
		seconds := uint32(c.Len / time.Second)
		if seconds == 0 {
			continue
		}
		var stored signpost.RawWindow
		if w := s.find(seconds); w != nil {
			stored = signpost.RawWindow{Start: w.Start, Used: w.Used}
		}
		open, _ := signpost.Roll(stored, signpost.Instant(seconds)*1000, now)
		if open.Start != c.Start {
			continue
		}
		used := min(uint64(open.Used)+uint64(c.Used), math.MaxUint32)
		*s.slot(seconds, now) = Window{Start: open.Start, Seconds: seconds, Used: uint32(used)}
	}
}

// Inspect returns what is open and alive at now.
func (s *State) Inspect(k signpost.Key, now signpost.Instant) signpost.Inspection {
	in := signpost.Inspection{At: now}
	for w := range s.all {
		if w.End() > now {
			in.Counts = append(in.Counts, signpost.Count{Len: time.Duration(w.Seconds) * time.Second, Start: w.Start, Used: w.Used})
		}
	}
	slices.SortFunc(in.Counts, func(a, b signpost.Count) int { return cmp.Compare(a.Len, b.Len) })
	s.dropEnded(now)
	if s.rest != nil {
		for _, l := range s.rest.leases {
			in.Leases = append(in.Leases, signpost.Lease{Key: k, ID: l.id, Expires: l.expires})
		}
	}
	slices.SortFunc(in.Leases, func(a, b signpost.Lease) int { return cmp.Compare(a.Expires, b.Expires) })
	return in
}

// Ended reports that nothing is left of the key at now: every window is over and no lease is alive.
func (s *State) Ended(now signpost.Instant) bool {
	for w := range s.all {
		if w.End() > now {
			return false
		}
	}
	return !s.HasLeases(now)
}

// HasLeases reports whether a lease is alive at now.
func (s *State) HasLeases(now signpost.Instant) bool {
	if s.rest == nil {
		return false
	}
	return slices.ContainsFunc(s.rest.leases, func(l lease) bool { return l.expires > now })
}

// Windows returns a copy of the windows that have not ended at now, for a store that writes them down.
func (s *State) Windows(buf []Window, now signpost.Instant) []Window {
	for w := range s.all {
		if w.End() > now {
			buf = append(buf, *w)
		}
	}
	return buf
}

// Load puts windows that a store wrote down into an empty state.
func (s *State) Load(windows []Window, now signpost.Instant) {
	for _, w := range windows {
		*s.slot(w.Seconds, now) = w
	}
}
