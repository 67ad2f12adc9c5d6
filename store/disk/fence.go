// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fence stands between one instance of the engine and the file system. It shuts at the first write that fails, or when the
// store gives the instance up, and for good. Behind a shut fence what the instance writes goes to memory and is lost,
// but every call succeeds. So
//
//   - the engine never sees an error of a write, which it answers by exiting, by a panic, or by retrying without end;
//   - an instance that was left behind cannot change a file of its successor;
//   - and it can still be closed in good order, so that it gives back what it holds.
//
// Whoever writes asks failure afterwards: what was written before the fence shut is on the disk. Reads go through.
//
// Tables are the exception, as long as the instance is read: a table that was written in part must not take the place of
// what it was made from. Their writes fail, which the engine takes well.
type fence struct {
	vfs.FS        // the disk
	void   vfs.FS // in memory
	lazy   bool   // leave it to the operating system when a log reaches the disk

	serving atomic.Bool // the instance is open, and read

	down chan struct{} // closed when the fence shuts
	once sync.Once
	err  error // why it shut; set before

	names sync.RWMutex // held for reading while a name is changed on the disk

	mu   sync.Mutex
	made []string // files that are new and that none on the disk refers to yet
	kept bool     // files may be referred to from now on
}

func newFence(disk vfs.FS, dir string, lazy bool) (*fence, error) {
	f := &fence{FS: disk, void: vfs.NewMem(), lazy: lazy, down: make(chan struct{})}
	return f, f.void.MkdirAll(filepath.Clean(dir), 0o700) // as the engine's names begin; for the memory ./a is no a
}

// shut lets nothing through any more.
func (f *fence) shut(why error) {
	f.once.Do(func() {
		f.err = why
		close(f.down)
	})
}

// failure returns why the fence is shut, or nil.
func (f *fence) failure() error {
	select {
	case <-f.down:
		return f.err
	default:
		return nil
	}
}

// settle waits, once the fence is shut, until no change of a name is under way any more. A write to a file may still be,
// for as long as the disk hangs. That is harmless: a successor never writes to a file of its predecessor, and reads
// it as after a crash.
func (f *fence) settle() {
	f.names.Lock()
	f.names.Unlock() //lint:ignore SA2001 nothing is guarded: it waits
}

// settled reports that settle would not wait.
func (f *fence) settled() bool {
	if !f.names.TryLock() {
		return false
	}
	f.names.Unlock()
	return true
}

// undo removes the files of an instance that could not be opened, so that attempts on a full disk do not fill it further.
func (f *fence) undo() {
	f.settle()
	for _, name := range f.made {
		f.FS.Remove(name)
	}
}

// name runs a change of a name, on the disk or, behind a shut fence, in memory. There it fails for what is on the disk.
func (f *fence) name(change func(vfs.FS) error) {
	f.names.RLock()
	defer f.names.RUnlock()
	if f.failure() == nil {
		err := change(f.FS)
		if err == nil {
			return
		}
		f.shut(err)
	}
	change(f.void)
}

// file makes a file for writing.
func (f *fence) file(name string, create func(vfs.FS) (vfs.File, error)) (vfs.File, error) {
	var made vfs.File
	f.name(func(on vfs.FS) (err error) {
		if on == f.void {
			if err := f.refused(name); err != nil {
				return err
			}
			made, err = f.void.Create(name, vfs.WriteCategoryUnspecified)
			return err
		}
		file, err := create(on)
		if err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		f.remember(name)
		made = &fencedFile{File: file, fence: f, name: name, lazy: f.lazy && strings.HasSuffix(name, ".log")}
		return nil
	})
	if made == nil {
		return nil, f.failure()
	}
	return made, nil
}

// refused returns why a file may not be written, behind the shut fence.
func (f *fence) refused(name string) error {
	if f.serving.Load() && isTable(name) {
		return f.err
	}
	return nil
}

func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }

// remember notes a file, until there may be another that refers to it.
func (f *fence) remember(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.kept {
		f.made = append(f.made, name)
	}
	if strings.HasPrefix(f.PathBase(name), "marker.") {
		f.made, f.kept = nil, true
	}
}

// opened says that the instance is open: its files are the store's.
func (f *fence) opened() {
	f.serving.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made, f.kept = nil, true
}

func (f *fence) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(name, func(on vfs.FS) (vfs.File, error) { return on.Create(name, c) })
}

func (f *fence) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.file(name, func(on vfs.FS) (vfs.File, error) { return on.OpenReadWrite(name, c, o...) })
}

func (f *fence) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(to, func(on vfs.FS) (vfs.File, error) { return on.ReuseForWrite(from, to, c) })
}

func (f *fence) Rename(from, to string) error {
	f.name(func(on vfs.FS) error { return on.Rename(from, to) })
	return nil
}

func (f *fence) Link(from, to string) error {
	f.name(func(on vfs.FS) error { return on.Link(from, to) })
	return nil
}

func (f *fence) MkdirAll(dir string, mode os.FileMode) error {
	f.name(func(on vfs.FS) error { return on.MkdirAll(dir, mode) })
	return nil
}

// Remove does not shut the fence: what cannot be removed is only left over, and the next Open tries again.
func (f *fence) Remove(name string) error {
	f.name(func(on vfs.FS) error {
		on.Remove(name)
		return nil
	})
	return nil
}

func (f *fence) RemoveAll(name string) error { return f.Remove(name) }

func (f *fence) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	if f.failure() != nil {
		if file, err := f.void.Open(name, o...); err == nil {
			return file, nil
		}
	}
	return f.FS.Open(name, o...)
}

func (f *fence) OpenDir(name string) (vfs.File, error) {
	dir, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &fencedFile{File: dir, fence: f, name: name}, nil
}

func (f *fence) Stat(name string) (vfs.FileInfo, error) {
	if f.failure() != nil {
		if info, err := f.void.Stat(name); err == nil {
			return info, nil
		}
	}
	return f.FS.Stat(name)
}

// Lock gives the instance the lock that the store holds for all of them.
func (f *fence) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// fencedFile is a file on the disk that is written to.
type fencedFile struct {
	vfs.File
	fence *fence
	name  string
	lazy  bool
}

// write runs a write, unless the fence is shut.
func (f *fencedFile) write(what string, write func() error) error {
	if f.fence.failure() == nil {
		err := write()
		if err == nil {
			return nil
		}
		f.fence.shut(fmt.Errorf("%s %s: %w", what, f.name, err))
	}
	return f.fence.refused(f.name)
}

func (f *fencedFile) Write(b []byte) (int, error) {
	return len(b), f.write("write", func() error {
		_, err := f.File.Write(b)
		return err
	})
}

func (f *fencedFile) WriteAt(b []byte, at int64) (int, error) {
	return len(b), f.write("write", func() error {
		_, err := f.File.WriteAt(b, at)
		return err
	})
}

func (f *fencedFile) Sync() error {
	return f.write("sync", f.File.Sync)
}

func (f *fencedFile) SyncData() error {
	if f.lazy {
		return nil
	}
	return f.write("sync", f.File.SyncData)
}

func (f *fencedFile) SyncTo(length int64) (full bool, _ error) {
	err := f.write("sync", func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Preallocate is a hint.
func (f *fencedFile) Preallocate(at, length int64) error {
	if f.fence.failure() != nil {
		return nil
	}
	return f.File.Preallocate(at, length)
}

// Close makes a lazy log durable: the engine relies on that for every log but the last.
func (f *fencedFile) Close() error {
	if f.lazy {
		f.write("sync", f.File.SyncData)
	}
	if err := f.File.Close(); err != nil {
		f.fence.shut(fmt.Errorf("close %s: %w", f.name, err))
	}
	return nil
}
