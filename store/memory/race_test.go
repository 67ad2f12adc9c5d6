// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package memory_test

// underRace makes tests of size smaller: the detector makes a new key cost fifty times as much.
const underRace = true
