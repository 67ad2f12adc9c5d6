// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Command report measures everything that package bench can measure, and writes the tables into docs/benchmarks.md.
//
//	cd bench && go run ./cmd/report
//
// It takes about half an hour, and wants a machine that does nothing else. Every measurement is a process of its
// own; the subjects take turns, round by round, and ratios are made within a round.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // or a server that was started stays
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "report: %v\n", err)
		os.Exit(1)
	}
}

// options say how much is measured.
type options struct {
	rounds     int
	memoryTime time.Duration
	diskTime   time.Duration
	doorTime   time.Duration
	mcpTime    time.Duration
	fleetTime  time.Duration
	heapKeys   int
	dir        string
	out        string
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == childArg {
		return child(args[1])
	}
	o := options{}
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 5, "how often each subject has its turn")
	flags.DurationVar(&o.memoryTime, "memory-time", 200*time.Millisecond, "length of one measurement in memory")
	flags.DurationVar(&o.diskTime, "disk-time", 1500*time.Millisecond, "length of one measurement on disk")
	flags.DurationVar(&o.doorTime, "door-time", 500*time.Millisecond, "length of one measurement of the HTTP door")
	flags.DurationVar(&o.mcpTime, "mcp-time", time.Second, "length of one measurement of the MCP door")
	flags.DurationVar(&o.fleetTime, "fleet-time", time.Second, "length of one measurement on a Redis server")
	flags.IntVar(&o.heapKeys, "heap-keys", 1_000_000, "keys of the heap measurement")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "where files are made; its disk is what is measured")
	flags.StringVar(&o.out, "out", "../docs/benchmarks.md", "document to write the tables into; - prints them")
	only := flags.String("only", "", "measure these sections alone, such as memory,disk, and print them; the document needs all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || o.rounds < 1 {
		return fmt.Errorf("read flags: want no argument and at least one round")
	}
	measured := sections
	if *only != "" {
		measured, o.out = nil, "-"
		for name := range strings.SplitSeq(*only, ",") {
			i := slices.IndexFunc(sections, func(s section) bool { return s.name == name })
			if i < 0 {
				return fmt.Errorf("read flags: there is no section %q", name)
			}
			measured = append(measured, sections[i])
		}
	}

	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return fmt.Errorf("find directory: %w", err)
	}
	o.dir = dir

	var doc document
	if o.out != "-" { // before the measuring, so that a fault costs no half an hour
		if doc, err = openDocument(o.out); err != nil {
			return err
		}
	}
	idle := newIdleness()
	var tables, verdicts strings.Builder
	for _, s := range measured {
		table, vs, err := s.measure(ctx, o)
		if err != nil {
			return fmt.Errorf("measure %s: %w", s.name, err)
		}
		tables.WriteString(table)
		for _, v := range vs {
			verdicts.WriteString(v.row())
		}
	}
	report := "## The machine\n\n" + machine(o, idle) + "\n## What it must reach\n\n" + verdictHead + verdicts.String() + tables.String()
	if o.out == "-" {
		_, err := fmt.Print(report)
		return err
	}
	return doc.write(report)
}

// section is one part of the report: it measures, and returns its tables and how the targets fared.
type section struct {
	name    string
	measure func(ctx context.Context, o options) (table string, verdicts []verdict, err error)
}

var sections = []section{
	{"memory", measureMemory},
	{"heap", measureHeap},
	{"disk", measureDisk},
	{"door", measureDoor},
	{"mcp", measureMCP},
	{"fleet", measureFleet},
	{"links", measureLinks},
}
