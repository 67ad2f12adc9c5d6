// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// lookEvery is how often a store looks whether its directory is still there, and whether the engine still works though nobody
// takes.
const lookEvery = time.Second

// place is the directory of a store, and the lock that keeps a second store away from it. The lock is on a file, which may be
// renamed or removed together with the directory.
type place struct {
	io.Closer // the lock; it ends with the process, however that ends
	name      string
	file      fs.FileInfo
}

// lock takes the lock of a directory.
func lock(dir string) (place, error) {
	// The lock is one of a path within the process.
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return place{}, err
	}
	l, err := pebble.LockDirectory(path, vfs.Default)
	var cannot *fs.PathError
	switch {
	case errors.As(err, &cannot):
		return place{}, err
	case err != nil:
		return place{}, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	p := place{Closer: l, name: filepath.Join(path, "LOCK")}
	if p.file, err = os.Stat(p.name); err != nil {
		l.Close()
		return place{}, err
	}
	return p, nil
}

// errGone is why a store writes nothing into what now has the name of its directory. Another process may have that.
var errGone = errors.New("the data directory was removed, renamed or replaced; put it back, or restart")

// check returns an error if the directory is surely not at its name any more.
func (p *place) check() error {
	now, err := os.Stat(p.name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, p.file) {
		return errGone
	}
	return nil
}

// lookAfter has the committer find out, within lookEvery, about what no take has met yet: a directory that is gone, an engine
// that failed at something it does by itself. It may hang with the disk, and nobody waits for it.
func (s *Store) lookAfter() {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-s.closing:
			return
		}
		e := s.engine.Load()
		if err := s.place.check(); err != nil {
			e.fence.shut(err)
		}
		if e.fence.failure() != nil && !s.degraded.Load() {
			s.mu.Lock()
			s.joined(s.filling)
			s.mu.Unlock()
		}
	}
}
