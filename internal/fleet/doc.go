// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet has no code of its own: its tests run several processes, most of them with clocks that are wrong, on
// one Redis server or Cluster, and prove from what the processes were told that the count was one.
package fleet
