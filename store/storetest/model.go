// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/signposthq/signpost"
)

// model is one key under the rules, written a second time from docs/rules.md and as plainly as can be. It shares
// no code with what it checks.
type model struct {
	windows map[int64]modelWindow // by length in seconds
	leases  map[signpost.LeaseID]int64
}

type modelWindow struct{ start, used int64 }

const lifeMS = 30_000

func newModel() *model {
	return &model{windows: map[int64]modelWindow{}, leases: map[signpost.LeaseID]int64{}}
}

func (m *model) clone() *model {
	c := newModel()
	for seconds, w := range m.windows {
		c.windows[seconds] = w
	}
	for id, expires := range m.leases {
		c.leases[id] = expires
	}
	return c
}

func (m *model) String() string { return fmt.Sprint(m.windows, m.leases) }

// roll is step 1.
func (m *model) roll(seconds, now int64) (w modelWindow, moved bool) {
	length := seconds * 1000
	start := now / length * length
	stored, ok := m.windows[seconds]
	if !ok || stored.start < start {
		return modelWindow{start, 0}, false
	}
	if stored.start > now+length {
		return modelWindow{start, stored.used}, true
	}
	return stored, false
}

// alive returns the expiries of the leases that are alive, earliest first.
func (m *model) alive(now int64) []int64 {
	var expiries []int64
	for _, expires := range m.leases {
		if expires > now {
			expiries = append(expiries, min(expires, now+lifeMS))
		}
	}
	slices.Sort(expiries)
	return expiries
}

func (m *model) take(q *signpost.Request) verdict {
	v, rolled, moved := m.judge(q, max(1, int64(q.Cost)))
	now := int64(q.At)
	if q.Expensive {
		for id, expires := range m.leases {
			m.leases[id] = min(expires, now+lifeMS)
		}
	}
	if !v.Admitted {
		for i, w := range v.Windows {
			if moved[i] {
				m.windows[w.Seconds] = rolled[i]
			}
		}
		return v
	}
	var named []int64
	for _, w := range v.Windows {
		named = append(named, w.Seconds)
	}
	for i := range v.Windows {
		w := &v.Windows[i]
		charged := modelWindow{rolled[i].start, rolled[i].used + max(1, int64(q.Cost))}
		m.store(w.Seconds, charged, now, named)
		w.Used = uint32(charged.used)
		w.Remaining = uint32(max(0, int64(w.Limit)-charged.used))
	}
	if q.Expensive {
		for id, expires := range m.leases {
			if expires <= now {
				delete(m.leases, id)
			}
		}
		m.leases[q.LeaseID] = now + lifeMS
		v.LeaseExpires = signpost.Instant(now + lifeMS)
	}
	return v
}

func (m *model) peek(q *signpost.Request) verdict {
	v, _, _ := m.judge(q, 1)
	return v
}

func (m *model) judge(q *signpost.Request, cost int64) (v verdict, rolled []modelWindow, moved []bool) {
	now := int64(q.At)
	v = verdict{At: q.At, Admitted: true, Concurrent: q.Bound.Concurrent()}
	for _, w := range q.Bound.Windows() {
		seconds, limit := int64(w.Len/time.Second), int64(w.Limit)
		r, fault := m.roll(seconds, now)
		rolled, moved = append(rolled, r), append(moved, fault)
		end := r.start + seconds*1000
		refused := r.used+cost > limit
		if refused {
			v.Admitted = false
			v.WaitMS = max(v.WaitMS, min(end-now, seconds*1000))
		}
		v.Never = v.Never || cost > limit
		v.ClockFault = v.ClockFault || fault
		v.Windows = append(v.Windows, windowVerdict{
			Seconds: seconds, Limit: w.Limit, Start: signpost.Instant(r.start), Used: uint32(r.used),
			Remaining: uint32(max(0, limit-r.used)), Reset: signpost.Instant(end), Refused: refused,
		})
	}
	if q.Expensive {
		alive, allowed := m.alive(now), q.Bound.Concurrent()
		v.InUse = len(alive)
		if len(alive) >= allowed {
			v.Admitted, v.ConcurrencyRefused = false, true
			if allowed == 0 {
				v.Never = true
			} else {
				v.WaitMS = max(v.WaitMS, alive[len(alive)-allowed]-now)
			}
		}
	}
	if v.Never {
		v.WaitMS = 0
	}
	v.RetryAfter = v.WaitMS / 1000
	if v.WaitMS%1000 > 0 {
		v.RetryAfter++
	}
	return v, rolled, moved
}

// store is step 8.
func (m *model) store(seconds int64, w modelWindow, now int64, named []int64) {
	end := func(s int64) int64 { return m.windows[s].start + s*1000 }
	if _, ok := m.windows[seconds]; !ok && len(m.windows) == 8 {
		var others []int64
		for s := range m.windows {
			if !slices.Contains(named, s) {
				others = append(others, s)
			}
		}
		sort.Slice(others, func(i, j int) bool {
			a, b := others[i], others[j]
			return end(a) < end(b) || end(a) == end(b) && a < b
		})
		first := others[0]
		if end(first) > now {
			delete(m.windows, first)
		}
		for _, s := range others {
			if end(s) <= now {
				delete(m.windows, s)
			}
		}
	}
	m.windows[seconds] = w
}

func (m *model) release(id signpost.LeaseID) { delete(m.leases, id) }

func (m *model) renew(id signpost.LeaseID, at signpost.Instant) (expires signpost.Instant, ok bool) {
	if m.leases[id] <= int64(at) {
		return 0, false
	}
	m.leases[id] = int64(at) + lifeMS
	return signpost.Instant(m.leases[id]), true
}

func (m *model) reset() { *m = *newModel() }

func (m *model) settle(at signpost.Instant, counts []signpost.Count) {
	var named []int64
	for _, c := range counts {
		named = append(named, int64(c.Len/time.Second))
	}
	for i, c := range counts {
		if open, _ := m.roll(named[i], int64(at)); open.start == int64(c.Start) {
			open.used = min(open.used+int64(c.Used), 1<<32-1)
			m.store(named[i], open, int64(at), named)
		}
	}
}

func (m *model) inspect(k signpost.Key, at signpost.Instant) signpost.Inspection {
	in := signpost.Inspection{At: at}
	for seconds, w := range m.windows {
		if w.start+seconds*1000 > int64(at) {
			in.Counts = append(in.Counts, signpost.Count{Len: time.Duration(seconds) * time.Second, Start: signpost.Instant(w.start), Used: uint32(w.used)})
		}
	}
	sort.Slice(in.Counts, func(i, j int) bool { return in.Counts[i].Len < in.Counts[j].Len })
	for id, expires := range m.leases {
		if expires > int64(at) {
			in.Leases = append(in.Leases, signpost.Lease{Key: k, ID: id, Expires: signpost.Instant(min(expires, int64(at)+lifeMS))})
		}
	}
	sort.Slice(in.Leases, func(i, j int) bool { return in.Leases[i].Expires < in.Leases[j].Expires })
	return in
}
