// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/signposthq/signpost"
)

// listing is what a directory holds: names, sizes and times of change.
func listing(t *testing.T, dir string) map[string]fs.FileInfo {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]fs.FileInfo)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = info
	}
	return all
}

var testEngine = engineOptions{sync: true, log: slog.New(slog.DiscardHandler), failed: func(string, error) {}}

func mustOpenEngine(t *testing.T, dir string, disk vfs.FS) *engine {
	t.Helper()
	e, err := openEngine(dir, disk, testEngine)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// putMany writes records until the engine has made tables of some, compacted them, and changed logs.
func putMany(e *engine, from, to int) error {
	w := e.write()
	for i := from; i < to; i++ {
		n := countKind.of(id{byte(i), byte(i >> 8), byte(i >> 16)})
		if err := w.put(n, make([]byte, 200)); err != nil {
			return err
		}
	}
	return w.commit()
}

// TestZombie gives an instance up and lets it go on: it fills memtables, changes logs, makes, merges and removes tables, and
// is closed. Not one file of its successor changes for that, and nothing is left of it.
func TestZombie(t *testing.T) {
	dir := t.TempDir()
	zombie := mustOpenEngine(t, dir, vfs.Default)
	if err := putMany(zombie, 0, 1000); err != nil {
		t.Fatal(err)
	}
	zombie.fence.shut(errReplaced)
	zombie.fence.settle()
	e := mustOpenEngine(t, dir, vfs.Default)
	if err := putMany(e, 1000, 2000); err != nil {
		t.Fatal(err)
	}
	if err := e.close(); err != nil {
		t.Fatal(err)
	}

	before := listing(t, dir)
	zombie.fence.serving.Store(false)
	for i := range 2 {
		if err := putMany(zombie, 100_000*i, 100_000*i+2000); !errors.Is(err, errReplaced) {
			t.Fatalf("a write of an instance that was given up: %v, want errReplaced", err)
		}
		b := zombie.db.NewBatch()
		for n := range 25_000 {
			k := countKind.of(id{byte(i), byte(n), byte(n >> 8)})
			b.Set(k[:], make([]byte, 200), nil)
		}
		if err := zombie.db.Apply(b, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if err := zombie.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := zombie.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	if err := zombie.close(); !errors.Is(err, errReplaced) || strings.Contains(err.Error(), "leak") {
		t.Errorf("close: %v, want errReplaced alone", err)
	}
	after := listing(t, dir)
	for name, info := range after {
		was := before[name]
		if was == nil || was.Size() != info.Size() || !was.ModTime().Equal(info.ModTime()) || !os.SameFile(was, info) {
			t.Errorf("%s was made or changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files are left of %d", len(after), len(before))
	}

	e = mustOpenEngine(t, dir, vfs.Default)
	for i := range 2000 {
		if v, err := e.get(countKind.of(id{byte(i), byte(i >> 8)})); err != nil || len(v) != 200 {
			t.Fatalf("record %d: %d bytes, error %v", i, len(v), err)
		}
	}
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
}

// TestLateWrite lets a write to the log hang in an instance until a successor has been opened. It reaches the disk then, and
// changes nothing: neither what the successor has nor what is read later.
func TestLateWrite(t *testing.T) {
	dir, disk := t.TempDir(), newFaulty()
	zombie := mustOpenEngine(t, dir, disk)
	if err := putMany(zombie, 0, 10); err != nil {
		t.Fatal(err)
	}
	release, hangs := make(chan struct{}), make(chan struct{})
	var once sync.Once
	disk.set(func(op, name string) error {
		if op == "write" && strings.HasSuffix(name, ".log") {
			hung := false
			once.Do(func() { hung = true })
			if hung {
				close(hangs)
				<-release
			}
		}
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- putMany(zombie, 10, 20) }()
	<-hangs
	zombie.fence.shut(errReplaced)
	zombie.fence.settle()
	e := mustOpenEngine(t, dir, disk)
	if err := putMany(e, 20, 30); err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := <-ended; !errors.Is(err, errReplaced) {
		t.Fatalf("the late write: %v, want errReplaced", err)
	}
	zombie.close()
	for range 2 {
		for i := range 30 {
			v, err := e.get(countKind.of(id{byte(i)}))
			if want := i < 10 || i >= 20; err != nil || (v != nil) != want {
				t.Fatalf("record %d: there=%v, want %v; error %v", i, v != nil, want, err)
			}
		}
		if err := e.close(); err != nil {
			t.Fatal(err)
		}
		e = mustOpenEngine(t, dir, vfs.Default)
	}
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
}

// TestFailedOpen leaves nothing behind of an instance that could not be opened.
func TestFailedOpen(t *testing.T) {
	dir, disk := t.TempDir(), newFaulty()
	e := mustOpenEngine(t, dir, disk)
	if err := putMany(e, 0, 1000); err != nil {
		t.Fatal(err)
	}
	crashed := copyDir(t, dir)
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
	dir = crashed
	before := listing(t, dir)
	disk.set(func(op, name string) error {
		if op == "write" && strings.HasSuffix(name, ".sst") {
			return errInjected
		}
		return nil
	})
	for range 3 {
		if _, err := openEngine(dir, disk, testEngine); !errors.Is(err, errInjected) {
			t.Fatalf("open: %v, want the injected fault", err)
		}
	}
	for name := range listing(t, dir) {
		if before[name] == nil {
			t.Errorf("%s is left behind", name)
		}
	}
	disk.set(nil)
	e = mustOpenEngine(t, dir, disk)
	if v, err := e.get(countKind.of(id{231, 3})); err != nil || v == nil {
		t.Errorf("a record is gone: %v", err)
	}
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
}

// TestFatal lets the engine find that it cannot go on. Whoever told it waits for ever, as it must; the process
// goes on, and the store with another instance.
func TestFatal(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	take(t, s, request(1))
	e := s.engine.Load() // another may be in its place in no time
	go engineLog{e}.Fatalf("nothing %s", "works")
	<-e.fence.down
	if d := take(t, s, request(1)); !d.Admitted {
		t.Error("refused because the engine failed")
	}
	wantHealthy(t, s)
	if c := s.Stats().Cause; !strings.Contains(c, "nothing works") {
		t.Errorf("cause %q", c)
	}
	mustClose(t, s)
	s = mustOpen(t, dir, Options{})
	wantUsed(t, s, 1, 2)
}

// TestSweep removes from the disk what has ended, and nothing else.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{MaxKeys: 200})
	const keys = 2500 // more than are looked at once
	// In a few flushes, well before the store sweeps by itself.
	takeEach := func(from, to int, at signpost.Instant) {
		var group sync.WaitGroup
		for caller := range 32 {
			group.Go(func() {
				for i := from + caller; i < to; i += 32 {
					q := request(i)
					q.At = at
					take(t, s, q)
				}
			})
		}
		group.Wait()
	}
	takeEach(0, keys, t0)
	takeEach(keys, keys+64*8, t0.Add(2*time.Hour)) // in every shard
	onDisk := func() (n int) {
		s.engine.Load().scan(countKind, id{}, func(id, []byte) (bool, error) {
			n++
			return true, nil
		})
		return n
	}
	if n := onDisk(); n != keys+64*8 {
		t.Fatalf("%d keys on the disk, want %d", n, keys+64*8)
	}
	eventually(t, "what has ended is gone", func() bool {
		s.sweep()
		for i := range s.shards { // the sweep leaves to memory what is there
			sh := &s.shards[i]
			sh.mu.Lock()
			for _, e := range sh.keys {
				if s.readable(e) && e.Ended(sh.horizon(s)) {
					s.drop(sh, e)
				}
			}
			sh.mu.Unlock()
		}
		return onDisk() == 64*8
	})
	for i := range 64 * 8 {
		wantUsed(t, s, keys+i, 1)
	}
	mustClose(t, s)
	if names, _ := filepath.Glob(filepath.Join(dir, "*.log")); len(names) == 0 {
		t.Error("no log is left")
	}
}
