// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

// rounds are the figures of one subject in one case, one per round.
type rounds []float64

func (r rounds) median() float64 {
	sorted := slices.Sorted(slices.Values(r))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// over divides round by round.
func (r rounds) over(o rounds) rounds {
	return r.with(o, func(a, b float64) float64 { return a / b })
}

// less subtracts round by round.
func (r rounds) less(o rounds) rounds {
	return r.with(o, func(a, b float64) float64 { return a - b })
}

func (r rounds) with(o rounds, f func(a, b float64) float64) rounds {
	made := make(rounds, len(r))
	for i := range r {
		made[i] = f(r[i], o[i])
	}
	return made
}

// text writes "median (least..most)" in a format for each of the three, or the one figure that there is.
func (r rounds) text(format string) string {
	if len(r) == 1 {
		return fmt.Sprintf(format, r[0])
	}
	return fmt.Sprintf(format+" ("+format+".."+format+")", r.median(), slices.Min(r), slices.Max(r))
}

// verdict is how one target fared.
type verdict struct {
	what   string
	target string
	found  rounds
	format string
	// atLeast says that more is better: the median must not be below bar, else not above it.
	atLeast bool
	bar     float64
}

const verdictHead = "| what | target | found: median (least..most) | |\n|---|---|---|---|\n"

func (v verdict) met() bool {
	if v.atLeast {
		return v.found.median() >= v.bar
	}
	return v.found.median() <= v.bar
}

// row is one line of the table under verdictHead. Where rounds fell on both sides of the bar, it says so.
func (v verdict) row() string {
	word := "not met"
	if v.met() {
		word = "met"
	}
	if slices.Min(v.found) < v.bar && v.bar < slices.Max(v.found) {
		word += ", rounds on both sides"
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", v.what, v.target, v.found.text(v.format), word)
}
