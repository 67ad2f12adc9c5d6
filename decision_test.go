// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
)

func TestLeaseText(t *testing.T) {
	eu, err := signpost.ParseHome("eu-west-1")
	if err != nil {
		t.Fatal(err)
	}
	k := signpost.KeyIn("tag", "link", "x")
	for _, lease := range []signpost.Lease{
		{Key: k, ID: signpost.NewLeaseID(), Expires: 1768471230000},
		{Key: k, ID: signpost.NewLeaseID(), Fallback: true},
		{Key: k.In(eu), ID: signpost.NewLeaseID()},
	} {
		text, err := json.Marshal(lease)
		if err != nil {
			t.Fatal(err)
		}
		var read signpost.Lease
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatalf("read %s: %v", text, err)
		}
		if lease.Expires = 0; read != lease {
			t.Errorf("read back %+v, want %+v", read, lease)
		}
	}
}

func TestLeaseTextOfNoLease(t *testing.T) {
	text, err := signpost.Lease{}.MarshalText()
	if err != nil || len(text) != 0 {
		t.Errorf("the zero Lease is %q, %v; want nothing", text, err)
	}
	read := signpost.Lease{ID: signpost.NewLeaseID()}
	if err := read.UnmarshalText(nil); err != nil || read != (signpost.Lease{}) {
		t.Errorf("nothing is read as %+v, %v; want the zero Lease", read, err)
	}
}

func TestLeaseTextRefuses(t *testing.T) {
	good, err := signpost.Lease{Key: signpost.KeyOf("link", "x"), ID: signpost.NewLeaseID()}.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"x", string(good[1:]), string(good) + "0", "g" + string(good[1:]), string(good[:len(good)-1]) + "2", strings.Repeat("f", len(good)), string(good) + "45", string(good) + strings.Repeat("65", signpost.MaxHome+1), strings.Repeat("0", 1<<20),
	} {
		before := signpost.Lease{ID: signpost.LeaseID{1}}
		l := before
		if err := l.UnmarshalText([]byte(text)); err == nil || l != before {
			t.Errorf("%d characters are read as %+v, error %v", len(text), l, err)
		} else if len(err.Error()) > 100 {
			t.Errorf("the error repeats what was read: %v", err)
		}
	}
}

func FuzzLeaseText(f *testing.F) {
	good, _ := signpost.Lease{Key: signpost.KeyOf("link", "x"), ID: signpost.LeaseID{1}, Fallback: true}.MarshalText()
	f.Add(string(good))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		var l signpost.Lease
		if err := l.UnmarshalText([]byte(text)); err != nil {
			return
		}
		again, err := l.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if !l.IsZero() && string(again) != strings.ToLower(text) {
			t.Fatalf("%q is read, and written as %q", text, again)
		}
	})
}

func TestLeaseIDsAreDistinct(t *testing.T) {
	seen := map[signpost.LeaseID]bool{}
	for range 10_000 {
		seen[signpost.NewLeaseID()] = true
	}
	if len(seen) != 10_000 || seen[signpost.LeaseID{}] {
		t.Errorf("%d ids of 10,000, the zero id among them: %v", len(seen), seen[signpost.LeaseID{}])
	}
}

func TestZeroDecisionRefuses(t *testing.T) {
	var d signpost.Decision
	if d.Admitted || len(d.Windows()) != 0 || d.RetryAfter() != 0 || d.RetryAfterSeconds() != 0 || !d.Lease.IsZero() {
		t.Errorf("the zero Decision is %+v", d)
	}
}

func TestDenied(t *testing.T) {
	q := signpost.Request{Key: signpost.KeyOf("link", "x"), Bound: signpost.MustParseBound("5/min 3 concurrent"), Expensive: true}
	d := signpost.Denied(&q, 1768471200000, 1500*time.Millisecond)
	if d.Admitted || d.Never || !d.Degraded || !d.Expensive || d.Concurrent != 3 || len(d.Windows()) != 0 || !d.Lease.IsZero() {
		t.Errorf("a denial is %+v", d)
	}
	if d.At != 1768471200000 || d.RetryAfter() != 1500*time.Millisecond || d.RetryAfterSeconds() != 2 {
		t.Errorf("denied at %d for %v, on the wire %d; want 1768471200000, 1.5s and 2", d.At, d.RetryAfter(), d.RetryAfterSeconds())
	}
}

func TestRemaining(t *testing.T) {
	for _, test := range []struct{ limit, used, want uint32 }{
		{5, 0, 5}, {5, 4, 1}, {5, 5, 0}, {5, 20, 0}, {0, 0, 0}, {signpost.MaxLimit, 0, signpost.MaxLimit}, {1, math.MaxUint32, 0},
	} {
		w := signpost.WindowState{Window: signpost.Window{Len: time.Minute, Limit: test.limit}, Used: test.used}
		if got := w.Remaining(); got != test.want {
			t.Errorf("%d of %d used: %d remain, want %d", test.used, test.limit, got, test.want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, 999 * time.Millisecond: 1, time.Second: 1, time.Second + 1: 2,
		47600 * time.Millisecond: 48, time.Hour: 3600, signpost.MaxWindowLen: 31622400,
	} {
		if got := signpost.Seconds(d); got != want {
			t.Errorf("Seconds(%v) = %d, want %d", d, got, want)
		}
	}
}

func TestInstant(t *testing.T) {
	at := time.Date(2026, 1, 15, 10, 0, 0, 999_999, time.FixedZone("", 5*3600+1800))
	i := signpost.InstantOf(at)
	if want := time.Date(2026, 1, 15, 4, 30, 0, 0, time.UTC); i.Time() != want {
		t.Errorf("%v became %v, want %v", at, i.Time(), want)
	}
	if got := i.Add(1500 * time.Millisecond).Sub(i); got != 1500*time.Millisecond {
		t.Errorf("1.5 s later is %v later", got)
	}
	if last := signpost.MaxInstant.Time(); last.Format(time.RFC3339Nano) != "9999-12-31T23:59:59.999Z" {
		t.Errorf("MaxInstant is %v", last)
	}
	if i := signpost.InstantOf(time.Time{}); i >= 0 {
		t.Errorf("the zero time is instant %d, which a Limiter would not refuse", i)
	}
}
