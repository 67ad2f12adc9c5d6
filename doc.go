// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package signpost is exact rate limiting for APIs that agents call.
//
// One call, [Limiter.Take], holds a [Key] to every window of its [Bound] and to a
// number of expensive operations at once. Either all of them admit and all are charged,
// or one refuses and nothing changes. The [Decision] says which, what is left of each window, and
// how long to wait.
//
// The levels of the API, from the one most callers want downwards:
//
//   - door/httpdoor wraps a net/http handler, door/mcpdoor a server of MCP; cmd/signpost needs no Go at all.
//   - [Limiter] takes, peeks and releases by hand.
//   - [Store] is the contract that store/memory, store/disk and store/redis fulfil, the last with a failopen.Store around it,
//     and that other stores can be written against; store/storetest checks one.
//   - [Judge] is the specification of the counting itself. Every store's verdict is its verdict.
//
// Windows are fixed intervals of wall-clock time since the Unix epoch in UTC, so that every
// process finds the same edge by itself and a wait is a fact about the calendar. The rules
// never read a clock: the instant of a take is data.
//
// This package imports only the standard library.
package signpost
