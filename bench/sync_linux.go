// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"syscall"
)

// fdatasync is fsync without the file's times: the cheapest sync that keeps what was written.
func fdatasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
