// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signposthq/signpost"
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

// fill writes a file until the file system is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// TestFullDisk fills a small file system while takes go on, and frees it again.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=8m")
	store, ballast := filepath.Join(dir, "store"), filepath.Join(dir, "ballast")
	s := mustOpen(t, store, Options{logSize: 512 << 10})
	q := request(1)
	q.Bound = signpost.MustParseBound("100000000/min 1000000000/hour")
	var admitted uint32
	takeOne := func() signpost.Decision {
		t.Helper()
		d := take(t, s, q) // within patience
		if !d.Admitted {
			t.Fatal("refused")
		}
		if admitted++; d.Windows()[0].Used != admitted {
			t.Fatalf("%d used after %d admissions", d.Windows()[0].Used, admitted)
		}
		return d
	}
	for range 2 { // it happens again
		for range 100 {
			if d := takeOne(); d.Degraded {
				t.Fatal("degraded although there is room")
			}
		}
		for end := time.Now().Add(patience); ; {
			fill(t, ballast) // again and again: the store gives up what it had in reserve, and uses it
			degraded := false
			for range 1000 {
				degraded = takeOne().Degraded
			}
			if degraded {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the disk is full and nothing is degraded")
			}
		}
		for range 1000 {
			takeOne()
		}
		if cause := s.Stats().Cause; !strings.Contains(cause, syscall.ENOSPC.Error()) {
			t.Errorf("cause: %q", cause)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		wantHealthy(t, s)
	}
	durable := takeOne()
	if durable.Degraded {
		t.Error("degraded although there is room again")
	}
	mustClose(t, s)
	s = mustOpen(t, store, Options{})
	if got := used(t, s, 1); got != admitted {
		t.Errorf("%d are used, want the %d that were admitted", got, admitted)
	}
}

// TestFullFromTheBeginning opens a store where there is no room for a log.
func TestFullFromTheBeginning(t *testing.T) {
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=4m")
	store, ballast := filepath.Join(dir, "store"), filepath.Join(dir, "ballast")
	s := mustOpen(t, store, Options{})
	for range 3 {
		take(t, s, request(1))
	}
	mustClose(t, s)
	for _, name := range filesOf(t, store, spareSuffix) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range filesOf(t, store, logSuffix) { // as the next Open would, which makes room
		edit(t, name, func(b []byte) []byte {
			ends := frameEnds(t, b)
			return b[:ends[len(ends)-1]]
		})
	}
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

// TestSmallDisk lives on a file system that holds a few logs only: they are merged before there is no more room.
func TestSmallDisk(t *testing.T) {
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=1m")
	s := mustOpen(t, dir, Options{logSize: 128 << 10})
	const keys, rounds = 300, 60
	for range rounds {
		for i := range keys {
			q := request(i)
			if i < keys-1 { // one flush for all of them
				if _, _, err := s.Take(t.Context(), q); err != nil {
					t.Fatal(err)
				}
				continue
			}
			take(t, s, q)
		}
	}
	wantHealthy(t, s)
	mustClose(t, s)
	s = mustOpen(t, dir, Options{})
	for i := range keys {
		wantUsed(t, s, i, rounds)
	}
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
