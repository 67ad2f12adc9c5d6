// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/admin"
)

func (o *operator) take(k signpost.Key, b signpost.Bound, n int) {
	o.t.Helper()
	l := signpost.New(o.store, signpost.Options{})
	for range n {
		if d, err := l.Take(o.t.Context(), signpost.Request{Key: k, Bound: b, Expensive: true}); err != nil || !d.Admitted {
			o.t.Fatalf("take: %+v, %v", d, err)
		}
	}
}

// used returns what the store counts of a key.
func (o *operator) used(k signpost.Key) uint32 {
	o.t.Helper()
	in, err := o.store.Inspect(o.t.Context(), k, 0)
	if err != nil {
		o.t.Fatal(err)
	}
	if len(in.Counts) == 0 {
		return 0
	}
	return in.Counts[0].Used
}

func TestKeyOfALink(t *testing.T) {
	o := newOperator(t)
	rec, other := o.add("busy", 0xb0), o.add("other", 0xc0)
	for _, r := range []signpost.Key{rec.Hash.Key(), other.Hash.Key()} {
		o.take(r, signpost.MustParseBound("100/366d"), 3)
	}
	for range 2 {
		got := o.ok("key", "inspect", "b000")
		for _, want := range []string{
			"Key   " + rec.Hash.Key().String() + "\nLink  b000000000000000\n",
			"\nBOUND        LIMIT  USED  REMAINING  STATE  RESETS\nminute       600    0     600        open   ",
			"\nconcurrency  10     3     7          open   -\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("printed:\n%s\nwithout %q", got, want)
			}
		}
	}
	if used := o.used(rec.Hash.Key()); used != 3 {
		t.Errorf("after it was inspected %d is used, want 3", used)
	}

	if got := o.ok("key", "reset", "b000"); !strings.HasPrefix(got, "Reset. Until now it held:\n\nKey   "+rec.Hash.Key().String()) ||
		!strings.Contains(got, "\nconcurrency  10     3     7          open   -\n") {
		t.Errorf("printed:\n%s", got)
	}
	if used, kept := o.used(rec.Hash.Key()), o.used(other.Hash.Key()); used != 0 || kept != 3 {
		t.Errorf("after a reset %d is used, and %d of another link; want 0 and 3", used, kept)
	}
}

func TestKeyByName(t *testing.T) {
	o := newOperator(t)
	k := signpost.KeyOf("tenant", "acme")
	o.take(k, signpost.MustParseBound("5/366d"), 2)
	named := []string{"--namespace", "tenant", "--key", "acme"}

	got := o.ok(append([]string{"key", "inspect"}, named...)...)
	if !strings.Contains(got, "\n31622400s    -      2     -          -      ") || !strings.Contains(got, "\nconcurrency  -      2     -          -      -\n") {
		t.Errorf("without a bound, printed:\n%s", got)
	}
	got = o.ok(append([]string{"key", "inspect", "--bound", "2/366d 1 concurrent"}, named...)...)
	if !strings.Contains(got, "\n31622400s    2      2     0          full   ") || !strings.Contains(got, "\nconcurrency  1      2     0          full   -\n") ||
		!strings.Contains(got, "\nRetry after  ") {
		t.Errorf("with a bound, printed:\n%s", got)
	}
	o.ok(append([]string{"key", "reset", "--json"}, named...)...)
	if used := o.used(k); used != 0 {
		t.Errorf("after a reset %d is used", used)
	}
	if strings.Contains(o.sent.String(), "acme HTTP") || strings.Contains(o.sent.String(), "?") {
		t.Errorf("a key is in a URL:\n%s", o.sent.String())
	}
}

func TestKeyIsPrintedForPeople(t *testing.T) {
	limit, concurrent, left := uint32(60), 4, uint32(0)
	at := time.UnixMilli(1768471212400).UTC()
	var out bytes.Buffer
	r := &remote{process: &process{stdout: &out}}
	if err := r.writeKey(&admin.Key{
		Key: "0123456789ab", Link: "b000000000000000", LinkState: "revoked", At: at, RetryAfterSeconds: 48, Degraded: true,
		Windows: []admin.KeyWindow{
			{Name: "minute", Limit: &limit, Used: 60, Remaining: &left, Full: true, Reset: time.UnixMilli(1768471260000)},
			{Name: "90s", Used: 7, Reset: time.UnixMilli(1768471290000)},
		},
		Concurrency: admin.KeyConcurrency{Limit: &concurrent, InUse: 5, Full: true},
	}); err != nil {
		t.Fatal(err)
	}
	same(t, "key", out.String(), strings.TrimPrefix(`
Key          0123456789ab
Link         b000000000000000 (revoked: refused, whatever is counted)
At           2026-01-15 10:00:12Z
Retry after  48s
Degraded     the store does not answer: these are the local counts

BOUND        LIMIT  USED  REMAINING  STATE  RESETS
minute       60     60    0          full   2026-01-15 10:01:00Z, in 48s
90s          -      7     -          -      2026-01-15 10:01:30Z, in 1m18s
concurrency  4      5     0          full   -
`, "\n"))
}
