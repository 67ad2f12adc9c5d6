// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package disk

import (
	"os"
	"syscall"
)

// sync is fdatasync: what a reader needs not, such as the time of the change, is not waited for.
func (f osFile) sync() error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
