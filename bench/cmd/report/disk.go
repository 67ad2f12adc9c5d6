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

// callers are the columns of the disk table, with the share of the bare log that a take must reach.
var callers = []struct {
	n   int
	bar float64
}{{1, 0.9}, {16, 0.9}, {256, 0.6}}

type diskCell struct {
	subject string
	callers int
}

func measureDisk(ctx context.Context, o options) (string, []verdict, error) {
	perSecond, wrong := map[diskCell]rounds{}, map[diskCell]int{}
	for round := range o.rounds {
		progress("disk", round, o)
		for _, c := range callers {
			for _, d := range bench.Durables() {
				f, err := measureDurable(ctx, o, d, c.n)
				if err != nil {
					return "", nil, err
				}
				at := diskCell{d.Name, c.n}
				perSecond[at] = append(perSecond[at], f.PerSecond)
				wrong[at] += f.Wrong
			}
		}
	}

	var s strings.Builder
	fmt.Fprintf(&s, "\n## On disk\n\nDurable operations per second: median (least..most). %d keys where not said otherwise; each caller waits for its answer.\n\n", manyKeys)
	s.WriteString("| subject |")
	for _, c := range callers {
		fmt.Fprintf(&s, " %s |", plural(c.n))
	}
	s.WriteString(" what one operation is |\n|---|---|---|---|---|\n")
	for _, d := range bench.Durables() {
		fmt.Fprintf(&s, "| %s |", d.Name)
		for _, c := range callers {
			at := diskCell{d.Name, c.n}
			fmt.Fprintf(&s, " %s%s |", perSecond[at].text("%.0f"), wrongText(wrong[at]))
		}
		fmt.Fprintf(&s, " %s |\n", d.How)
	}
	var vs []verdict
	for _, log := range []string{bench.LogGrowing, bench.LogPreallocated} {
		for _, c := range callers {
			vs = append(vs, verdict{
				what:   fmt.Sprintf("on disk, %s: two windows and the concurrency bound ÷ %s", plural(c.n), log),
				target: fmt.Sprintf("at least %.1f", c.bar),
				found:  perSecond[diskCell{bench.DiskExpensive, c.n}].over(perSecond[diskCell{log, c.n}]),
				format: "%.2f", atLeast: true, bar: c.bar,
			})
		}
	}
	return s.String(), vs, nil
}

// measureDurable gives one run a directory of its own on the disk that is measured.
func measureDurable(ctx context.Context, o options, d bench.Durable, n int) (bench.DurableFigures, error) {
	dir, err := os.MkdirTemp(o.dir, "signpost-bench-")
	if err != nil {
		return bench.DurableFigures{}, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	return measure[bench.DurableFigures](ctx, job{Durable: &bench.DurableRun{
		Subject: d.Name, Callers: n, Keys: manyKeys, For: o.diskTime, Dir: dir,
	}})
}
