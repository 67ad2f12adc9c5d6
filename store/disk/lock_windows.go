// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build windows

package disk

import (
	"errors"
	"os"
	"syscall"
)

// What Windows says of a file that somebody has open, and of a disk without room.
const (
	errorSharingViolation = syscall.Errno(32)
	errorDiskFull         = syscall.Errno(112)
)

// lockFile takes the lock that keeps a second store away from a directory: a file that is shared with
// nobody while it is open. It ends with the process, however that ends. It never waits.
func lockFile(name string) (*os.File, error) {
	path, err := syscall.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	h, err := syscall.CreateFile(path, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil,
		syscall.OPEN_ALWAYS, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, errorSharingViolation) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

// syncDir has nothing to do: Windows has no such call, and NTFS journals its directories.
func (osFiles) syncDir(string) error { return nil }

// isFull reports that an error means that there is no room on the disk.
func isFull(err error) bool { return errors.Is(err, errorDiskFull) }
