// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "time"

// cpu is not measured here.
func cpu() time.Duration { return 0 }
