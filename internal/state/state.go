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
	leases  []lease // in order of expiry, ended ones included until the next grant
}

type lease struct {
	id      signpost.LeaseID
	expires signpost.Instant
}

// Take judges a request at now into d and, if it admits, charges it. A refusal changes nothing but what
// a clock fault needs (step 1), which must not keep a key refused until the clock has caught up.
func (s *State) Take(now signpost.Instant, q *signpost.Request, d *signpost.Decision) {
	raw := signpost.Raw{Now: now}
	s.read(&raw, q)
	signpost.JudgeInto(&raw, q, d)
	if q.Expensive {
		s.clampLeases(now)
	}
	switch {
	case d.Admitted:
		s.charge(now, q, d)
	case d.ClockFault:
		s.reanchor(d)
	}
}

// Peek judges a request of cost 1 at now into d. It changes nothing.
func (s *State) Peek(now signpost.Instant, q *signpost.Request, d *signpost.Decision) {
	raw := signpost.Raw{Now: now}
	s.read(&raw, q)
	*d = signpost.JudgePeek(&raw, q)
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

// readLeases counts the living and finds the expiry that frees a slot. Judge clamps the wait.
func (s *State) readLeases(raw *signpost.Raw, allowed int) {
	alive := s.alive(raw.Now)
	raw.InUse = uint32(len(alive))
	if allowed > 0 && len(alive) >= allowed {
		raw.FreesAt = alive[len(alive)-allowed].expires
	}
}

// alive returns the leases that have not ended at now, first to expire first.
func (s *State) alive(now signpost.Instant) []lease {
	if s.rest == nil {
		return nil
	}
	ended := 0
	for ended < len(s.rest.leases) && s.rest.leases[ended].expires <= now {
		ended++
	}
	return s.rest.leases[ended:]
}

// clampLeases brings leases that lie further ahead than one can live (the clock was set back) to
// where they would be if granted now. The order stays.
func (s *State) clampLeases(now signpost.Instant) {
	if s.rest == nil {
		return
	}
	latest := now.Add(signpost.LeaseLife)
	for i := len(s.rest.leases) - 1; i >= 0 && s.rest.leases[i].expires > latest; i-- {
		s.rest.leases[i].expires = latest
	}
}

func (s *State) charge(now signpost.Instant, q *signpost.Request, d *signpost.Decision) {
	named := q.Bound.Seconds()
	for i, w := range d.Windows() {
		*s.slot(named[i], now, named[:]) = Window{Start: w.Start, Seconds: named[i], Used: w.Used}
	}
	if !d.Lease.IsZero() {
		r := s.more()
		r.leases = slices.DeleteFunc(r.leases, func(l lease) bool { return l.expires <= now || l.id == d.Lease.ID })
		r.insert(lease{d.Lease.ID, d.Lease.Expires})
	}
}

// reanchor writes down the windows that a refusal found too far ahead, with their counts.
func (s *State) reanchor(d *signpost.Decision) {
	for _, judged := range d.Windows() {
		if w := s.find(uint32(judged.Len / time.Second)); w != nil && w.Start > judged.Start {
			w.Start = judged.Start
		}
	}
}

// insert keeps the leases in order of expiry. The new one is nearly always the last.
func (r *rest) insert(l lease) {
	r.leases = append(r.leases, l)
	for i := len(r.leases) - 1; i > 0 && r.leases[i].expires < r.leases[i-1].expires; i-- {
		r.leases[i], r.leases[i-1] = r.leases[i-1], r.leases[i]
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

// slot returns where the window of this length is to be written: its own place or a free one. With
// MaxLengths in use those that have ended are dropped, and if none has, the one that ends first (of
// two, the shorter), but never one that is named beside it (step 8).
func (s *State) slot(seconds uint32, now signpost.Instant, named []uint32) *Window {
	if w := s.find(seconds); w != nil {
		return w
	}
	if w := s.find(0); w != nil {
		return w
	}
	r := s.more()
	if len(s.first)+len(r.windows) < MaxLengths {
		r.windows = append(r.windows, Window{})
		return &r.windows[len(r.windows)-1]
	}
	var soonest *Window
	for w := range s.all {
		switch {
		case slices.Contains(named, w.Seconds):
		case w.End() <= now:
			*w = Window{}
		case soonest == nil || w.End() < soonest.End() || w.End() == soonest.End() && w.Seconds < soonest.Seconds:
			soonest = w
		}
	}
	if w := s.find(0); w != nil {
		return w
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
		if s.rest.windows[i].Seconds != 0 && !yield(&s.rest.windows[i]) {
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
	if !slices.ContainsFunc(s.alive(now), func(l lease) bool { return l.id == id }) {
		return 0, false
	}
	s.Release(id)
	expires := now.Add(signpost.LeaseLife)
	s.rest.insert(lease{id, expires})
	return expires, true
}

// Settle adds counts to the windows that are open at now, whatever the limit. Sums stop at the
// largest number. Counts above MaxLengths are dropped: no key can have them.
func (s *State) Settle(now signpost.Instant, counts []signpost.Count) {
	counts = counts[:min(len(counts), MaxLengths)]
	var named []uint32
	for _, c := range counts {
		named = append(named, uint32(c.Len/time.Second))
	}
	for i, c := range counts {
		seconds := named[i]
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
		*s.slot(seconds, now, named) = Window{Start: open.Start, Seconds: seconds, Used: uint32(used)}
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
	latest := now.Add(signpost.LeaseLife)
	for _, l := range s.alive(now) {
		in.Leases = append(in.Leases, signpost.Lease{Key: k, ID: l.id, Expires: min(l.expires, latest)})
	}
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
func (s *State) HasLeases(now signpost.Instant) bool { return len(s.alive(now)) > 0 }

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
		*s.slot(w.Seconds, now, nil) = w
	}
}
