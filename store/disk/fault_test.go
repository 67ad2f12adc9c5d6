// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signposthq/signpost"
)

// TestFailingDisk breaks one kind of operation after another under a store that is taken from. Nobody is refused or kept
// waiting for it, the counts stay exact, and once the disk works everything is durable.
func TestFailingDisk(t *testing.T) {
	for _, ops := range []string{"write", "sync", "write sync create open rename remove"} {
		t.Run(ops, func(t *testing.T) {
			dir, disk, log := t.TempDir(), newFaulty(), &logged{}
			s := mustOpen(t, dir, Options{files: disk, Logger: slogOf(log)})
			for range 10 {
				if d := take(t, s, request(1)); d.Degraded || !d.Admitted {
					t.Fatalf("healthy: admitted=%v degraded=%v", d.Admitted, d.Degraded)
				}
			}
			disk.set(failing(ops))
			if d := take(t, s, request(4)); !d.Admitted || !d.Degraded { // and is not touched again
				t.Fatalf("as the disk fails: admitted=%v degraded=%v, want both", d.Admitted, d.Degraded)
			}
			eventually(t, "the store is degraded", func() bool { return s.Stats().Degraded })
			for i := range 200 {
				d, c, err := s.Take(t.Context(), request(1))
				if err != nil || !d.Degraded || c != (signpost.Commit{}) {
					t.Fatalf("take while the disk fails: degraded=%v commit=%v error=%v", d.Degraded, c, err)
				}
				if want := i < 90; d.Admitted != want {
					t.Fatalf("take %d while the disk fails: admitted=%v, want %v", i, d.Admitted, want)
				}
			}
			if st := s.Stats(); st.Failures == 0 || !strings.Contains(st.Cause, errInjected.Error()) {
				t.Errorf("failures %d, cause %q", st.Failures, st.Cause)
			}
			if d := take(t, s, request(2)); !d.Admitted || !d.Degraded {
				t.Errorf("a new key: admitted=%v degraded=%v", d.Admitted, d.Degraded)
			}

			disk.set(nil)
			wantHealthy(t, s)
			if d := take(t, s, request(3)); d.Degraded {
				t.Error("degraded although the disk works again")
			}
			if n := log.count("is degraded: counts stand in memory and are not durable err="); n != 1 {
				t.Errorf("%d log lines say that the store is degraded, want 1", n)
			}
			if n := log.count("is healthy"); n != 1 {
				t.Errorf("%d log lines say that the store is healthy again, want 1", n)
			}
			mustClose(t, s)

			s = mustOpen(t, dir, Options{})
			for n, want := range map[int]uint32{1: 100, 2: 1, 3: 1, 4: 1} {
				wantUsed(t, s, n, want)
			}
		})
	}
}

// TestFailingDiskUnderAnyName breaks disks whose directory is named in another way than the engine, which cleans names, names it.
func TestFailingDiskUnderAnyName(t *testing.T) {
	for _, dir := range []string{".", "./data", "data/", "data//in", "../x/./data"} {
		t.Run(dir, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "x")
			if err := os.Mkdir(home, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Chdir(home)
			disk := newFaulty()
			s := mustOpen(t, dir, Options{files: disk, CommitTimeout: slow})
			take(t, s, request(1))
			disk.set(failing("write sync"))
			if d := take(t, s, request(1)); !d.Degraded {
				t.Fatal("not degraded as the disk fails")
			}
			disk.set(nil)
			wantHealthy(t, s)
			mustClose(t, s)
			s = mustOpen(t, dir, Options{})
			wantUsed(t, s, 1, 2)
		})
	}
}

// TestHangingDisk lets one sync hang. It holds nobody for longer than the commit timeout, and the store goes on without
// it while it hangs still.
func TestHangingDisk(t *testing.T) {
	before := runtime.NumGoroutine()
	dir, disk := t.TempDir(), newFaulty()
	s := mustOpen(t, dir, Options{files: disk, CommitTimeout: soon})
	take(t, s, request(1))
	wantHealthy(t, s)

	release := make(chan struct{})
	var hung atomic.Int32
	disk.set(func(op, name string) error {
		if op == "sync" && strings.HasSuffix(name, ".log") && hung.CompareAndSwap(0, 1) {
			<-release
			return errInjected
		}
		return nil
	})
	if d := take(t, s, request(1)); !d.Admitted || !d.Degraded {
		t.Fatalf("admitted=%v degraded=%v, want both", d.Admitted, d.Degraded)
	}
	wantHealthy(t, s)
	eventually(t, "takes are durable while the sync still hangs", func() bool { return !take(t, s, request(2)).Degraded })
	close(release)
	counted := used(t, s, 2)
	mustClose(t, s)
	eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })

	s = mustOpen(t, dir, Options{})
	wantUsed(t, s, 1, 2)
	wantUsed(t, s, 2, counted)
}

// TestDeadDisk lets every operation hang. Takes are answered, and Close returns.
func TestDeadDisk(t *testing.T) {
	disk := newFaulty()
	s := mustOpen(t, t.TempDir(), Options{files: disk, CommitTimeout: 50 * time.Millisecond})
	take(t, s, request(1))
	wantHealthy(t, s)
	release := make(chan struct{})
	defer close(release)
	disk.set(func(op, _ string) error {
		<-release
		return errInjected
	})
	for i := range 20 {
		if d := take(t, s, request(i)); !d.Admitted || !d.Degraded {
			t.Fatalf("take %d: admitted=%v degraded=%v, want both", i, d.Admitted, d.Degraded)
		}
	}
	began := time.Now()
	if err := s.Close(); !errors.Is(err, signpost.ErrNotDurable) {
		t.Errorf("close: %v, want ErrNotDurable", err)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("close took %v", took)
	}
	if again := s.Close(); !errors.Is(again, signpost.ErrNotDurable) {
		t.Errorf("close again: %v, want the same", again)
	}
}

// TestEveryFault fails an operation of a small history, once or from then on until the history is over: one after another, in
// steps that meet all kinds of them. What was answered as durable is there afterwards.
func TestEveryFault(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		for n := int64(1); ; n += 4 {
			if !t.Run(fmt.Sprintf("operation %d lasting=%v", n, lasting), func(t *testing.T) {
				if !faultAt(t, n, lasting) {
					n = -1
				}
			}) {
				return
			}
			if n < 0 {
				break
			}
		}
	}
}

// faultAt reports whether the history has so many operations.
func faultAt(t *testing.T, n int64, lasting bool) bool {
	dir, disk := t.TempDir(), newFaulty()
	var count atomic.Int64
	disk.set(func(op, name string) error {
		if c := count.Add(1); c == n || lasting && c > n {
			return errInjected
		}
		return nil
	})
	s, err := Open(dir, Options{files: disk, CommitTimeout: slow, Logger: slogOf(&logged{})})
	if err == nil {
		for i := range 12 {
			take(t, s, request(i%3))
			if i%5 == 4 {
				s.engine.Load().db.AsyncFlush()
				take(t, s, request(9))
			}
		}
		disk.set(nil)
		wantHealthy(t, s)
		flushNow(t, s)
		for i := range 3 {
			wantUsed(t, s, i, 4)
		}
		mustClose(t, s)
	} else if !errors.Is(err, errInjected) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("open: %v, want the fault and the directory", err)
	}
	disk.set(nil)
	opened := err == nil
	s = mustOpen(t, dir, Options{})
	if opened {
		for i := range 3 {
			wantUsed(t, s, i, 4)
		}
	}
	take(t, s, request(0))
	mustClose(t, s)
	return count.Load() >= n
}

// TestColdReadFails takes from a key that cannot be read. It counts from zero, says so, and what is stored
// is added as soon as it can be read.
func TestColdReadFails(t *testing.T) {
	for _, how := range []string{"error", "hang"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir, disk := t.TempDir(), newFaulty()
			s := mustOpen(t, dir, Options{})
			for range 60 {
				take(t, s, request(1))
			}
			many(t, s)
			mustClose(t, s)

			s = mustOpen(t, dir, Options{files: disk, CommitTimeout: soon})
			wantUsed(t, s, 2, 1) // so this one is in memory
			release := make(chan struct{})
			disk.set(func(op, name string) error {
				if op == "read" && how == "hang" {
					<-release
				}
				if op == "read" && how == "error" {
					return errInjected
				}
				return nil
			})
			for i := range 10 {
				d, _, err := s.Take(t.Context(), request(1))
				if err != nil || !d.Admitted || !d.Degraded || d.Windows()[0].Used != uint32(i+1) {
					t.Fatalf("take %d: used %d admitted=%v degraded=%v error=%v", i, d.Windows()[0].Used, d.Admitted, d.Degraded, err)
				}
			}
			if d := take(t, s, request(2)); d.Degraded {
				t.Error("a key in memory is degraded because another cannot be read")
			}
			// What a crash would leave now has not lost what was stored.
			wantUsed(t, mustOpen(t, copyDir(t, dir), Options{}), 1, 60)
			if _, err := s.Inspect(t.Context(), keyOf(1), t0); err == nil {
				t.Error("inspecting a key that cannot be read is no error")
			}
			disk.set(nil)
			close(release)
			eventually(t, "the key is read", func() bool {
				d, _, err := s.Peek(t.Context(), request(1))
				return err == nil && !d.Degraded
			})
			wantUsed(t, s, 1, 70)
			mustClose(t, s)
			s = mustOpen(t, dir, Options{})
			wantUsed(t, s, 1, 70)
			wantUsed(t, s, 2, 2)
		})
	}
}

// TestColdReadIsShared wants one read for all who wait for a key.
func TestColdReadIsShared(t *testing.T) {
	dir, disk := t.TempDir(), newFaulty()
	s := mustOpen(t, dir, Options{})
	take(t, s, request(1))
	many(t, s)
	mustClose(t, s)

	s = mustOpen(t, dir, Options{files: disk})
	var reads atomic.Int32
	release := make(chan struct{})
	disk.set(func(op, _ string) error {
		if op == "read" {
			reads.Add(1)
			<-release
		}
		return nil
	})
	const callers = 50
	done := make(chan signpost.Decision, callers)
	for range callers {
		go func() {
			d, _, _ := s.Take(context.Background(), request(1))
			done <- d
		}()
	}
	eventually(t, "the key is being read", func() bool { return reads.Load() > 0 })
	close(release)
	for range callers {
		if d := <-done; d.Degraded || !d.Admitted {
			t.Errorf("admitted=%v degraded=%v", d.Admitted, d.Degraded)
		}
	}
	// The engine reads a key in a few pieces: a filter, an index, a block.
	if n := reads.Load(); n > 5 {
		t.Errorf("%d reads of the disk for %d callers of one key", n, callers)
	}
	wantUsed(t, s, 1, 1+callers)
}

// TestNewKeysAtOnce takes from keys that nobody has seen, many at a time. What is read of them is nothing, and may be dropped
// before who waits for it is woken. None of them is degraded for that.
func TestNewKeysAtOnce(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	var degraded atomic.Int32
	var callers sync.WaitGroup
	for c := range 64 {
		callers.Go(func() {
			for i := range 300 {
				q := request(c*1000 + i)
				if d, _, err := s.Peek(context.Background(), q); err != nil || d.Degraded {
					degraded.Add(1)
				}
				if d, _, err := s.Take(context.Background(), q); err != nil || d.Degraded {
					degraded.Add(1)
				}
			}
		})
	}
	callers.Wait()
	if n := degraded.Load(); n > 0 {
		t.Errorf("%d of %d answers are degraded", n, 64*300*2)
	}
}
