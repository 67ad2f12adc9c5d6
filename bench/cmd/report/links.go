// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/signposthq/signpost/bench"
)

const linksCallers = 16

var linkCounts = []int{1_000, 100_000, 1_000_000}

func measureLinks(ctx context.Context, o options) (string, []verdict, error) {
	type cell struct {
		bytes, lease, perSecond, us rounds
		wrong                       int
	}
	found := map[int]*cell{}
	for round := range o.rounds {
		progress("links", round, o)
		for _, n := range linkCounts {
			f, err := measureLive(ctx, o, n)
			if err != nil {
				return "", nil, err
			}
			if found[n] == nil {
				found[n] = &cell{}
			}
			at := found[n]
			at.bytes = append(at.bytes, f.Bytes)
			at.lease = append(at.lease, f.LeaseBytes)
			at.perSecond = append(at.perSecond, f.PerSecond)
			at.us = append(at.us, f.ServerUs)
			at.wrong += f.Wrong
		}
	}

	var s strings.Builder
	fmt.Fprintf(&s, "\n### As links grow in number\n\nLive links of two windows on one server that keeps nothing on disk, %s.\n\n", plural(linksCallers))
	s.WriteString("| live links | bytes a link | on top while a lease is out | takes per second | microseconds of a take inside the server | ÷ 1,000 links |\n|---|---|---|---|---|---|\n")
	for _, n := range linkCounts {
		f := found[n]
		fmt.Fprintf(&s, "| %d | %s | %s | %s%s | %s | %s |\n", n, f.bytes.text("%.0f"), f.lease.text("%.0f"),
			f.perSecond.text("%.0f"), wrongText(f.wrong), f.us.text("%.2f"), f.us.over(found[linkCounts[0]].us).text("%.2f"))
	}
	return s.String(), nil, nil
}

// measureLive measures on a new server.
func measureLive(ctx context.Context, o options, links int) (f bench.LinksFigures, _ error) {
	addr, stop, err := startRedis(o, false)
	if err != nil {
		return f, err
	}
	defer stop()
	return measure[bench.LinksFigures](ctx, job{Links: &bench.LinksRun{Links: links, Callers: linksCallers, For: o.fleetTime, Addr: addr}})
}
