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
	sharedFloorBar = 0.55 // of a trivial EVALSHA, at 16 and 256 callers
	sharedRivalBar = 1.5  // times the best rival, at 16 and 256 callers
	sharedP99Bar   = 1.5  // times that of a trivial EVALSHA, at 16 callers
)

var (
	sharedCallers = []int{1, 16, 256}
	sharedModes   = []struct {
		name   string
		always bool
		keys   int // fewer where it takes a sync to make one
	}{{"nothing persisted", false, manyKeys}, {"appendfsync always", true, manyKeys / 10}}
)

type sharedCell struct {
	subject string
	callers int
	always  bool
}

type sharedFigures struct {
	perSecond, p99 rounds
	wrong          int
}

func measureFleet(ctx context.Context, o options) (string, []verdict, error) {
	found := map[sharedCell]*sharedFigures{}
	for round := range o.rounds {
		progress("fleet", round, o)
		for _, mode := range sharedModes {
			if err := measureServer(ctx, o, mode.always, mode.keys, found); err != nil {
				return "", nil, err
			}
		}
	}

	var s strings.Builder
	s.WriteString("\n## A fleet\n\nTakes of two windows per second over one Redis server on this machine, which works on the same cores: median (least..most). In brackets the p99 in microseconds.\n")
	for _, mode := range sharedModes {
		fmt.Fprintf(&s, "\n%s, %d keys:\n\n| subject |", mode.name, mode.keys)
		for _, n := range sharedCallers {
			fmt.Fprintf(&s, " %s |", plural(n))
		}
		s.WriteString(" what one take is |\n|---|---|---|---|---|\n")
		for _, subject := range bench.SharedSubjects() {
			fmt.Fprintf(&s, "| %s |", subject.Name)
			for _, n := range sharedCallers {
				f := found[sharedCell{subject.Name, n, mode.always}]
				fmt.Fprintf(&s, " %s [%.0f]%s |", f.perSecond.text("%.0f"), f.p99.median(), wrongText(f.wrong))
			}
			fmt.Fprintf(&s, " %s |\n", subject.How)
		}
	}
	return s.String(), fleetVerdicts(found), nil
}

// measureServer gives every subject its turn on one new server.
func measureServer(ctx context.Context, o options, always bool, keys int, found map[sharedCell]*sharedFigures) error {
	addr, stop, err := startRedis(o, always)
	if err != nil {
		return err
	}
	defer stop()
	for _, n := range sharedCallers {
		for _, subject := range bench.SharedSubjects() {
			f, err := measure[bench.SharedFigures](ctx, job{Shared: &bench.SharedRun{
				Subject: subject.Name, Callers: n, Keys: keys, For: o.fleetTime, Addr: addr,
			}})
			if err != nil {
				return err
			}
			at := sharedCell{subject.Name, n, always}
			if found[at] == nil {
				found[at] = &sharedFigures{}
			}
			found[at].perSecond = append(found[at].perSecond, f.PerSecond)
			found[at].p99 = append(found[at].p99, f.P99Us)
			found[at].wrong += f.Wrong
		}
	}
	return nil
}

// startRedis starts a server in a directory of its own, which goes when it is stopped.
func startRedis(o options, always bool) (addr string, stop func(), _ error) {
	dir, err := os.MkdirTemp(o.dir, "signpost-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("make directory: %w", err)
	}
	addr, end, err := bench.StartRedis(dir, always)
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return addr, func() {
		end()
		os.RemoveAll(dir)
	}, nil
}

func fleetVerdicts(found map[sharedCell]*sharedFigures) (vs []verdict) {
	for _, mode := range sharedModes {
		for _, n := range sharedCallers {
			ours := found[sharedCell{bench.SharedSignpost, n, mode.always}]
			floor := found[sharedCell{bench.SharedEvalsha, n, mode.always}]
			write := found[sharedCell{bench.SharedWrite, n, mode.always}]
			rival, best := "", (*sharedFigures)(nil)
			for _, s := range bench.SharedSubjects() {
				f := found[sharedCell{s.Name, n, mode.always}]
				if s.Rival && f.wrong == 0 && (best == nil || f.perSecond.median() > best.perSecond.median()) {
					rival, best = s.Name, f
				}
			}
			what := fmt.Sprintf("fleet, %s, %s: ", mode.name, plural(n))
			if n > 1 {
				vs = append(vs, verdict{
					what: what + "two windows ÷ " + bench.SharedEvalsha, target: fmt.Sprintf("at least %.2f", sharedFloorBar),
					found: ours.perSecond.over(floor.perSecond), format: "%.2f", atLeast: true, bar: sharedFloorBar,
				})
			}
			if n > 1 && mode.always { // the floor above writes nothing, so it waits for no sync
				vs = append(vs, verdict{
					what: what + "two windows ÷ " + bench.SharedWrite, target: fmt.Sprintf("at least %.2f", sharedFloorBar),
					found: ours.perSecond.over(write.perSecond), format: "%.2f", atLeast: true, bar: sharedFloorBar,
				})
			}
			if best != nil {
				bar := sharedRivalBar
				if n == 1 {
					bar = 1
				}
				vs = append(vs, verdict{
					what: what + "two windows ÷ " + rival + ", the best rival", target: fmt.Sprintf("at least %.1f", bar),
					found: ours.perSecond.over(best.perSecond), format: "%.2f", atLeast: true, bar: bar,
				})
			}
			if n == 16 {
				vs = append(vs, verdict{
					what: what + "p99 ÷ that of " + bench.SharedEvalsha, target: fmt.Sprintf("at most %.1f", sharedP99Bar),
					found: ours.p99.over(floor.p99), format: "%.2f", bar: sharedP99Bar,
				})
				if mode.always {
					vs = append(vs, verdict{
						what: what + "p99 ÷ that of " + bench.SharedWrite, target: fmt.Sprintf("at most %.1f", sharedP99Bar),
						found: ours.p99.over(write.p99), format: "%.2f", bar: sharedP99Bar,
					})
				}
			}
		}
	}
	return vs
}
