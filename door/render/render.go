// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package render turns a decision into what every door says on the wire: the values of the header
// fields, the problem body, and which responses may carry counters. All of it speaks of the
// decision's own instant; nothing here reads a clock.
package render

import (
	"strconv"

	"github.com/signposthq/signpost"
)

// Concurrency is the name of the concurrency beside those of the windows.
const Concurrency = "concurrency"

// AppendPolicy appends the value of RateLimit-Policy: each window's limit and length, and the
// concurrency.
func AppendPolicy(b []byte, d *signpost.Decision) []byte {
	for _, w := range d.Windows() {
		b = appendName(b, w.Name())
		b = append(b, ";q="...)
		b = strconv.AppendUint(b, uint64(w.Limit), 10)
		b = append(b, ";w="...)
		b = strconv.AppendInt(b, signpost.Seconds(w.Len), 10)
		b = append(b, ", "...)
	}
	b = appendName(b, Concurrency)
	b = append(b, ";q="...)
	b = strconv.AppendInt(b, int64(d.Concurrent), 10)
	return append(b, `;qu="concurrent-requests"`...)
}

// AppendLimits appends the value of RateLimit: what remains of each bound and the seconds until it
// resets. A refusal lists only the bounds that refused, so that none resets after Retry-After; one
// that no wait helps names no reset. The concurrency is there for expensive work, and has no reset of its own.
func AppendLimits(b []byte, d *signpost.Decision) []byte {
	begin := len(b)
	next := func(name string, remaining int64) {
		if len(b) > begin {
			b = append(b, ", "...)
		}
		b = appendName(b, name)
		b = append(b, ";r="...)
		b = strconv.AppendInt(b, remaining, 10)
	}
	for _, w := range d.Windows() {
		if !d.Admitted && !w.Refused {
			continue
		}
		next(w.Name(), int64(w.Remaining()))
		if !d.Never {
			b = append(b, ";t="...)
			b = strconv.AppendInt(b, signpost.Seconds(Reset(d, w).Sub(d.At)), 10)
		}
	}
	if d.ConcurrencyRefused || d.Admitted && d.Expensive {
		next(Concurrency, SlotsLeft(d))
	}
	return b
}

func appendName(b []byte, name string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"')
}

// SlotsLeft returns how many more leases an expensive request has found. An admission's own is taken off.
func SlotsLeft(d *signpost.Decision) int64 {
	left := int64(d.Concurrent) - int64(d.InUse)
	if d.Admitted {
		left--
	}
	return max(left, 0)
}

// Reset returns when a window starts again from 0, never more than its length after the
// decision, though the clock was set back.
func Reset(d *signpost.Decision, w signpost.WindowState) signpost.Instant {
	return min(w.Reset(), d.At.Add(w.Len))
}

// Counter is the one bound that a reader of a single limit is told of.
type Counter struct {
	Name      string // of the window, or Concurrency
	Limit     int64
	Remaining int64
	Reset     signpost.Instant // 0: no wait helps
}

// Tightest returns the bound that matters most: of a refusal the one that refused and has the
// longest wait, of an admission the window with the least remaining, the longer of equals.
func Tightest(d *signpost.Decision) Counter {
	if d.Admitted {
		return tightestWindow(d, func(w, best signpost.WindowState) bool { return w.Remaining() <= best.Remaining() })
	}
	if refusedByConcurrency(d) {
		c := Counter{Name: Concurrency, Limit: int64(d.Concurrent)}
		if !d.Never {
			c.Reset = d.At.Add(d.RetryAfter())
		}
		return c
	}
	if d.Never {
		// A cost above a longer window's limit is above the shorter's too, which is never larger.
		w := d.Windows()[0]
		return Counter{Name: w.Name(), Limit: int64(w.Limit), Remaining: int64(w.Remaining())}
	}
	return tightestWindow(d, func(w, best signpost.WindowState) bool {
		return w.Refused && (!best.Refused || Reset(d, w) >= Reset(d, best))
	})
}

func tightestWindow(d *signpost.Decision, better func(w, best signpost.WindowState) bool) Counter {
	windows := d.Windows()
	if len(windows) == 0 { // the zero Decision
		return Counter{}
	}
	best := windows[0]
	for _, w := range windows[1:] {
		if better(w, best) {
			best = w
		}
	}
	return Counter{Name: best.Name(), Limit: int64(best.Limit), Remaining: int64(best.Remaining()), Reset: Reset(d, best)}
}

// refusedByConcurrency reports whether the wait, or that there is none, is that of the concurrency.
func refusedByConcurrency(d *signpost.Decision) bool {
	if !d.ConcurrencyRefused {
		return false
	}
	if d.Never {
		return d.Concurrent == 0
	}
	for _, w := range d.Windows() {
		if w.Refused && Reset(d, w).Sub(d.At) >= d.RetryAfter() {
			return false
		}
	}
	return true
}

// Violated returns the names of the bounds that refused, shortest window first.
func Violated(d *signpost.Decision) []string {
	var names []string
	for _, w := range d.Windows() {
		if w.Refused {
			names = append(names, w.Name())
		}
	}
	if d.ConcurrencyRefused {
		names = append(names, Concurrency)
	}
	return names
}
