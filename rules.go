// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost

// The rules of counting. The step numbers are those of docs/rules.md, and
// every store cites them.

// Raw is what a store read for one key at one instant, before any charge.
type Raw struct {
	Now Instant
	// Windows holds the stored count of each window of the request's bound, in the bound's
	// order. The zero RawWindow means that none is stored.
	Windows [MaxWindows]RawWindow
	// InUse is how many leases are alive: those with an expiry after Now. Only an expensive
	// request needs it.
	InUse uint32
	// FreesAt is the expiry of the lease that must end first for one slot to be free: with
	// the living in order of expiry, the (InUse - allowed + 1)-th. It is read only if InUse is at least what is allowed.
	FreesAt Instant
}

// RawWindow is one stored count.
type RawWindow struct {
	Start Instant
	Used  uint32
}

// Roll is step 1 for one window of len milliseconds: it returns the interval that a take at
// now is judged in, and what is used in it.
//
// A stored start up to one length ahead of now stays, so that a clock set back mints no quota.
// One further ahead is a clock fault: its count moves to now's interval.
func Roll(stored RawWindow, len, now Instant) (w RawWindow, clockFault bool) {
	start := now - now%len
	switch {
	case stored.Start == start:
		return stored, false
	case stored.Start < start:
		return RawWindow{Start: start}, false
	case stored.Start <= now+len:
		return stored, false
	}
	return RawWindow{Start: start, Used: stored.Used}, true
}

// Judge decides a request from the raw state of its key: steps 1 to 6. It is the only place
// where a verdict is made. It charges nothing: if the decision admits, the store writes each
// window's Start and Used, and the lease, in one step with having read them. If it refuses with a
// ClockFault, the store writes the windows that moved, as they are in the decision.
//
// The request must be valid, as [Limiter] makes sure, and r.Now must be after the epoch.
func Judge(r *Raw, q *Request) (d Decision) {
	JudgeInto(r, q, &d)
	return d
}

// JudgeInto is Judge for stores that count the nanoseconds: a Decision is too large to be copied for nothing.
func JudgeInto(r *Raw, q *Request, d *Decision) {
	*d = Decision{
		At:         r.Now,
		Admitted:   true,
		Expensive:  q.Expensive,
		Concurrent: int32(q.Bound.concurrent),
	}
	cost := q.cost()
	for i := range MaxWindows {
		seconds := q.Bound.seconds[i]
		if seconds == 0 {
			break
		}
		length := Instant(seconds) * 1000
		rolled, fault := Roll(r.Windows[i], length, r.Now)
		d.ClockFault = d.ClockFault || fault

		w := &d.windows[i]
		w.Window = q.Bound.window(i)
		w.Start, w.Used = rolled.Start, rolled.Used
		d.n++
		// Step 2. In 64 bits, so that no sum wraps.
		if uint64(w.Used)+uint64(cost) <= uint64(w.Limit) {
			continue
		}
		w.Refused, d.Admitted = true, false
		d.Never = d.Never || cost > w.Limit
		d.wait = max(d.wait, min(rolled.Start+length-r.Now, length))
	}
	if q.Expensive { // Step 3.
		d.InUse = int32(r.InUse)
		if r.InUse >= q.Bound.concurrent {
			d.ConcurrencyRefused, d.Admitted = true, false
			d.Never = d.Never || q.Bound.concurrent == 0
			d.wait = max(d.wait, min(r.FreesAt-r.Now, Instant(LeaseLife.Milliseconds())))
		}
	}
	if d.Never {
		d.wait = 0
	}
	if !d.Admitted { // Step 4: all or nothing.
		return
	}
	for i := range d.n {
		d.windows[i].Used += cost
	}
	if q.Expensive {
		d.Lease = Lease{Key: q.Key, ID: q.LeaseID, Expires: r.Now.Add(LeaseLife)}
	}
}

// JudgePeek decides what a request of cost 1 would be told, charging and granting nothing:
// step 7. The counts are those before any charge.
func JudgePeek(r *Raw, q *Request) Decision {
	p := *q
	p.Cost = 1
	d := Judge(r, &p)
	if d.Admitted {
		for i := range d.n {
			d.windows[i].Used--
		}
		d.Lease = Lease{}
	}
	return d
}
