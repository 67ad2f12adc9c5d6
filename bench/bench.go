// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench measures signpost beside other limiters, beside a bare log on disk, beside a bare HTTP
// handler and beside a bare MCP server. The program in cmd/report runs it all and writes docs/benchmarks.md.
//
// It is a module of its own so that the rivals never enter the product's dependencies.
package bench

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/signposthq/signpost"
)

// Caller is one credential in the forms that limiters take it in: rivals the string, signpost the key, which
// its users compute once per link. The row that computes it at every call says so.
type Caller struct {
	ID  string
	Key signpost.Key
}

const namespace = "link"

// Callers returns n distinct callers with ids of 17 bytes, in order.
func Callers(n int) []Caller {
	callers := make([]Caller, n)
	for i := range callers {
		callers[i] = callerOf(i)
	}
	return callers
}

// Shuffled returns the same callers in an order that is the same in every process. Their ids lie in memory in
// that order too: a request's credential has just been read, and is not what a limiter should wait for.
func Shuffled(n int) []Caller {
	callers := make([]Caller, n)
	for i, id := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		callers[i] = callerOf(id)
	}
	return callers
}

func callerOf(i int) Caller {
	id := fmt.Sprintf("link-%012d", i)
	return Caller{ID: id, Key: signpost.KeyOf(namespace, id)}
}

// Take asks a limiter once. The answer is whether the call may pass; a limiter's error is a refusal.
type Take func(c *Caller) bool

// Limiter is one subject of the measurement in memory.
type Limiter struct {
	Name string
	// Package is the module that is measured, whose version the report quotes; empty for our own.
	Package string
	// How says, in a few words, what one take does.
	How string
	// Rival says that the figures of signpost are compared with it.
	Rival bool
	// New returns an empty limiter of one or two windows, shortest first, the same for every caller.
	New func(ws []signpost.Window) Take
}

// Windows returns the first n of minute and hour, with a limit that all of them share.
func Windows(n int, limit uint32) []signpost.Window {
	return []signpost.Window{{Len: time.Minute, Limit: limit}, {Len: time.Hour, Limit: limit}}[:n]
}
