// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/signposthq/signpost/bench"
)

// kind is one table of the memory section.
type kind struct {
	title   string
	windows int
	refuse  bool
}

// A rival whose first window refuses does not ask the second, so a table of refusals by one window would be the same.
var kinds = []kind{
	{"Admitted, two windows", 2, false},
	{"Admitted, one window", 1, false},
	{"Refused, two windows", 2, true},
}

var (
	admitted2 = kinds[0]
	refused2  = kinds[2]
)

// column is one column of each table.
type column struct {
	title    string
	keys     int
	parallel bool
}

const manyKeys = 100_000

var columns = []column{
	{"one key, serial", 1, false},
	{"one key, parallel", 1, true},
	{"100,000 keys, serial", manyKeys, false},
	{"100,000 keys, parallel", manyKeys, true},
}

// cell is where a figure stands.
type cell struct {
	kind    kind
	column  column
	limiter string
}

type cellFigures struct {
	ns     rounds
	allocs rounds
	ops    int
	wrong  int
}

func measureMemory(ctx context.Context, o options) (string, []verdict, error) {
	found := map[cell]*cellFigures{}
	for round := range o.rounds {
		progress("memory", round, o)
		for _, c := range columns {
			for _, k := range kinds {
				for _, l := range bench.Limiters() {
					f, err := measure[bench.Figures](ctx, job{Run: &bench.Run{
						Limiter: l.Name, Windows: k.windows, Refuse: k.refuse, Keys: c.keys, Parallel: c.parallel, For: o.memoryTime,
					}})
					if err != nil {
						return "", nil, err
					}
					at := cell{k, c, l.Name}
					if found[at] == nil {
						found[at] = &cellFigures{}
					}
					found[at].add(f)
				}
			}
		}
	}

	var s strings.Builder
	s.WriteString("\n## In memory\n\nNanoseconds per take, over all goroutines: median (least..most), [heap allocations per take].\n")
	for _, k := range kinds {
		fmt.Fprintf(&s, "\n### %s\n\n| limiter |", k.title)
		for _, c := range columns {
			fmt.Fprintf(&s, " %s |", c.title)
		}
		s.WriteString("\n|---|---|---|---|---|\n")
		for _, l := range bench.Limiters() {
			fmt.Fprintf(&s, "| %s |", l.Name)
			for _, c := range columns {
				fmt.Fprintf(&s, " %s |", found[cell{k, c, l.Name}])
			}
			s.WriteString("\n")
		}
	}
	return s.String(), memoryVerdicts(found), nil
}

func (f *cellFigures) add(one bench.Figures) {
	f.ns = append(f.ns, one.Ns)
	f.allocs = append(f.allocs, one.Allocs)
	f.ops += one.Ops
	f.wrong += one.Wrong
}

// String is the figure as the table shows it. A wrong answer is never left out.
func (f *cellFigures) String() string {
	s := fmt.Sprintf("%s [%.0f]", f.ns.text("%.0f"), f.allocs.median())
	if f.wrong > 0 {
		s += fmt.Sprintf(" **%d of %d wrong**", f.wrong, f.ops)
	}
	return s
}

func memoryVerdicts(found map[cell]*cellFigures) []verdict {
	var vs []verdict
	for _, c := range columns {
		ours := found[cell{admitted2, c, bench.Signpost}]
		name, best := bestRival(found, c)
		bar := 1.0
		if c.keys > 1 {
			bar = 1.4
		}
		vs = append(vs, verdict{
			what:   fmt.Sprintf("two windows, %s: %s ÷ signpost", c.title, name),
			target: fmt.Sprintf("at least %.1f", bar), found: best.ns.over(ours.ns), format: "%.2f", atLeast: true, bar: bar,
		})
	}
	for _, c := range columns {
		admit, refuse := found[cell{admitted2, c, bench.Signpost}], found[cell{refused2, c, bench.Signpost}]
		vs = append(vs, verdict{
			what:   fmt.Sprintf("refusal ÷ admission, %s", c.title),
			target: "at most 1", found: refuse.ns.over(admit.ns), format: "%.2f", bar: 1,
		})
	}
	worst := 0.0
	for _, c := range columns {
		for _, k := range kinds {
			for _, name := range []string{bench.Signpost, bench.SignpostKeyOf, bench.SignpostExpensive} {
				worst = max(worst, found[cell{k, c, name}].allocs.median())
			}
		}
	}
	return append(vs, verdict{
		what: "heap allocations per take, the most of any signpost row", target: "0", found: rounds{worst}, format: "%.3f", bar: 0.005,
	})
}

// bestRival returns the rival with the least median of two windows, among those whose answers were right.
func bestRival(found map[cell]*cellFigures, c column) (name string, best *cellFigures) {
	for _, l := range bench.Limiters() {
		if !l.Rival {
			continue
		}
		if f := found[cell{admitted2, c, l.Name}]; f.wrong == 0 && (best == nil || f.ns.median() < best.ns.median()) {
			name, best = l.Name, f
		}
	}
	return name, best
}

func measureHeap(ctx context.Context, o options) (string, []verdict, error) {
	bytes, first := map[string]rounds{}, map[string]rounds{}
	for round := range o.rounds {
		progress("heap", round, o)
		for _, l := range bench.Limiters() {
			h, err := measure[bench.Heap](ctx, job{Heap: &heapJob{Limiter: l.Name, Keys: o.heapKeys}})
			if err != nil {
				return "", nil, err
			}
			bytes[l.Name] = append(bytes[l.Name], h.BytesPerKey)
			first[l.Name] = append(first[l.Name], h.FirstTakeNs)
		}
	}
	var s strings.Builder
	fmt.Fprintf(&s, "\n### Heap of a live key\n\n%d keys of two windows; what a limiter keeps of the caller's string is counted.\n\n", o.heapKeys)
	s.WriteString("| limiter | bytes a key | ns of a key's first take |\n|---|---|---|\n")
	for _, l := range bench.Limiters() {
		fmt.Fprintf(&s, "| %s | %s | %s |\n", l.Name, bytes[l.Name].text("%.0f"), first[l.Name].text("%.0f"))
	}
	return s.String(), []verdict{{
		what: "heap bytes a live key", target: "at most 150", found: bytes[bench.Signpost], format: "%.0f", bar: 150,
	}}, nil
}

// progress tells on standard error where the run is.
func progress(section string, round int, o options) {
	fmt.Fprintf(os.Stderr, "%s %s: round %d of %d\n", time.Now().Format(time.TimeOnly), section, round+1, o.rounds)
}
