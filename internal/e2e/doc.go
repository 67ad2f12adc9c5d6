// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e has no code of its own. Its tests run the signpost binary among real peers: upstreams, caches and
// clients that are stopped, killed and frozen, and disks that are full.
package e2e
