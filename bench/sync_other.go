// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package bench

import "os"

func fdatasync(f *os.File) error { return f.Sync() }
