// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/signposthq/signpost/bench"
)

// machine says what the figures were made on and with. It names no host and no path.
func machine(o options, idle idleness) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Measured on %s: %s, GOMAXPROCS %d, %s, %s %s, files on %s. ",
		time.Now().UTC().Format(time.DateOnly), cpu(), runtime.GOMAXPROCS(0), runtime.Version(), runtime.GOOS, kernel(), fileSystem(o.dir))
	fmt.Fprintf(&s, "%d rounds; %v a measurement in memory, %v on disk, %v of the HTTP door, %v of the MCP door, %v on Redis.", o.rounds, o.memoryTime, o.diskTime, o.doorTime, o.mcpTime, o.fleetTime)
	if share, ok := idle.others(); ok {
		fmt.Fprintf(&s, " Other processes used %.1f %% of one core meanwhile.", 100*share)
	}
	fmt.Fprintf(&s, "\n\nVersions: %s.\n", strings.Join(versions(), ", "))
	return s.String()
}

func versions() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var vs []string
	for _, dep := range info.Deps {
		if slices.ContainsFunc(bench.Limiters(), func(l bench.Limiter) bool { return l.Package == dep.Path }) ||
			slices.ContainsFunc(bench.SharedSubjects(), func(s bench.Shared) bool { return s.Package == dep.Path }) ||
			dep.Path == bench.MCPPackage {
			vs = append(vs, dep.Path+" "+dep.Version)
		}
	}
	return vs
}

// cpu returns the processor's own name.
func cpu() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// kernel returns the version without the builder's own suffix.
func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
	return version
}

// fileSystem names the kind of file system that dir is on. A sync to memory costs nothing, and the table must not hide it.
func fileSystem(dir string) string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "an unknown file system"
	}
	kind, longest := "an unknown file system", 0
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line) // device, mount point, kind, ...
		if len(fields) < 3 {
			continue
		}
		below, err := filepath.Rel(fields[1], dir)
		if err == nil && filepath.IsLocal(below) && len(fields[1]) >= longest {
			kind, longest = fields[2], len(fields[1])
		}
	}
	return kind
}

// idleness remembers how busy the machine was at the start, so that the report can say what others used since.
type idleness struct {
	began time.Time
	busy  float64 // seconds of all processors
}

func newIdleness() idleness {
	busy, _ := busySeconds()
	return idleness{began: time.Now(), busy: busy}
}

// others returns the share of one core that processes other than ours used.
func (i idleness) others() (float64, bool) {
	busy, ok := busySeconds()
	if !ok {
		return 0, false
	}
	return max(0, busy-i.busy-ownSeconds()) / time.Since(i.began).Seconds(), true
}

// busySeconds returns what all processors did since boot that was not idling.
func busySeconds() (float64, bool) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal ...
	if len(fields) < 9 {
		return 0, false
	}
	ticks := 0.0
	for _, field := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseFloat(fields[field], 64)
		if err != nil {
			return 0, false
		}
		ticks += n
	}
	return ticks / 100, true
}

// ownSeconds returns the processor time of this process and of the children that have ended.
func ownSeconds() float64 {
	seconds := 0.0
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			seconds += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
		}
	}
	return seconds
}
