// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/signposthq/signpost/bench"
)

const (
	doorNs = 2000
	// doorAllocs is what a handful is taken to be: a pass, the request and its fields, the answer's.
	doorAllocs = 8
	flushBar   = 1.1
)

// flushCallers are the columns of the flush table. With one, a sync begins when it asks; with many, who asks
// during a sync waits for that one and the next.
var flushCallers = []int{1, 16}

type flushCell struct {
	subject string
	callers int
}

func measureDoor(ctx context.Context, o options) (string, []verdict, error) {
	ns, allocs, wrong := map[string]rounds{}, map[string]rounds{}, map[string]int{}
	median := map[flushCell]rounds{}
	for round := range o.rounds {
		progress("door", round, o)
		for _, subject := range bench.Doors() {
			f, err := measure[bench.Figures](ctx, job{Door: &bench.DoorRun{Subject: subject, For: o.doorTime}})
			if err != nil {
				return "", nil, err
			}
			ns[subject] = append(ns[subject], f.Ns)
			allocs[subject] = append(allocs[subject], f.Allocs)
			wrong[subject] += f.Wrong
		}
		for _, n := range flushCallers {
			for _, subject := range bench.Flushes() {
				f, err := measureFlush(ctx, o, subject, n)
				if err != nil {
					return "", nil, err
				}
				at := flushCell{subject, n}
				median[at] = append(median[at], f.MedianMs)
				wrong[subject] += f.Wrong
			}
		}
	}

	var s strings.Builder
	s.WriteString("\n## The HTTP door\n\nOver memory, without a connection: nanoseconds and heap allocations of one call of the handler.\n\n")
	s.WriteString("| subject | ns | on top of the bare handler | allocations | on top |\n|---|---|---|---|---|\n")
	bareNs, bareAllocs := ns[bench.BareHandler], allocs[bench.BareHandler]
	for _, subject := range bench.Doors() {
		fmt.Fprintf(&s, "| %s%s | %s | %s | %.0f | %.0f |\n", subject, wrongText(wrong[subject]),
			ns[subject].text("%.0f"), ns[subject].less(bareNs).text("%.0f"), allocs[subject].median(), allocs[subject].less(bareAllocs).median())
	}
	fmt.Fprintf(&s, "\nOver disk, with a sync that takes %v and a handler that works for %v: milliseconds of the median response, and its ratio to\nno limiter, over loopback connections that each ask again when they have their answer.\n\n| subject |",
		bench.FlushTime, bench.WorkTime)
	for _, n := range flushCallers {
		fmt.Fprintf(&s, " %s | ÷ |", plural(n))
	}
	s.WriteString("\n|---|---|---|---|---|\n")
	for _, subject := range bench.Flushes() {
		fmt.Fprintf(&s, "| %s%s |", subject, wrongText(wrong[subject]))
		for _, n := range flushCallers {
			at := median[flushCell{subject, n}]
			fmt.Fprintf(&s, " %s | %s |", at.text("%.2f"), at.over(median[flushCell{bench.NoLimiter, n}]).text("%.2f"))
		}
		s.WriteString("\n")
	}

	var vs []verdict
	for _, subject := range []string{bench.DoorCheap, bench.DoorExpensive} {
		vs = append(vs, verdict{
			what:   fmt.Sprintf("HTTP %s: ns on top of the bare handler", subject),
			target: fmt.Sprintf("at most %d", doorNs), found: ns[subject].less(bareNs), format: "%.0f", bar: doorNs,
		}, verdict{
			what:   fmt.Sprintf("HTTP %s: allocations on top of the bare handler", subject),
			target: fmt.Sprintf("at most %d", doorAllocs), found: allocs[subject].less(bareAllocs), format: "%.1f", bar: doorAllocs + 0.05, // the runtime's own few
		})
	}
	for _, n := range flushCallers {
		vs = append(vs, verdict{
			what:   fmt.Sprintf("HTTP door over disk, sync of %v, %s: median response ÷ no limiter", bench.FlushTime, plural(n)),
			target: fmt.Sprintf("at most %.1f", flushBar), format: "%.2f", bar: flushBar,
			found: median[flushCell{bench.FlushOverlap, n}].over(median[flushCell{bench.NoLimiter, n}]),
		})
	}
	return s.String(), vs, nil
}

func measureFlush(ctx context.Context, o options, subject string, n int) (bench.FlushFigures, error) {
	dir, err := os.MkdirTemp(o.dir, "signpost-bench-")
	if err != nil {
		return bench.FlushFigures{}, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	return measure[bench.FlushFigures](ctx, job{Flush: &bench.FlushRun{Subject: subject, Callers: n, For: o.diskTime, Dir: dir}})
}

// wrongText makes wrong answers show beside the name of a row.
func wrongText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" **%d wrong**", n)
}

func plural(n int) string {
	if n == 1 {
		return "1 caller"
	}
	return fmt.Sprintf("%d callers", n)
}
