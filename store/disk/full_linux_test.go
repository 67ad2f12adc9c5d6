// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFullDisk fills a real file system of 24 MiB, twice, while it is taken from. Nobody is refused or kept waiting,
// little is logged, what is cold can still be read, and when there is room again everything is durable.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skip("mounting a tmpfs needs root: ", err) // the faults of fault_test.go are injected everywhere
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	log := &logged{}
	s := mustOpen(t, dir, Options{Logger: slogOf(log), CommitTimeout: 2 * time.Second, MaxKeys: 5000})
	const cold = 1_000_000
	for i := range 5 {
		take(t, s, request(cold+i))
	}
	goroutines, next := 0, 2_000_000
	for round := range 2 {
		ballast := filepath.Join(dir, "ballast")
		fill(t, ballast)
		eventually(t, "the store is degraded", func() bool {
			for range 500 {
				next++
				if _, _, err := s.Take(t.Context(), request(next)); err != nil {
					t.Fatal(err)
				}
			}
			return s.Stats().Degraded
		})
		for i := range 3000 {
			d, _, err := s.Take(t.Context(), request(10_000+i))
			if err != nil || !d.Admitted || !d.Degraded {
				t.Fatalf("take on a full disk: admitted=%v degraded=%v error=%v", d.Admitted, d.Degraded, err)
			}
		}
		if in, err := s.Inspect(t.Context(), keyOf(cold), t0); err != nil || len(in.Counts) == 0 {
			t.Errorf("a cold key on a full disk: %v, %v", in, err)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		wantHealthy(t, s)
		if d := take(t, s, request(20_000)); d.Degraded {
			t.Error("degraded although there is room")
		}
		eventually(t, "what was left behind has ended", func() bool { return s.left.Load() == 0 })
		if round == 0 {
			goroutines = runtime.NumGoroutine()
		} else if n := runtime.NumGoroutine(); n > goroutines+10 {
			t.Errorf("%d goroutines after round %d, %d after the first", n, round, goroutines)
		}
	}
	if len(log.lines) != 4 {
		t.Errorf("%d log lines, want two a round:\n%s", len(log.lines), strings.Join(log.lines, "\n"))
	}
	want := used(t, s, 10_000)
	mustClose(t, s)
	s = mustOpen(t, dir, Options{})
	wantUsed(t, s, 10_000, want)
	wantUsed(t, s, 12_999, 2)
	wantUsed(t, s, cold, 1)
	mustClose(t, s)
}

// fill writes until there is no room.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for b := make([]byte, 64<<10); len(b) > 0; {
		if _, err = f.Write(b); err != nil {
			b = b[:len(b)/2]
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
