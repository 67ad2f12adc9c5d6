// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package daemon is the signpost binary without its command line: configuration, the three
// listeners (door, api, admin), telemetry, and the life of the process from start to drain.
//
// [Load] turns a file, the environment and flags into a [Config], or names every fault at
// once. [Run] serves one until its context ends.
package daemon
