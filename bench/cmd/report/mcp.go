// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/signposthq/signpost/bench"
)

const (
	// middlewareBar is the share of the bare SDK's throughput that must be left.
	middlewareBar = 0.95
	// copiesBar is one copy of the message, and what it takes that its memory grows in steps and is handed out in pages.
	copiesBar = 1.25
)

const (
	smallArgument = 100
	largeArgument = 256 << 10
	hugeArgument  = 1 << 20 // of which the memory alone is looked at
)

var mcpCallers = []int{1, 16}

// mcpKind is one table of the section.
type mcpKind struct {
	stream   bool
	raw      bool
	argument int
}

func (k mcpKind) String() string {
	form := "JSON"
	if k.stream {
		form = "event streams"
	}
	if k.raw {
		return fmt.Sprintf("%s, an argument of %s, left raw", form, size(k.argument))
	}
	return fmt.Sprintf("%s, an argument of %s", form, size(k.argument))
}

func size(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

var mcpKinds = []mcpKind{
	{argument: smallArgument}, {argument: smallArgument, raw: true}, {argument: largeArgument},
	{argument: smallArgument, stream: true}, {argument: largeArgument, stream: true},
}

type mcpCell struct {
	kind    mcpKind
	subject string
	callers int
}

type mcpFound struct {
	perSecond, ns, bytes, allocs rounds
	wrong                        int
}

// floors are what the other subjects are compared with.
var floors = map[string]string{
	bench.MCPMiddleware: bench.BareSDK, bench.MCPMiddlewareExpensive: bench.BareSDK,
	bench.MCPProxy: bench.PlainProxy, bench.MCPProxyExpensive: bench.PlainProxy,
}

func measureMCP(ctx context.Context, o options) (string, []verdict, error) {
	found := map[mcpCell]*mcpFound{}
	add := func(k mcpKind, callers int, subjects []string) error {
		figures, err := measure[[]bench.MCPFigures](ctx, job{MCP: &bench.MCPRun{
			Subjects: subjects, Argument: k.argument, Stream: k.stream, Raw: k.raw, Callers: callers, For: o.mcpTime,
		}})
		if err != nil {
			return err
		}
		for i, f := range figures {
			at := mcpCell{k, subjects[i], callers}
			if found[at] == nil {
				found[at] = &mcpFound{}
			}
			c := found[at]
			c.perSecond, c.ns = append(c.perSecond, f.PerSecond), append(c.ns, f.Ns)
			c.bytes, c.allocs = append(c.bytes, f.Bytes), append(c.allocs, f.Allocs)
			c.wrong += f.Wrong
		}
		return nil
	}
	for round := range o.rounds {
		progress("mcp", round, o)
		for _, k := range mcpKinds {
			for _, n := range mcpCallers {
				if err := add(k, n, bench.MCPSubjects()); err != nil {
					return "", nil, err
				}
			}
		}
		if err := add(mcpKind{argument: hugeArgument}, 1, []string{bench.PlainProxy, bench.MCPProxy}); err != nil {
			return "", nil, err
		}
	}

	var s strings.Builder
	s.WriteString("\n## The MCP door\n\nCalls of a tool per second, over memory and loopback connections: median (least..most). The ratio is to the bare SDK for the middleware, and to the plain\n")
	s.WriteString("reverse proxy for the proxy, both of which have the bare SDK behind them. Time, heap bytes and heap allocations of a call are those with 1 caller, of all that is in the process: the server too.\n")
	for _, k := range mcpKinds {
		fmt.Fprintf(&s, "\n### %s\n\n| subject |", k)
		for _, n := range mcpCallers {
			fmt.Fprintf(&s, " %s | ÷ |", plural(n))
		}
		s.WriteString(" ns | bytes | allocations |\n|---|---|---|---|---|---|---|---|\n")
		for _, subject := range bench.MCPSubjects() {
			fmt.Fprintf(&s, "| %s |", subject)
			for _, n := range mcpCallers {
				at := found[mcpCell{k, subject, n}]
				ratio := ""
				if floor := floors[subject]; floor != "" {
					ratio = at.perSecond.over(found[mcpCell{k, floor, n}].perSecond).text("%.2f")
				}
				fmt.Fprintf(&s, " %s%s | %s |", at.perSecond.text("%.0f"), wrongText(at.wrong), ratio)
			}
			one := found[mcpCell{k, subject, 1}]
			fmt.Fprintf(&s, " %s | %.0f | %.0f |\n", one.ns.text("%.0f"), one.bytes.median(), one.allocs.median())
		}
	}
	return s.String(), mcpVerdicts(found), nil
}

func mcpVerdicts(found map[mcpCell]*mcpFound) (vs []verdict) {
	for _, k := range mcpKinds {
		for _, n := range mcpCallers {
			vs = append(vs, verdict{
				what:   fmt.Sprintf("MCP, %s, %s: middleware ÷ bare SDK", k, plural(n)),
				target: fmt.Sprintf("at least %.2f", middlewareBar), format: "%.2f", atLeast: true, bar: middlewareBar,
				found: found[mcpCell{k, bench.MCPMiddleware, n}].perSecond.over(found[mcpCell{k, bench.BareSDK, n}].perSecond),
			})
		}
	}
	for _, argument := range []int{largeArgument, hugeArgument} {
		k := mcpKind{argument: argument}
		copies := found[mcpCell{k, bench.MCPProxy, 1}].bytes.less(found[mcpCell{k, bench.PlainProxy, 1}].bytes)
		for i := range copies {
			copies[i] /= float64(argument)
		}
		vs = append(vs, verdict{
			what:   fmt.Sprintf("MCP proxy, an argument of %s: heap bytes on top of a plain proxy ÷ the argument", size(argument)),
			target: fmt.Sprintf("at most %.2f", copiesBar), found: copies, format: "%.2f", bar: copiesBar,
		})
	}
	return vs
}
