// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost

import (
	"context"
	"errors"
	"time"
)

// These errors can be returned by every Store and Limiter. A refusal is not an error, and an
// error is not a refusal.
var (
	// ErrUsage is wrapped by every error that is the caller's fault: no key, no bound, an
	// instant out of range. It never degrades anything.
	ErrUsage = errors.New("bad request to the limiter")
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("store is closed")
	// ErrLeaseGone is returned when a lease that should be renewed has expired or was released.
	ErrLeaseGone = errors.New("lease has ended")
	// ErrNotDurable is what [Commit.Wait] returns when the count stands in memory but could
	// not be made durable in time.
	ErrNotDurable = errors.New("count is not durable")
	// ErrUnreachable is wrapped by a store that found no way to what is behind it, and ErrStoreAuth by one
	// that was turned away there: a wrong password, a missing permission. Metrics and logs tell them from other failures.
	ErrUnreachable = errors.New("store is unreachable")
	ErrStoreAuth   = errors.New("store turned this process away")
	// ErrNotCharged is wrapped by an error of a store that surely changed nothing: it was not sent, or it was turned down as
	// a whole. What was admitted elsewhere instead can be settled later without being counted twice.
	ErrNotCharged = errors.New("nothing was charged")
	// ErrSpoilt is wrapped by an error of a store that cannot read what it finds for a key. It is about that key alone, and lasts until
	// that is gone.
	ErrSpoilt = errors.New("what is stored of the key cannot be read")
)

// Store is where the takes of one key are serialised. store/memory and store/disk
// are Stores; store/storetest checks that another one is.
//
// A Store MUST be safe for concurrent use. It MUST NOT read a clock for a request that
// names its instant, and MUST read its clock once, where the key is serialised, for one that does not.
// It MAY drop a key whose windows and leases have ended by the latest instant that any request named: who names
// instants names them in order.
// What it may do besides is in the optional interfaces: [Renewer], [Inspector], [Resetter], [Settler], [Slicer].
// A wrapper implements all of them and returns [errors.ErrUnsupported] for what is not there behind it.
type Store interface {
	// Take decides and, if it admits, charges, atomically for the key: the verdict MUST be that of
	// [Judge] on the state that the charge replaces. On an error it MUST have charged at most
	// once, and MUST NOT try again. It MUST return by the deadline of ctx.
	//
	// The Commit says when the decision is durable. A refusal that saw a count
	// which is not durable yet carries the Commit of that count.
	Take(ctx context.Context, q Request) (Decision, Commit, error)

	// Peek decides as [JudgePeek] and changes nothing.
	Peek(ctx context.Context, q Request) (Decision, Commit, error)

	// Release gives a lease back. It MUST NOT block: a store that has to travel queues it,
	// bounded, and what it drops ends by expiry. It is idempotent, and the id fences it: a lease
	// that has ended, or never was, changes nothing.
	Release(l Lease)

	// Close ends the store after what has been charged is durable. Closing twice is safe.
	Close() error
}

// Renewer is a Store whose leases can be extended.
type Renewer interface {
	// Renew extends a living lease to LeaseLife after at (the zero Instant: the store's clock)
	// and returns it, or [ErrLeaseGone].
	Renew(ctx context.Context, l Lease, at Instant) (Lease, error)
}

// Inspector is a Store that can show what it holds for a key.
type Inspector interface {
	// Inspect returns the windows that are open and the leases that are alive at an instant (zero: the
	// store's clock), whatever bound they were charged under. An unknown key has none.
	Inspect(ctx context.Context, k Key, at Instant) (Inspection, error)
}

// Inspection is what a store holds for one key at one instant.
type Inspection struct {
	At     Instant
	Counts []Count // shortest window first
	Leases []Lease // first to expire first
}

// Count is what has been used of one interval.
type Count struct {
	Len   time.Duration
	Start Instant
	Used  uint32
}

// Resetter is a Store that can forget a key: all its windows and leases.
type Resetter interface {
	Reset(ctx context.Context, k Key) error
}

// Settler is a Store that accepts counts from elsewhere.
type Settler interface {
	// Settle adds each count to the key's window of that length if the interval is the
	// open one at an instant (zero: the store's clock), whatever the limit; an interval that has ended is dropped. It
	// MUST add all or nothing, and an error MUST mean at most once.
	Settle(ctx context.Context, k Key, at Instant, counts []Count) error
}

// Slicer is a Store of several parts that fail one by one, such as the nodes of a cluster.
type Slicer interface {
	// Slice names the part that serialises a key now. Keys with the same tag and the same home MUST be in the same
	// part. It MUST NOT block.
	Slice(k Key) string
}

// Commit is the promise that a decision becomes durable. It is a value; the zero Commit is kept already.
type Commit struct{ p Pending }

// Pending is the store's side of a Commit.
type Pending interface {
	// Done is closed when the count is durable or the store has given up on it for now. That
	// MUST happen within a bounded time.
	Done() <-chan struct{}
	// Err says which, after Done: nil, or ErrNotDurable.
	Err() error
}

// CommitOf returns a Commit that is kept when p is.
func CommitOf(p Pending) Commit { return Commit{p} }

// Done returns a channel that is closed when Wait would not block, or nil for a Commit that is kept already.
func (c Commit) Done() <-chan struct{} {
	if c.p == nil {
		return nil
	}
	return c.p.Done()
}

// Wait returns nil once the decision is durable, [ErrNotDurable] if the store gave up on that for
// now, or the error of ctx if that ended first.
func (c Commit) Wait(ctx context.Context) error {
	if c.p == nil {
		return nil
	}
	if ctx.Done() == nil { // a wait for one thing costs half of one for two
		<-c.p.Done()
		return c.p.Err()
	}
	select {
	case <-c.p.Done(): // also if ctx has ended meanwhile
		return c.p.Err()
	default:
	}
	select {
	case <-c.p.Done():
		return c.p.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
