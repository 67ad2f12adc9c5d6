// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseBound reads the text form of a bound, such as
//
//	600/min 36000/hour 10 concurrent
//
// Windows are LIMIT/UNIT, with a unit of sec, min, hour, day or week, or a length such as
// 90s, 15m, 12h or 7d. "N concurrent" comes after or between them; a text that names no
// concurrency has [DefaultConcurrent]. The error lists every fault, up to ten.
func ParseBound(text string) (Bound, error) {
	var (
		windows    []Window
		faults     []error
		concurrent = -1
	)
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '\n' })
	for i := 0; i < len(words); i++ {
		word := words[i]
		if limit, unit, ok := strings.Cut(word, "/"); ok {
			w, err := parseWindow(limit, unit)
			if err != nil {
				faults = append(faults, fmt.Errorf("bound: %q: %w", word, err))
				continue
			}
			windows = append(windows, w)
			continue
		}
		if i+1 < len(words) && words[i+1] == "concurrent" {
			i++
			switch n, err := parseCount(word); {
			case err != nil:
				faults = append(faults, fmt.Errorf("bound: \"%s concurrent\": %w", word, err))
			case concurrent >= 0:
				faults = append(faults, fmt.Errorf("bound: \"%s concurrent\": the concurrency is there twice", word))
			default:
				concurrent = int(n)
			}
			continue
		}
		faults = append(faults, fmt.Errorf("bound: %q is neither LIMIT/UNIT, such as 600/min, nor \"N concurrent\"", word))
	}
	if concurrent < 0 {
		concurrent = DefaultConcurrent
	}
	b, err := NewBound(concurrent, windows...)
	if len(faults) == 0 {
		return b, err
	}
	if more := len(faults) - maxFaults; more > 0 {
		return Bound{}, fmt.Errorf("%w\nbound: and %d more faults", errors.Join(faults[:maxFaults]...), more)
	}
	if len(windows) > 0 { // what could be read may be wrong too
		faults = append(faults, err)
	}
	return Bound{}, errors.Join(faults...)
}

// maxFaults keeps the error of a long text from being many times as long.
const maxFaults = 10

// MustParseBound is [ParseBound] for texts that are part of a program; it panics on an error.
func MustParseBound(text string) Bound {
	b, err := ParseBound(text)
	if err != nil {
		panic(fmt.Sprintf("signpost.MustParseBound(%q): %v", text, err))
	}
	return b
}

func parseWindow(limit, unit string) (Window, error) {
	n, err := parseCount(limit)
	if err != nil {
		return Window{}, err
	}
	length, err := parseLen(unit)
	if err != nil {
		return Window{}, err
	}
	return Window{Len: length, Limit: n}, nil
}

// parseCount reads plain digits, which is all that ParseUint takes. Signs, fractions and exponents are faults, so
// that no number means something else than it says.
func parseCount(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	switch {
	case errors.Is(err, strconv.ErrRange) || n > MaxLimit:
		return 0, fmt.Errorf("%s is above %d", s, uint32(MaxLimit))
	case err != nil:
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return uint32(n), nil
}

var unitLens = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "second": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
}

func parseLen(s string) (time.Duration, error) {
	digits := strings.TrimLeft(s, "0123456789")
	count, unit := s[:len(s)-len(digits)], digits
	length, known := unitLens[unit]
	if !known {
		return 0, fmt.Errorf("unknown length %q; use sec, min, hour, day, week, or a length such as 90s, 15m, 12h, 7d", s)
	}
	if count == "" {
		return length, nil
	}
	n, err := strconv.ParseUint(count, 10, 32)
	if err != nil || n == 0 || time.Duration(n) > MaxWindowLen/length {
		return 0, fmt.Errorf("length %q is not from a second to 366 days", s)
	}
	return time.Duration(n) * length, nil
}
