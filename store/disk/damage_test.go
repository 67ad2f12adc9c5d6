// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
)

// filesOf returns the names of the files that match a pattern, oldest first.
func filesOf(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// copyDir copies a store as it lies on the disk, as a crash would leave it. The engine may be removing files that it does not need any more.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	var to string
	eventually(t, "every file is copied", func() bool {
		to = t.TempDir()
		err := os.CopyFS(to, os.DirFS(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	})
	return to
}

func edit(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTornTail ends the log anywhere within the last record, and with noise behind. What was durable before
// is there each time, and the store goes on from there.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	for range 4 {
		take(t, s, request(1))
	}
	logs := filesOf(t, dir, "*.log")
	log := filepath.Base(logs[len(logs)-1])
	four := fileSize(t, filepath.Join(dir, log))
	take(t, s, request(1))
	crashed := copyDir(t, dir)
	five := fileSize(t, filepath.Join(crashed, log))
	if five <= four {
		t.Fatalf("the log has %d bytes after four takes and %d after five", four, five)
	}
	for cut := four; cut < five; cut += 5 {
		torn := copyDir(t, crashed)
		edit(t, filepath.Join(torn, log), func(b []byte) []byte {
			b = b[:cut]
			if cut%2 == 0 {
				b = append(b, strings.Repeat("noise", 100)...)
			}
			return b
		})
		s := mustOpen(t, torn, Options{})
		wantUsed(t, s, 1, 4)
		take(t, s, request(1))
		again := copyDir(t, torn) // a crash right after
		mustClose(t, s)
		s = mustOpen(t, again, Options{})
		wantUsed(t, s, 1, 5)
		mustClose(t, s)
	}
}

func fileSize(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestDamagedFiles opens stores with one fault each.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	for i := range 500 {
		take(t, s, request(i))
	}
	flushNow(t, s)
	for i := range 5000 {
		if _, _, err := s.Take(t.Context(), request(1000+i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		take(t, s, request(i))
	}
	crashed := copyDir(t, dir)
	mustClose(t, s)

	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			if at < 0 {
				at += len(b)
			}
			b[at] ^= 1
			return b
		}
	}
	for name, test := range map[string]struct {
		dir    string
		file   string
		change func([]byte) []byte // nil: the file goes
		named  string
	}{
		"log":            {crashed, "*.log", flip(50), ".log"},
		"list of tables": {dir, "MANIFEST-*", flip(40), "MANIFEST"},
		"table missing":  {dir, "*.sst", nil, "0000"},
		"table cut":      {dir, "*.sst", func(b []byte) []byte { return b[:len(b)/2] }, ".sst"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := copyDir(t, test.dir)
			files := filesOf(t, bad, test.file)
			file := files[len(files)-1]
			if test.change == nil {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			} else {
				edit(t, file, test.change)
			}
			s, err := Open(bad, Options{})
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), test.named) {
				t.Fatalf("open: %v\nwant ErrCorrupt, the directory and %q", err, test.named)
			}
		})
	}

	// A block of a table is read when it is needed, and named then.
	t.Run("table block", func(t *testing.T) {
		bad, log := copyDir(t, dir), &logged{}
		tables := filesOf(t, bad, "*.sst")
		file := tables[0]
		edit(t, file, flip(100))
		s := mustOpen(t, bad, Options{Logger: slogOf(log)})
		damaged, whole := 0, 0
		for i := 30; i < 500; i++ {
			if d := take(t, s, request(i)); d.Degraded {
				damaged++
			} else {
				whole++
			}
		}
		if damaged == 0 {
			t.Errorf("%d keys could not be read, %d could", damaged, whole)
		}
		if log.count(file) != 1 {
			t.Errorf("log lines %q: want one that names %s", log.lines, file)
		}
	})
}

// TestNewer opens stores that a later version wrote: of our records, and of the engine.
func TestNewer(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	ours, engines := t.TempDir(), ""
	mustClose(t, s)
	engines = copyDir(t, dir)

	e := mustOpenEngine(t, ours, vfs.Default)
	w := e.write()
	w.put(versionKey, binary.AppendUvarint(nil, version+1))
	if err := errors.Join(w.commit(), e.close()); err != nil {
		t.Fatal(err)
	}
	marker := filesOf(t, engines, "marker.format-version.*")[0]
	if err := os.Rename(marker, marker[:len(marker)-3]+"999"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{ours, engines} {
		s, err := Open(dir, Options{})
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), dir) {
			t.Errorf("open: %v, want ErrNewer and the directory", err)
		}
	}
}

// TestSecondStore opens a store twice, by the same path and by another.
func TestSecondStore(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir, Options{})
	for _, path := range []string{dir, link} {
		_, err := Open(path, Options{})
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
			t.Fatalf("open a second time: %v, want ErrLocked and the path", err)
		}
	}
	take(t, s, request(1))
	mustClose(t, s)
	s = mustOpen(t, dir, Options{})
	wantUsed(t, s, 1, 1)
}

// TestReadOnly opens a store on a file system that takes no writes.
func TestReadOnly(t *testing.T) {
	disk := newFaulty()
	disk.set(func(op, _ string) error {
		if op == "read" || op == "open" {
			return nil
		}
		return os.ErrPermission
	})
	dir := t.TempDir()
	_, err := Open(dir, Options{files: disk})
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("open: %v, want ErrPermission and the directory", err)
	}
	s := mustOpen(t, dir, Options{}) // nothing is left of the first
	take(t, s, request(1))
}

// TestNotADirectory is about a path that cannot be one.
func TestNotADirectory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(name, Options{}); err == nil || !strings.Contains(err.Error(), name) {
		t.Fatalf("open: %v, want an error that names the path", err)
	}
}

func FuzzWindows(f *testing.F) {
	f.Add(appendWindows(nil, []state.Window{{Start: t0, Seconds: 60, Used: 3}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		windows, err := parseWindows(nil, b)
		if err != nil {
			return
		}
		for _, w := range windows {
			if w.Seconds == 0 || w.Start > signpost.MaxInstant {
				t.Fatalf("window out of range: %v", w)
			}
		}
		again, err := parseWindows(nil, appendWindows(nil, windows))
		if err != nil || !slices.Equal(again, windows) {
			t.Fatalf("%v came back as %v, error %v", windows, again, err)
		}
	})
}
