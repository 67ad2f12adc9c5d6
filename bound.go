// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The range of a bound.
const (
	// MaxWindows is how many windows one bound may name.
	MaxWindows = 4
	// MinWindowLen and MaxWindowLen are the shortest and the longest window. A length is a
	// whole number of seconds.
	MinWindowLen = time.Second
	MaxWindowLen = 366 * 24 * time.Hour
	// MaxLimit is the largest limit of a window. A cost can be one more, and so can be
	// above every limit.
	MaxLimit = math.MaxUint32 - 1
	// MaxConcurrent is the largest concurrency.
	MaxConcurrent = 1000
	// DefaultConcurrent is the concurrency of a bound whose text names none.
	DefaultConcurrent = 10
)

// Window is one limit on how much passes in a fixed interval. Intervals are anchored to
// the Unix epoch in UTC: a length of a day turns at 00:00 UTC, a week on Thursday.
type Window struct {
	Len   time.Duration // MinWindowLen to MaxWindowLen, whole seconds
	Limit uint32        // the cost that may pass in one interval; 0 denies all
}

// Name returns what headers, bodies and logs call the window: "minute", "hour", "day",
// or its length in seconds, such as "90s".
func (w Window) Name() string {
	switch w.Len {
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return strconv.FormatInt(int64(w.Len/time.Second), 10) + "s"
}

// Bound is what one key is held to: one to four windows and a concurrency. It travels
// with each request, so a changed bound applies at once to the counts that are there.
// Bounds are comparable. The zero Bound is no bound; taking with it is an error.
type Bound struct {
	seconds    [MaxWindows]uint32 // ascending; 0 ends the list
	limits     [MaxWindows]uint32
	concurrent uint32
}

var (
	defaultBound  = MustParseBound("600/min 36000/hour 10 concurrent")
	strangerBound = MustParseBound("60/min 1000/hour 10 concurrent")
)

// DefaultBound returns 600 a minute, 36,000 an hour and 10 expensive operations at once: ten a
// second, all hour.
func DefaultBound() Bound { return defaultBound }

// StrangerBound returns the bound for doors reached with no credential and for links that a stranger
// minted: 60 a minute, 1,000 an hour, 10 at once. A looser bound there buys a guesser guesses.
func StrangerBound() Bound { return strangerBound }

// NewBound returns the bound of these windows, in any order, and this concurrency. A
// concurrency of 0 refuses every expensive request. The error lists every fault, not the first.
func NewBound(concurrent int, windows ...Window) (Bound, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("bound: "+format, args...)) }

	if len(windows) == 0 {
		fault("no window; name one to %d, such as 600/min", MaxWindows)
	}
	if len(windows) > MaxWindows {
		fault("%d windows; at most %d", len(windows), MaxWindows)
	}
	if concurrent < 0 || concurrent > MaxConcurrent {
		fault("concurrency %d is not from 0 to %d", concurrent, MaxConcurrent)
	}
	sorted := slices.SortedStableFunc(slices.Values(windows), func(a, b Window) int { return cmp.Compare(a.Len, b.Len) })
	for i, w := range sorted {
		switch {
		case w.Len < MinWindowLen || w.Len > MaxWindowLen:
			fault("window of %v is not from %v to 366 days", w.Len, MinWindowLen)
		case w.Len%time.Second != 0:
			fault("window of %v is not a whole number of seconds", w.Len)
		}
		if w.Limit > MaxLimit {
			fault("limit %d of window %s is above %d", w.Limit, w.Name(), uint32(MaxLimit))
		}
		if i == 0 {
			continue
		}
		switch short := sorted[i-1]; {
		case short.Len == w.Len:
			fault("two windows of length %s", w.Name())
		case short.Limit > w.Limit:
			fault("window %s allows %d, less than the %d of the shorter window %s, which could never be used", w.Name(), w.Limit, short.Limit, short.Name())
		}
	}
	if len(faults) > 0 {
		return Bound{}, errors.Join(faults...)
	}
	b := Bound{concurrent: uint32(concurrent)}
	for i, w := range sorted {
		b.seconds[i], b.limits[i] = uint32(w.Len/time.Second), w.Limit
	}
	return b, nil
}

// IsZero reports whether b is the zero Bound.
func (b Bound) IsZero() bool { return b.seconds[0] == 0 }

// Windows returns the windows, shortest first. The slice is the caller's.
func (b Bound) Windows() []Window {
	var ws []Window
	for i := range b.len() {
		ws = append(ws, b.window(i))
	}
	return ws
}

// Concurrent returns how many expensive operations may run at once.
func (b Bound) Concurrent() int { return int(b.concurrent) }

func (b *Bound) len() int {
	n := 0
	for n < MaxWindows && b.seconds[n] != 0 {
		n++
	}
	return n
}

func (b *Bound) window(i int) Window {
	return Window{Len: time.Duration(b.seconds[i]) * time.Second, Limit: b.limits[i]}
}

// String returns the text form, which [ParseBound] reads back to an equal bound.
func (b Bound) String() string {
	if b.IsZero() {
		return ""
	}
	var s strings.Builder
	for _, w := range b.Windows() {
		unit := w.Name()
		if unit == "minute" {
			unit = "min"
		}
		fmt.Fprintf(&s, "%d/%s ", w.Limit, unit)
	}
	fmt.Fprintf(&s, "%d concurrent", b.concurrent)
	return s.String()
}

// MarshalText returns the text form. The zero Bound is an empty text.
func (b Bound) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText is [ParseBound]; an empty text is an error.
func (b *Bound) UnmarshalText(text []byte) error {
	parsed, err := ParseBound(string(text))
	if err != nil {
		return err
	}
	*b = parsed
	return nil
}

// Seconds returns the length of each window in seconds, shortest first; 0 ends the list.
func (b *Bound) Seconds() [MaxWindows]uint32 { return b.seconds }

// Limits returns the limit of each window, in the order of Seconds.
func (b *Bound) Limits() [MaxWindows]uint32 { return b.limits }
