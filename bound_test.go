// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/signposthq/signpost"
)

// golden is what this package checks of the vectors itself; store/storetest runs the rest on every store.
type golden struct {
	Bounds []struct {
		Text       string
		Windows    []struct{ Seconds, Limit int64 }
		Concurrent int
		Prints     string
	}
	BadBounds []string `json:"bad_bounds"`
	Keys      []struct {
		InTag         *string `json:"in_tag"`
		Namespace, ID string
		Digest, Tag   string
	}
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	text, err := os.ReadFile("store/storetest/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Bounds) == 0 || len(g.BadBounds) == 0 || len(g.Keys) == 0 {
		t.Fatal("vectors.json lacks bounds, bad_bounds or keys")
	}
	return g
}

func TestParseBound(t *testing.T) {
	for _, want := range readGolden(t).Bounds {
		b, err := signpost.ParseBound(want.Text)
		if err != nil {
			t.Errorf("ParseBound(%q): %v", want.Text, err)
			continue
		}
		var ws []signpost.Window
		for _, w := range want.Windows {
			ws = append(ws, signpost.Window{Len: time.Duration(w.Seconds) * time.Second, Limit: uint32(w.Limit)})
		}
		if !slices.Equal(b.Windows(), ws) || b.Concurrent() != want.Concurrent {
			t.Errorf("ParseBound(%q) has windows %v and concurrency %d, want %v and %d", want.Text, b.Windows(), b.Concurrent(), ws, want.Concurrent)
		}
		if b.String() != want.Prints {
			t.Errorf("ParseBound(%q) prints as %q, want %q", want.Text, b, want.Prints)
		}
		if again, err := signpost.ParseBound(b.String()); err != nil || again != b {
			t.Errorf("%q does not read back to the same bound: %v, %v", b, again, err)
		}
	}
}

func TestParseBoundRefuses(t *testing.T) {
	for _, text := range readGolden(t).BadBounds {
		b, err := signpost.ParseBound(text)
		if err == nil || !b.IsZero() {
			t.Errorf("ParseBound(%q) = %v, error %v; want an error and no bound", text, b, err)
			continue
		}
		for line := range strings.Lines(err.Error()) {
			if !strings.HasPrefix(line, "bound: ") {
				t.Errorf("ParseBound(%q): %q does not say that it is about a bound", text, line)
			}
		}
	}
}

func TestBoundListsAllFaults(t *testing.T) {
	_, err := signpost.ParseBound("5x/min 10/fortnight 4294967295/day -1 concurrent 9/min 8/hour surplus")
	wantFaults(t, err, `"5x/min"`, `"10/fortnight"`, `"4294967295/day"`, `"-1 concurrent"`, `"surplus"`, "hour allows 8, less than the 9")

	_, err = signpost.NewBound(1001,
		signpost.Window{Len: time.Millisecond, Limit: 1}, signpost.Window{Len: 1500 * time.Millisecond, Limit: 2},
		signpost.Window{Len: time.Hour, Limit: 3}, signpost.Window{Len: time.Hour, Limit: math.MaxUint32},
		signpost.Window{Len: 367 * 24 * time.Hour, Limit: 1})
	wantFaults(t, err, "5 windows", "concurrency 1001", "1ms", "1.5s is not a whole", "two windows of length hour", "4294967295", "8808h", "allows 1, less than")

	_, err = signpost.NewBound(-1)
	wantFaults(t, err, "no window", "concurrency -1")
}

func wantFaults(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != len(parts) {
		t.Errorf("%d faults, want %d:\n%v", n, len(parts), err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("no fault says %q:\n%v", part, err)
		}
	}
}

func TestNewBoundRanges(t *testing.T) {
	for _, test := range []struct {
		name       string
		concurrent int
		window     signpost.Window
		ok         bool
	}{
		{"the least", 0, signpost.Window{Len: time.Second, Limit: 0}, true},
		{"the most", 1000, signpost.Window{Len: 366 * 24 * time.Hour, Limit: math.MaxUint32 - 1}, true},
		{"concurrency below", -1, signpost.Window{Len: time.Minute, Limit: 1}, false},
		{"concurrency above", 1001, signpost.Window{Len: time.Minute, Limit: 1}, false},
		{"limit above", 1, signpost.Window{Len: time.Minute, Limit: math.MaxUint32}, false},
		{"no length", 1, signpost.Window{Limit: 1}, false},
		{"negative length", 1, signpost.Window{Len: -time.Minute, Limit: 1}, false},
		{"the most negative length", 1, signpost.Window{Len: math.MinInt64, Limit: 1}, false},
		{"length above", 1, signpost.Window{Len: 366*24*time.Hour + time.Second, Limit: 1}, false},
		{"the greatest length", 1, signpost.Window{Len: math.MaxInt64, Limit: 1}, false},
		{"parts of a second", 1, signpost.Window{Len: time.Minute + 1, Limit: 1}, false},
	} {
		b, err := signpost.NewBound(test.concurrent, test.window)
		if (err == nil) != test.ok || b.IsZero() == test.ok {
			t.Errorf("%s: NewBound(%d, %v) = %v, %v", test.name, test.concurrent, test.window, b, err)
		}
	}
}

func TestBoundRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfNDistinct(rapid.Uint32Range(1, 31_622_400), 1, 4, rapid.ID[uint32]).Draw(t, "seconds")
		limits := rapid.SliceOfN(rapid.Uint32Range(0, signpost.MaxLimit), len(lengths), len(lengths)).Draw(t, "limits")
		slices.Sort(lengths)
		slices.Sort(limits)
		var ws []signpost.Window
		for i := range lengths {
			ws = append(ws, signpost.Window{Len: time.Duration(lengths[i]) * time.Second, Limit: limits[i]})
		}
		shuffled := rapid.Permutation(ws).Draw(t, "order")
		b, err := signpost.NewBound(rapid.IntRange(0, signpost.MaxConcurrent).Draw(t, "concurrent"), shuffled...)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(b.Windows(), ws) {
			t.Fatalf("windows %v of %v, want %v", b.Windows(), b, ws)
		}
		if again, err := signpost.ParseBound(b.String()); err != nil || again != b {
			t.Fatalf("ParseBound(%q) = %v, %v", b, again, err)
		}
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		var read signpost.Bound
		if err := json.Unmarshal(text, &read); err != nil || read != b {
			t.Fatalf("from JSON %s: %v, %v", text, read, err)
		}
	})
}

func TestZeroBound(t *testing.T) {
	var zero signpost.Bound
	if !zero.IsZero() || zero.String() != "" || zero.Windows() != nil {
		t.Errorf("the zero Bound: IsZero %v, %q, windows %v", zero.IsZero(), zero, zero.Windows())
	}
	b := signpost.DefaultBound()
	if err := b.UnmarshalText(nil); err == nil || b != signpost.DefaultBound() {
		t.Errorf("UnmarshalText of nothing: error %v, and the bound became %v", err, b)
	}
}

func TestDefaults(t *testing.T) {
	for b, want := range map[signpost.Bound]string{
		signpost.DefaultBound():  "600/min 36000/hour 10 concurrent",
		signpost.StrangerBound(): "60/min 1000/hour 10 concurrent",
	} {
		if b.String() != want {
			t.Errorf("a default is %q, want %q", b, want)
		}
	}
}

func TestMustParseBoundPanics(t *testing.T) {
	defer func() {
		if r, ok := recover().(string); !ok || !strings.Contains(r, `signpost.MustParseBound("60")`) {
			t.Errorf("panic %q does not repeat the call", r)
		}
	}()
	signpost.MustParseBound("60")
}

func TestWindowName(t *testing.T) {
	for length, want := range map[time.Duration]string{
		time.Second: "1s", 90 * time.Second: "90s", time.Minute: "minute", time.Hour: "hour",
		24 * time.Hour: "day", 7 * 24 * time.Hour: "604800s",
	} {
		if got := (signpost.Window{Len: length}).Name(); got != want {
			t.Errorf("a window of %v is named %q, want %q", length, got, want)
		}
	}
}

func FuzzParseBound(f *testing.F) {
	for _, text := range []string{"600/min 36000/hour 10 concurrent", "0/1s, 5/366d 0 concurrent", "1/2/3", "5/99999999999999999999s", "concurrent concurrent", "٣/min"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := signpost.ParseBound(text)
		if err != nil {
			if !b.IsZero() {
				t.Fatalf("ParseBound(%q) = %v and the error %v", text, b, err)
			}
			return
		}
		again, err := signpost.NewBound(b.Concurrent(), b.Windows()...)
		if err != nil || again != b {
			t.Fatalf("ParseBound(%q) = %v, which NewBound makes %v, %v", text, b, again, err)
		}
		if again, err = signpost.ParseBound(b.String()); err != nil || again != b {
			t.Fatalf("ParseBound(%q) prints %q, which reads as %v, %v", text, b, again, errors.Unwrap(err))
		}
	})
}
