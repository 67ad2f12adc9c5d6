// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package disk

func (f osFile) sync() error { return f.Sync() }
