// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package storetest checks that a [signpost.Store] keeps its contract. Anybody's store can run it:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Options{
//			Open: func(t testing.TB) signpost.Store { return mine.New() },
//		})
//	}
//
// The rules of counting are checked against golden vectors (vectors.json, which other implementations can
// read), and against a model of their own that is as plain as possible: in one goroutine by [Same], which feeds
// one random stream of operations to several stores, and concurrently by a search for a linear order.
//
// Every test uses keys that nobody has used before, so a store may be opened on a server that holds others.
package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/signposthq/signpost"
)

// Capability is one of the optional interfaces of a store.
type Capability string

// The capabilities that a store can lack.
const (
	Renews   Capability = "Renewer"
	Inspects Capability = "Inspector"
	Resets   Capability = "Resetter"
	Settles  Capability = "Settler"
)

// Options say what is tested. Only Open is needed.
type Options struct {
	// Open returns a store, which the test closes. It may share its counts with others.
	Open func(testing.TB) signpost.Store

	// Reopen closes a store, and opens one on the same counts. Nil means that the counts end with the store.
	Reopen func(testing.TB, signpost.Store) signpost.Store
	// KeepsLeases says that leases are there after Reopen. Else they must not be.
	KeepsLeases bool

	// Clients returns several stores on the same counts, as several processes would have. Nil means
	// that several goroutines share one store.
	Clients func(t testing.TB, n int) []signpost.Store

	// Lacks names the optional interfaces that the store is meant not to have. The others
	// are required, so that a method that was renamed by accident is found.
	Lacks []Capability
}

// Run checks a store. A store whose releases travel must be an Inspector: the test looks when they have arrived.
func Run(t *testing.T, o Options) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Options)
	}{
		{"Capabilities", testCapabilities},
		{"Vectors", testVectors},
		{"Model", testModel},
		{"Linearizable", testLinearizable},
		{"ExactUnderConcurrency", testExact},
		{"LastOneUnderConcurrency", testLastOne},
		{"LeasesUnderConcurrency", testLeasesConcurrently},
		{"AllOrNothingUnderConcurrency", testAllOrNothing},
		{"LeaseAgain", testLeaseAgain},
		{"OwnClock", testOwnClock},
		{"Misuse", testMisuse},
		{"Commit", testCommit},
		{"EndedContext", testEndedContext},
		{"Close", testClose},
		{"Reopen", testReopen},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, o) })
	}
}

// patience is how long anything that must happen in a bounded time may take here. It is far above what it
// does take, so that a slow machine fails nothing.
const patience = 30 * time.Second

// t0 is 2026-01-15T10:00:00Z, where a minute and an hour begin.
const t0 signpost.Instant = 1768471200000

func (o *Options) open(t testing.TB) signpost.Store {
	t.Helper()
	s := o.Open(t)
	closeAtEnd(t, s)
	return s
}

// clients returns n stores on the same counts.
func (o *Options) clients(t testing.TB, n int) []signpost.Store {
	t.Helper()
	if o.Clients == nil {
		s, all := o.open(t), make([]signpost.Store, n)
		for i := range all {
			all[i] = s
		}
		return all
	}
	all := o.Clients(t, n)
	for _, s := range all {
		closeAtEnd(t, s)
	}
	return all
}

func closeAtEnd(t testing.TB, s signpost.Store) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
}

func (o *Options) lacks(c Capability) bool {
	for _, l := range o.Lacks {
		if l == c {
			return true
		}
	}
	return false
}

// unused returns a prefix that makes keys new.
func unused() string { return "storetest " + rand.Text() + " " }

func take(t testing.TB, s signpost.Store, q signpost.Request) signpost.Decision {
	t.Helper()
	d, _, err := s.Take(t.Context(), q)
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	return d
}

func peek(t testing.TB, s signpost.Store, q signpost.Request) signpost.Decision {
	t.Helper()
	d, _, err := s.Peek(t.Context(), q)
	if err != nil {
		t.Fatalf("peek: %v", err)
	}
	return d
}

// release gives a lease back, and waits until the store has it.
func release(t testing.TB, s signpost.Store, l signpost.Lease) {
	t.Helper()
	s.Release(l)
	look, ok := s.(signpost.Inspector)
	if !ok {
		return
	}
	begin := time.Now()
	for {
		in, err := look.Inspect(t.Context(), l.Key, 1) // at 1, every lease that is stored is alive
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
		if err != nil {
			t.Fatalf("inspect: %v", err)
		}
		held := false
		for _, one := range in.Leases {
			held = held || one.ID == l.ID
		}
		if !held {
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("a released lease is still held")
		}
		pause(t.Context())
	}
}

// pause lets others run between two looks at something that is awaited.
func pause(ctx context.Context) {
	tick := time.NewTimer(time.Millisecond)
	defer tick.Stop()
	select {
	case <-tick.C:
	case <-ctx.Done():
	}
}

// durable waits for a commit.
func durable(t testing.TB, c signpost.Commit) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Wait(ctx); err != nil {
		t.Fatalf("wait for the commit: %v", err)
	}
}
