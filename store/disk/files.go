// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"io"
	"os"
	"path/filepath"
)

// files is what the store asks of a file system. Tests put faults behind it.
type files interface {
	// create makes a file for reading and writing, in place of any of that name.
	create(name string) (file, error)
	// open opens a file for reading and, unless it is only read, writing.
	open(name string, write bool) (file, error)
	truncate(name string, size int64) error
	rename(from, to string) error
	remove(name string) error
	list(dir string) ([]string, error)
	// syncDir makes what was created, renamed and removed in a directory durable.
	syncDir(dir string) error
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// sync makes what was written durable, and the size of the file with it.
	sync() error
	size() (int64, error)
}

// osFiles is the file system of the machine.
type osFiles struct{}

type osFile struct{ *os.File }

func (osFiles) create(name string) (file, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFiles) open(name string, write bool) (file, error) {
	if write {
		return openOS(name, os.O_RDWR)
	}
	return openOS(name, os.O_RDONLY)
}

func openOS(name string, flag int) (file, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFiles) truncate(name string, size int64) error { return os.Truncate(name, size) }

func (osFiles) rename(from, to string) error { return os.Rename(from, to) }
func (osFiles) remove(name string) error     { return os.Remove(name) }

func (osFiles) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (f osFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
