// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
)

// patience is how long anything that must happen in a bounded time may take. It is far above what it does take.
const patience = 20 * time.Second

// slow is a commit timeout that a healthy disk never meets, however busy the machine.
const slow = time.Minute

// soon is the commit timeout of tests in which it runs out. It is so long that what has to be in time is so on a machine that stood still for a second.
const soon = 2 * time.Second

// t0 is 2026-01-15T10:00:00Z, where a minute and an hour begin.
const t0 signpost.Instant = 1768471200000

var errInjected = errors.New("injected fault")

// faulty is the machine's file system with a fault before each operation, if there is one: it may return an
// error, or hang.
type faulty struct {
	vfs.FS
	mu    sync.Mutex
	fault func(op, name string) error
}

func newFaulty() *faulty { return &faulty{FS: vfs.Default} }

func (f *faulty) set(fault func(op, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *faulty) before(op, name string) error {
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	if fault == nil {
		return nil
	}
	if err := fault(op, filepath.Base(name)); err != nil {
		return fmt.Errorf("%s %s: %w", op, name, err)
	}
	return nil
}

func (f *faulty) file(op, name string, open func() (vfs.File, error)) (vfs.File, error) {
	if err := f.before(op, name); err != nil {
		return nil, err
	}
	file, err := open()
	if err != nil {
		return nil, err
	}
	return &faultyFile{file, f, name}, nil
}

func (f *faulty) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file("create", name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

func (f *faulty) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file("create", to, func() (vfs.File, error) { return f.FS.ReuseForWrite(from, to, c) })
}

func (f *faulty) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return f.file("open", name, func() (vfs.File, error) { return f.FS.Open(name, o...) })
}

func (f *faulty) OpenDir(name string) (vfs.File, error) {
	return f.file("open", name, func() (vfs.File, error) { return f.FS.OpenDir(name) })
}

func (f *faulty) Rename(from, to string) error {
	if err := f.before("rename", to); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *faulty) Remove(name string) error {
	if err := f.before("remove", name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

type faultyFile struct {
	vfs.File
	fs   *faulty
	name string
}

func (f *faultyFile) Write(b []byte) (int, error) {
	if err := f.fs.before("write", f.name); err != nil {
		n, _ := f.File.Write(b[:len(b)/2]) // as a disk does that runs full
		return n, err
	}
	return f.File.Write(b)
}

func (f *faultyFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.fs.before("read", f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, at)
}

func (f *faultyFile) Sync() error {
	if err := f.fs.before("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) SyncData() error {
	if err := f.fs.before("sync", f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}

// failing is a fault of these operations.
func failing(ops string) func(op, name string) error {
	return func(op, _ string) error {
		if strings.Contains(ops, op) {
			return errInjected
		}
		return nil
	}
}

// logged collects what a store logs.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }
func (l *logged) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

func (l *logged) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// mustOpen opens a store that the test closes, if it has not done so itself.
func mustOpen(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CommitTimeout == 0 {
		o.CommitTimeout = slow
	}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func keyOf(n int) signpost.Key { return signpost.KeyOf("test", fmt.Sprint(n)) }

var bound = signpost.MustParseBound("100/min 1000/hour 5 concurrent")

func request(n int) signpost.Request {
	return signpost.Request{Key: keyOf(n), Bound: bound, At: t0}
}

// take takes and waits until that is durable or given up, through a Limiter as everybody does.
func take(t testing.TB, s *Store, q signpost.Request) signpost.Decision {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := signpost.New(s, signpost.Options{}).Take(ctx, q)
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	return d
}

// used returns what is used of the first window of a key.
func used(t testing.TB, s *Store, n int) uint32 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := signpost.New(s, signpost.Options{}).Peek(ctx, request(n))
	if err != nil {
		t.Fatalf("peek: %v", err)
	}
	return d.Windows()[0].Used
}

func wantUsed(t testing.TB, s *Store, n int, want uint32) {
	t.Helper()
	if got := used(t, s, n); got != want {
		t.Fatalf("key %d: %d are used, want %d", n, got, want)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func wantHealthy(t testing.TB, s *Store) {
	t.Helper()
	defer func() {
		if st := s.Stats(); st.Degraded {
			t.Logf("still degraded: %s; %d failures", st.Cause, st.Failures)
		}
	}()
	eventually(t, "the store is healthy", func() bool { return !s.Stats().Degraded })
}

// flushNow writes what the engine has into tables, so that it has to be read from there. An instance that has failed in the
// background cannot, and would try for ever: the next take finds that out, and another instance takes its place.
func flushNow(t testing.TB, s *Store) {
	t.Helper()
	for {
		e := s.engine.Load()
		flushed := make(chan error, 1)
		go func() { flushed <- e.db.Flush() }()
		select {
		case err := <-flushed:
			if err == nil && e.fence.failure() == nil {
				return
			}
			if e.fence.failure() == nil {
				t.Fatal(err)
			}
		case <-e.fence.down:
		}
		if _, _, err := s.Take(t.Context(), request(9)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another instance is healthy", func() bool { return s.engine.Load() != e && !s.Stats().Degraded })
	}
}

// many takes from so many keys that reading one of them is not reading all of them, and writes a table.
func many(t testing.TB, s *Store) {
	t.Helper()
	for i := range 2000 {
		if _, _, err := s.Take(t.Context(), request(1_000_000+i)); err != nil {
			t.Fatal(err)
		}
	}
	take(t, s, request(2))
	flushNow(t, s)
}

func slogOf(l *logged) *slog.Logger { return slog.New(l) }

func isUnavailable(err error) bool {
	return errors.Is(err, link.ErrUnavailable) && !errors.Is(err, link.ErrUnknown)
}
