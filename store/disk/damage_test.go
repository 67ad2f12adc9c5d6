// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/signposthq/signpost"
)

// filesOf returns the names of the files with a suffix, oldest first.
func filesOf(t *testing.T, dir, suffix string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// copyDir copies a store as it lies on the disk, as a crash would leave it.
func copyDir(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
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

// frameEnds returns where each frame of a log ends.
func frameEnds(t *testing.T, log []byte) (ends []int) {
	t.Helper()
	last := uint64(0)
	for at := headerLen; ; {
		fr, ok := parseFrame(log[at:], last)
		if !ok {
			return ends
		}
		last, at = fr.number, at+fr.size
		ends = append(ends, at)
	}
}

// TestTornTail ends the log at every byte of its last frame, with zeros, with noise and with an old frame behind. What was
// durable before that frame is there each time.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{logSize: 16 << 10})
	for range 5 {
		take(t, s, request(1))
	}
	crashed := copyDir(t, dir)
	log := filesOf(t, crashed, logSuffix)[0]
	whole, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	ends := frameEnds(t, whole)
	if len(ends) != 5 {
		t.Fatalf("%d frames, want 5", len(ends))
	}
	fr, _ := parseFrame(whole[ends[3]:], 4)
	end := ends[3] + frameHeader + len(fr.records) // what follows only fills it up
	for name, tail := range map[string]func(n int) []byte{
		"zeros":      func(n int) []byte { return make([]byte, n) },
		"noise":      func(n int) []byte { return bytes.Repeat([]byte{0xa7, 3, 0x11, 0x5e}, n/4+1)[:n] },
		"old frames": func(n int) []byte { return append(slices.Clone(whole[headerLen:ends[2]]), make([]byte, n)...)[:n] },
	} {
		for cut := ends[3]; cut < end; cut++ {
			torn := append(slices.Clone(whole[:cut]), tail(len(whole)-cut)...)
			if bytes.Equal(torn[:end], whole[:end]) {
				continue // the records end with what follows
			}
			f := &bytesFile{torn}
			var state []byte
			last, _, err := replay(f, log, 0, func(_ key, v []byte) error {
				state = slices.Clone(v)
				return nil
			})
			if err != nil {
				t.Fatalf("%s from byte %d on: %v", name, cut, err)
			}
			windows, err := parseWindows(nil, state)
			if err != nil || last != 4 || windows[0].Used != 4 {
				t.Fatalf("%s from byte %d on: frame %d, windows %v, error %v; want 4 used", name, cut, last, windows, err)
			}
		}
	}
	// The same once through Open, and it goes on from there.
	if err := os.Truncate(log, int64(end-3)); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, crashed, Options{})
	take(t, s, request(1))
	wantUsed(t, s, 1, 5)
	mustClose(t, s)
	s = mustOpen(t, crashed, Options{})
	wantUsed(t, s, 1, 5)
}

// bytesFile is a file that is only read.
type bytesFile struct{ b []byte }

func (f *bytesFile) ReadAt(b []byte, at int64) (int, error) {
	return bytes.NewReader(f.b).ReadAt(b, at)
}
func (f *bytesFile) WriteAt(b []byte, at int64) (int, error) { return 0, errors.ErrUnsupported }
func (f *bytesFile) Close() error                            { return nil }
func (f *bytesFile) sync() error                             { return nil }
func (f *bytesFile) size() (int64, error)                    { return int64(len(f.b)), nil }

// TestEveryFlippedBitOfALog flips each byte of a log that was closed in good order. Either it is found and the file named, or
// it changes nothing.
func TestEveryFlippedBitOfALog(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{logSize: 4 << 10})
	for range 4 {
		take(t, s, request(1))
	}
	mustClose(t, s)
	name := filesOf(t, dir, logSuffix)[0]
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	ends := frameEnds(t, whole)
	if len(ends) != 5 {
		t.Fatalf("%d frames, want 4 and the seal", len(ends))
	}
	found := 0
	for i := range ends[3] {
		flipped := slices.Clone(whole)
		flipped[i] ^= 0x10
		var state []byte
		_, _, err := replay(&bytesFile{flipped}, name, 0, func(_ key, v []byte) error {
			state = slices.Clone(v)
			return nil
		})
		if err != nil {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
				t.Fatalf("byte %d: %v, want ErrCorrupt and the name of the file", i, err)
			}
			found++
			continue
		}
		if windows, err := parseWindows(nil, state); err != nil || windows[0].Used != 4 {
			t.Fatalf("byte %d flipped: %v are used, error %v; want 4, or ErrCorrupt", i, windows, err)
		}
	}
	if found < ends[3]*9/10 {
		t.Errorf("%d of %d flipped bytes were found", found, ends[3])
	}
}

// TestDamagedFiles opens stores with one fault each.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	for i := range 500 {
		take(t, s, request(i))
	}
	mergeNow(t, s)
	for i := range 3 {
		take(t, s, request(i))
	}
	mustClose(t, s)
	mustClose(t, mustOpen(t, dir, Options{})) // so that there is a log behind the last one

	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			if at < 0 {
				at += len(b)
			}
			b[at] ^= 1
			return b
		}
	}
	newer := func(b []byte) []byte {
		binary.LittleEndian.PutUint32(b[8:], version+1)
		binary.LittleEndian.PutUint32(b[32:], checksum(b[:32]))
		return b
	}
	for name, test := range map[string]struct {
		suffix string
		change func([]byte) []byte // nil: the file goes
		want   error
	}{
		"log header":          {logSuffix, flip(9), ErrCorrupt},
		"log cut short":       {logSuffix, func(b []byte) []byte { return b[:20] }, ErrCorrupt},
		"log emptied":         {logSuffix, func(b []byte) []byte { return append(b[:headerLen], make([]byte, len(b)-headerLen)...) }, ErrCorrupt},
		"log missing":         {logSuffix, nil, ErrCorrupt},
		"log newer":           {logSuffix, newer, ErrNewer},
		"log is another file": {logSuffix, func(b []byte) []byte { return []byte(strings.Repeat("hello ", 100)) }, ErrCorrupt},
		"table header":        {tableSuffix, flip(20), ErrCorrupt},
		"table footer":        {tableSuffix, flip(-30), ErrCorrupt},
		"table index":         {tableSuffix, flip(-footerLen - 5), ErrCorrupt},
		"table cut short":     {tableSuffix, func(b []byte) []byte { return b[:len(b)-1] }, ErrCorrupt},
		"table newer":         {tableSuffix, newer, ErrNewer},
	} {
		t.Run(name, func(t *testing.T) {
			bad := copyDir(t, dir)
			file := filesOf(t, bad, test.suffix)[0]
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
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), bad) {
				t.Fatalf("open: %v\nwant %q and the name of %s", err, test.want, file)
			}
		})
	}

	// A block of the table is read when it is needed, and named then.
	t.Run("table block", func(t *testing.T) {
		bad, log := copyDir(t, dir), &logged{}
		file := filesOf(t, bad, tableSuffix)[0]
		edit(t, file, flip(headerLen+100))
		s := mustOpen(t, bad, Options{Logger: slogOf(log)})
		damaged, whole := 0, 0
		for i := range 500 {
			if d := take(t, s, request(i)); d.Degraded {
				damaged++
			} else {
				whole++
			}
		}
		if damaged == 0 || whole == 0 {
			t.Errorf("%d keys could not be read, %d could; want some of both", damaged, whole)
		}
		if log.count(file) != 1 {
			t.Errorf("%d log lines name the file, want 1", log.count(file))
		}
	})
}

func TestSecondStore(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	_, err := Open(dir, Options{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("open a second time: %v, want ErrLocked and the directory", err)
	}
	take(t, s, request(1))
	mustClose(t, s)
	s = mustOpen(t, dir, Options{})
	wantUsed(t, s, 1, 1)
}

// TestReadOnly opens a store on a file system that takes no writes.
func TestReadOnly(t *testing.T) {
	disk := &faulty{}
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

func FuzzRecords(f *testing.F) {
	f.Add(appendRecord(nil, countKind.of(id{1}), []byte("value")))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		for rest := b; len(rest) > 0; {
			n, value, r, ok := cutRecord(rest)
			if !ok {
				return
			}
			again = appendRecord(again, n, value)
			if windows, err := parseWindows(nil, value); err == nil {
				for _, w := range windows {
					if w.Seconds == 0 || w.Start > signpost.MaxInstant {
						t.Fatalf("window out of range: %v", w)
					}
				}
			}
			if len(r) >= len(rest) {
				t.Fatal("no progress")
			}
			rest = r
		}
	})
}

func FuzzReplay(f *testing.F) {
	b := header{kind: logFile, number: 1}.append(nil)
	f.Add(b)
	f.Add(append(b, make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		// It ends, without a panic, whatever is read.
		replay(&bytesFile{b}, "fuzz.log", 0, func(key, []byte) error { return nil })
	})
}
