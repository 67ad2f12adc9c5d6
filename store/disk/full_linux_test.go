// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// mount mounts a file system for the test, or skips it where that is not allowed. CI runs as root, where it is.
func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	err := syscall.Mount(source, target, kind, flags, data)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skipf("mounting a %s needs privileges that this process has not: %v", kind, err)
	}
	if err != nil {
		t.Fatalf("mount %s: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(target, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// TestFullDisk fills a real file system of 24 MiB, twice, while it is taken from. Nobody is refused or kept waiting,
// little is logged, what is cold can still be read, and when there is room again everything is durable.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=24m")
	log := &logged{}
	s := mustOpen(t, dir, Options{Logger: slogOf(log), CommitTimeout: soon, MaxKeys: 5000})
	const cold = 1_000_000
	for i := range 5 {
		take(t, s, request(cold+i))
	}
	goroutines, next := 0, 2_000_000
	for round := range 2 {
		ballast := filepath.Join(dir, "ballast")
		fill(t, ballast)
		eventually(t, "the store is degraded", func() bool {
			next += 2000
			_ = putMany(s.engine.Load(), next-2000, next) // what the engine's log has room for already is soon used up
			if _, _, err := s.Take(t.Context(), request(next)); err != nil {
				t.Fatal(err)
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
	if n := log.count(""); n != 4 {
		t.Errorf("%d log lines, want two a round:\n%s", n, strings.Join(log.lines, "\n"))
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

// TestFullFromTheBeginning opens a store where there is no room for another file. What is there is read.
func TestFullFromTheBeginning(t *testing.T) {
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=24m")
	store, ballast := filepath.Join(dir, "store"), filepath.Join(dir, "ballast")
	s := mustOpen(t, store, Options{})
	for range 3 {
		take(t, s, request(1))
	}
	mustClose(t, s)
	fill(t, ballast)
	s = mustOpen(t, store, Options{})
	if d := take(t, s, request(1)); !d.Admitted || !d.Degraded || d.Windows()[0].Used != 4 {
		t.Errorf("used %d admitted=%v degraded=%v, want 4 and both", d.Windows()[0].Used, d.Admitted, d.Degraded)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	wantHealthy(t, s)
	mustClose(t, s)
	s = mustOpen(t, store, Options{})
	wantUsed(t, s, 1, 4)
}

// TestReadOnlyMount opens a store where nothing can be written, which root is not spared either.
func TestReadOnlyMount(t *testing.T) {
	dir := t.TempDir()
	mustClose(t, mustOpen(t, dir, Options{}))
	mount(t, dir, dir, "bind", syscall.MS_BIND, "")
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, Options{})
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(fmt.Sprint(err), dir) {
		t.Fatalf("open: %v, want EROFS and the directory", err)
	}
}
