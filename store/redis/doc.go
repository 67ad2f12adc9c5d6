// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package redis is a store that any number of processes share: one exact count on a Redis or Valkey server, alone, behind
// Sentinels or in a Cluster.
//
//	s, err := redis.Open(ctx, redis.Options{URL: "redis://localhost:6379"})
//
// # How it counts
//
// A take is one round trip, whatever it has to decide: a script decides beside the data by the rules of
// docs/rules.md, charges in the same step, and returns what was there before. The same rules in Go judge that again, and a
// verdict that differs is a failure of the store. The server's clock is the clock of the fleet. Cheap takes of callers that
// meet go in one command, unless the server is a Cluster; each is still decided by itself.
//
// A key has one string for its windows and, while leases are out, one sorted set for those, both in one hash slot. Each write sets an
// expiry; that of the windows follows from their ends alone.
//
// # How it fails
//
// This store returns errors. Wrap it in a failopen.Store, which decides in the meantime and says so. An error means that
// the take was counted at most once: it is sent again only if the server says that it did not run it. Every
// call returns by the deadline of its context, whatever the server or the network does. [Open] succeeds while the server
// cannot be reached, and the store works from the moment that it can be; but a server that turns this process
// away, or cannot be a store at all, is an error of Open.
package redis
