// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost_test

import (
	"math"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
)

// t0 is 2026-01-15T10:00:00Z, where a minute and an hour begin.
const t0 signpost.Instant = 1768471200000

// after returns the instant so many seconds after t0.
func after(seconds float64) signpost.Instant {
	return t0 + signpost.Instant(math.Round(seconds*1000))
}

// step is one take and what it is told. Waits are in seconds as on the wire; never is -1.
type step struct {
	at       signpost.Instant
	cost     uint32
	admitted bool
	used     uint32 // of the shortest window
	wait     int64
}

const never = -1

// run takes step by step from a new key.
func run(t *testing.T, bound string, steps []step) {
	t.Helper()
	var s state.State
	b := signpost.MustParseBound(bound)
	for i, want := range steps {
		q := signpost.Request{Key: signpost.KeyOf("link", "x"), Bound: b, Cost: want.cost, At: want.at}
		var d signpost.Decision
		s.Take(want.at, &q, &d)
		wait := d.RetryAfterSeconds()
		if d.Never {
			wait = never
		}
		if got := (step{want.at, want.cost, d.Admitted, d.Windows()[0].Used, wait}); got != want {
			t.Errorf("%s, step %d: got %+v, want %+v", bound, i, got, want)
		}
	}
}

func TestMinute(t *testing.T) {
	run(t, "2/min", []step{
		{after(0), 1, true, 1, 0},
		{after(30), 1, true, 2, 0},
		{after(30), 1, false, 2, 30},
		{after(59.999), 1, false, 2, 1},
		{after(60), 1, true, 1, 0},
		{after(119.001), 2, false, 1, 1},
		{after(119.001), 1, true, 2, 0},
		{after(3600), 2, true, 2, 0},
	})
}

func TestCost(t *testing.T) {
	run(t, "10/min 15/hour", []step{
		{after(0), 0, true, 1, 0},
		{after(0), 9, true, 10, 0},
		{after(0), 11, false, 10, never},
		{after(60), 11, false, 0, never},
		{after(60), 6, false, 0, 3540},
		{after(60), 5, true, 5, 0},
		{after(60), math.MaxUint32, false, 5, never},
	})
}

func TestLargest(t *testing.T) {
	run(t, "4294967294/s", []step{
		{after(0), signpost.MaxLimit, true, signpost.MaxLimit, 0},
		{after(0), signpost.MaxLimit, false, signpost.MaxLimit, 1},
		{after(0), 1, false, signpost.MaxLimit, 1},
		{after(0), math.MaxUint32, false, signpost.MaxLimit, never},
		{after(1), 1, true, 1, 0},
	})
}

func TestClockSteps(t *testing.T) {
	run(t, "3/min", []step{
		{after(90), 1, true, 1, 0},
		{after(30), 1, true, 2, 0},    // back, in the stored minute
		{after(0), 1, true, 3, 0},     // exactly a length ahead
		{after(0), 1, false, 3, 60},   // never more than the length
		{after(-1), 1, false, 3, 1},   // more than a length ahead: the count moves
		{after(0), 1, true, 1, 0},     // so it has ended by now
		{after(-3600), 1, true, 2, 0}, // far ahead: moves, and is charged
		{after(-3600), 2, false, 2, 60},
	})
}

// Edges are those of UTC, whatever the zone of the process: hours do not turn on the half hour in India, and
// days have 24 hours in New York.
func TestTimeZone(t *testing.T) {
	if os.Getenv("SIGNPOST_TEST_ZONE") == "" {
		for _, zone := range []string{"America/New_York", "Asia/Kolkata", "UTC"} {
			if _, err := time.LoadLocation(zone); err != nil {
				t.Fatalf("this machine lacks time zones: %v", err)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTimeZone$", "-test.v")
			cmd.Env = append(os.Environ(), "TZ="+zone, "SIGNPOST_TEST_ZONE="+zone)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", zone, err, out)
			}
		}
		return
	}
	_, offset := time.Date(2026, 1, 15, 12, 0, 0, 0, time.Local).Zone()
	if want := map[string]int{"America/New_York": -18000, "Asia/Kolkata": 19800, "UTC": 0}[os.Getenv("SIGNPOST_TEST_ZONE")]; offset != want {
		t.Fatalf("the zone is %d s from UTC, want %d", offset, want)
	}
	at := func(text string) signpost.Instant {
		moment, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return signpost.InstantOf(moment.In(time.Local))
	}
	run(t, "1/hour", []step{
		{at("2026-11-01T05:59:00Z"), 1, true, 1, 0}, // the hour that New York has twice
		{at("2026-11-01T05:59:00Z"), 1, false, 1, 60},
		{at("2026-11-01T06:00:00Z"), 1, true, 1, 0},
		{at("2026-11-01T06:30:00Z"), 1, false, 1, 1800},
		{at("2026-11-01T07:00:00Z"), 1, true, 1, 0},
	})
	run(t, "1/day", []step{
		{at("2026-03-08T00:00:00Z"), 1, true, 1, 0}, // the day that New York has for 23 hours
		{at("2026-03-08T00:00:00Z"), 1, false, 1, 86400},
		{at("2026-03-08T23:59:59Z"), 1, false, 1, 1},
		{at("2026-03-09T00:00:00Z"), 1, true, 1, 0},
	})
	if s := after(0).Time().Format(time.RFC3339); s != "2026-01-15T10:00:00Z" {
		t.Errorf("an instant prints as %s in this zone", s)
	}
}

func TestRoll(t *testing.T) {
	const minute = 60_000
	for name, test := range map[string]struct {
		stored signpost.RawWindow
		now    signpost.Instant
		want   signpost.RawWindow
		fault  bool
	}{
		"nothing stored":              {signpost.RawWindow{}, after(5), signpost.RawWindow{Start: t0}, false},
		"the same interval":           {signpost.RawWindow{Start: t0, Used: 3}, after(59.999), signpost.RawWindow{Start: t0, Used: 3}, false},
		"ended":                       {signpost.RawWindow{Start: t0, Used: 3}, after(60), signpost.RawWindow{Start: after(60)}, false},
		"one ahead":                   {signpost.RawWindow{Start: after(60), Used: 3}, after(59.999), signpost.RawWindow{Start: after(60), Used: 3}, false},
		"one length ahead":            {signpost.RawWindow{Start: after(120), Used: 3}, after(60), signpost.RawWindow{Start: after(120), Used: 3}, false},
		"a millisecond too far ahead": {signpost.RawWindow{Start: after(120), Used: 3}, after(59.999), signpost.RawWindow{Start: t0, Used: 3}, true},
		"the first minute":            {signpost.RawWindow{}, 1, signpost.RawWindow{}, false},
	} {
		got, fault := signpost.Roll(test.stored, minute, test.now)
		if got != test.want || fault != test.fault {
			t.Errorf("%s: Roll gave %+v, %v; want %+v, %v", name, got, fault, test.want, test.fault)
		}
	}
}

func TestJudgeLeavesTheRequestAndTheRawState(t *testing.T) {
	raw := signpost.Raw{Now: t0, Windows: [signpost.MaxWindows]signpost.RawWindow{{Start: t0, Used: 4}}, InUse: 1, FreesAt: after(10)}
	q := signpost.Request{Key: signpost.KeyOf("link", "x"), Bound: signpost.MustParseBound("5/min 1 concurrent"), Expensive: true, LeaseID: signpost.NewLeaseID()}
	rawBefore, qBefore := raw, q
	first, second := signpost.Judge(&raw, &q), signpost.Judge(&raw, &q)
	if first != second || raw != rawBefore || q != qBefore {
		t.Error("Judge is not a function of its arguments alone")
	}
	if first.Admitted || !first.ConcurrencyRefused || first.RetryAfter() != 10*time.Second {
		t.Errorf("Judge gave %+v", first)
	}
}

// FuzzJudge holds the verdict to what must be true of every one.
func FuzzJudge(f *testing.F) {
	f.Add(int64(t0), int64(t0), uint32(4), int64(t0), uint32(9), uint32(5), uint32(10), uint32(1), uint32(1), uint32(2), int64(t0+1), true)
	f.Add(int64(t0), int64(t0+90_000), uint32(4), int64(0), uint32(0), uint32(0), uint32(0), uint32(math.MaxUint32), uint32(0), uint32(0), int64(0), false)
	f.Fuzz(func(t *testing.T, now, start1 int64, used1 uint32, start2 int64, used2, limit1, limit2, cost, inUse, concurrent uint32, freesAt int64, expensive bool) {
		// Made valid: a store holds no instant from before the epoch, and no lease that has ended.
		now = 1 + int64(uint64(now)%uint64(signpost.MaxInstant))
		start1, start2 = int64(uint64(start1)%uint64(signpost.MaxInstant))/60_000*60_000, int64(uint64(start2)%uint64(signpost.MaxInstant))/3_600_000*3_600_000
		limit1 = min(limit1, signpost.MaxLimit)
		limit2 = max(limit1, min(limit2, signpost.MaxLimit))
		concurrent %= signpost.MaxConcurrent + 1
		if inUse %= signpost.MaxConcurrent + 1; freesAt <= now {
			freesAt = now + 1
		}
		bound, err := signpost.NewBound(int(concurrent), signpost.Window{Len: time.Minute, Limit: limit1}, signpost.Window{Len: time.Hour, Limit: limit2})
		if err != nil {
			t.Fatal(err)
		}
		raw := signpost.Raw{Now: signpost.Instant(now), InUse: inUse, FreesAt: signpost.Instant(freesAt)}
		raw.Windows[0] = signpost.RawWindow{Start: signpost.Instant(start1), Used: used1}
		raw.Windows[1] = signpost.RawWindow{Start: signpost.Instant(start2), Used: used2}
		q := signpost.Request{Key: signpost.KeyOf("link", "x"), Bound: bound, Cost: cost, Expensive: expensive, LeaseID: signpost.LeaseID{1}}
		d := signpost.Judge(&raw, &q)

		refused, charge := d.ConcurrencyRefused, uint64(max(cost, 1))
		longest := 30 * time.Second
		for i, w := range d.Windows() {
			ms := signpost.Instant(w.Len.Milliseconds())
			if w.Start%ms != 0 || w.Start > raw.Now+ms || w.Reset() <= raw.Now {
				t.Errorf("window %d begins at %d, which is not an interval that a take at %d can be judged in", i, w.Start, now)
			}
			before := uint64(w.Used)
			if d.Admitted {
				before -= charge
			}
			if before != 0 && before != uint64(raw.Windows[i].Used) {
				t.Errorf("window %d: %d used before, of %d stored", i, before, raw.Windows[i].Used)
			}
			if w.Refused != (before+charge > uint64(w.Limit)) {
				t.Errorf("window %d: refused=%v at %d+%d of %d", i, w.Refused, before, charge, w.Limit)
			}
			refused = refused || w.Refused
			longest = max(longest, w.Len)
		}
		if d.ConcurrencyRefused != (expensive && inUse >= concurrent) {
			t.Errorf("concurrency refused=%v at %d of %d, expensive=%v", d.ConcurrencyRefused, inUse, concurrent, expensive)
		}
		if d.Admitted == refused {
			t.Errorf("admitted=%v, and a bound refused: %v", d.Admitted, refused)
		}
		if d.Lease.IsZero() != !(d.Admitted && expensive) {
			t.Errorf("admitted=%v, expensive=%v, lease %v", d.Admitted, expensive, d.Lease)
		}
		neverPasses := charge > uint64(limit1) || expensive && concurrent == 0
		if d.Never != neverPasses {
			t.Errorf("never=%v, want %v", d.Never, neverPasses)
		}
		if wait := d.RetryAfter(); (wait > 0) != (refused && !d.Never) || wait < 0 || wait > longest || (wait > 0) != (d.RetryAfterSeconds() >= 1) {
			t.Errorf("a wait of %v (refused=%v, never=%v)", wait, refused, d.Never)
		}
		peeked := signpost.JudgePeek(&raw, &q)
		if q.Cost = 1; peeked.Admitted != signpost.Judge(&raw, &q).Admitted || !peeked.Lease.IsZero() {
			t.Errorf("a peek says admitted=%v, unlike a take of cost 1, or grants a lease", peeked.Admitted)
		}
	})
}
