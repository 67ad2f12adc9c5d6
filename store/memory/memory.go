// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package memory is a store in the memory of one process. Its counts end with the process.
package memory

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/clock"
	"github.com/signposthq/signpost/internal/state"
)

// DefaultMaxKeys is how many keys a store holds unless it is told otherwise. A key takes at most 150 bytes.
const DefaultMaxKeys = 1_000_000

// shardCount is well above the cores of most machines, so that two of them seldom want the same lock.
const shardCount = 64

// Options are what a store can be told. The zero Options are right for most.
type Options struct {
	// MaxKeys is how many keys the store holds; 0 means DefaultMaxKeys. When a new key would be one too
	// many, the keys that have ended are dropped; if that frees none, or was done within the last
	// MaxKeys/4 new keys, the store is cleared, all at once, leases included. Bounded memory is bought with
	// quota given back, so hold strangers in a store of their own.
	MaxKeys int
	// OnClear is called after each clearing, for metrics and logs. It must not call the store.
	OnClear func()
}

// Store is a [signpost.Store]. A take allocates nothing but what a key that is new needs. It has no
// goroutine of its own: each new key looks at a few others and drops those that have ended, so
// that about a quarter of what it holds is over, at most.
type Store struct {
	shards  [shardCount]shard
	clock   *clock.Clock
	closed  atomic.Bool
	maxKeys int64
	onClear func()

	keys  atomic.Int64
	fresh atomic.Int64 // new keys since the last sweep or clear
	full  sync.Mutex   // held by the one that makes room
}

type shard struct {
	mu   sync.Mutex
	keys map[id]*state.State
	_    [64 - 16]byte // a cache line each, so that shards do not slow each other down
}

// id is what the store keeps of a key: 128 bits of its digest. A map of whole digests is twice
// as large, and a take from a large map costs what its cache misses cost.
type id [16]byte

func idOf(k signpost.Key) id {
	d := k.Digest()
	return id(d[:16])
}

// New returns an empty store.
func New(o Options) *Store {
	s := &Store{clock: clock.New(), maxKeys: int64(o.MaxKeys), onClear: o.OnClear}
	if s.maxKeys <= 0 {
		s.maxKeys = DefaultMaxKeys
	}
	for i := range s.shards {
		s.shards[i].keys = make(map[id]*state.State)
	}
	return s
}

// Take implements [signpost.Store]. The Commit is kept: there is nothing to wait for. A key is
// held only once something was charged to it, so that refusals cost no memory.
func (s *Store) Take(_ context.Context, q signpost.Request) (d signpost.Decision, _ signpost.Commit, _ error) {
	if s.closed.Load() {
		return d, signpost.Commit{}, signpost.ErrClosed
	}
	id := idOf(q.Key)
	sh := s.shard(&id)
	sh.mu.Lock()
	now := s.now(q.At)
	if st := sh.keys[id]; st != nil {
		st.Take(now, &q, &d)
	} else {
		s.takeNew(sh, id, now, &q, &d)
	}
	sh.mu.Unlock()
	return d, signpost.Commit{}, nil
}

// takeNew is Take for a key that is not there. It holds the shard's lock but while it makes room.
func (s *Store) takeNew(sh *shard, id id, now signpost.Instant, q *signpost.Request, d *signpost.Decision) {
	for {
		st := &state.State{}
		if st.Take(now, q, d); !d.Admitted {
			return
		}
		if s.keys.Add(1) <= s.maxKeys {
			s.fresh.Add(1)
			s.sweepSome(sh, now)
			sh.keys[id] = st
			return
		}
		s.keys.Add(-1)
		sh.mu.Unlock()
		s.makeRoom(now)
		sh.mu.Lock()
		if st := sh.keys[id]; st != nil { // somebody else was quicker
			st.Take(now, q, d)
			return
		}
	}
}

// Peek implements [signpost.Store].
func (s *Store) Peek(_ context.Context, q signpost.Request) (d signpost.Decision, _ signpost.Commit, _ error) {
	err := s.with(q.Key, q.At, func(st *state.State, now signpost.Instant) { st.Peek(now, &q, &d) })
	return d, signpost.Commit{}, err
}

// Release implements [signpost.Store]. It is done when it returns.
func (s *Store) Release(l signpost.Lease) {
	s.with(l.Key, 0, func(st *state.State, _ signpost.Instant) { st.Release(l.ID) })
}

// Renew implements [signpost.Renewer].
func (s *Store) Renew(_ context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	alive := false
	err := s.with(l.Key, at, func(st *state.State, now signpost.Instant) { l.Expires, alive = st.Renew(l.ID, now) })
	switch {
	case err != nil:
		return signpost.Lease{}, err
	case !alive:
		return signpost.Lease{}, signpost.ErrLeaseGone
	}
	return l, nil
}

// Inspect implements [signpost.Inspector].
func (s *Store) Inspect(_ context.Context, k signpost.Key, at signpost.Instant) (in signpost.Inspection, _ error) {
	err := s.with(k, at, func(st *state.State, now signpost.Instant) { in = st.Inspect(k, now) })
	return in, err
}

// Reset implements [signpost.Resetter].
func (s *Store) Reset(_ context.Context, k signpost.Key) error {
	if s.closed.Load() {
		return signpost.ErrClosed
	}
	id := idOf(k)
	sh := s.shard(&id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.keys[id] != nil {
		delete(sh.keys, id)
		s.keys.Add(-1)
	}
	return nil
}

// Settle implements [signpost.Settler]. A key that is not there and for which there is no room is
// dropped: settling never clears the store.
func (s *Store) Settle(_ context.Context, k signpost.Key, at signpost.Instant, counts []signpost.Count) error {
	if s.closed.Load() {
		return signpost.ErrClosed
	}
	id := idOf(k)
	sh := s.shard(&id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now(at)
	if st := sh.keys[id]; st != nil {
		st.Settle(now, counts)
		return nil
	}
	st := &state.State{}
	if st.Settle(now, counts); st.Ended(now) {
		return nil
	}
	if s.keys.Add(1) > s.maxKeys {
		s.keys.Add(-1)
		return nil
	}
	sh.keys[id] = st
	return nil
}

// Len returns how many keys the store holds, ended ones that were not dropped yet included.
func (s *Store) Len() int { return int(s.keys.Load()) }

// Sweep drops every key that has ended at an instant (zero: now), and returns how many those were. The
// store sweeps by itself as new keys come; an owner may call this to give room back when none do.
func (s *Store) Sweep(at signpost.Instant) int {
	dropped := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		now := s.now(at)
		for id, st := range sh.keys {
			if st.Ended(now) {
				delete(sh.keys, id)
				dropped++
			}
		}
		sh.mu.Unlock()
	}
	s.keys.Add(int64(-dropped))
	return dropped
}

// Close implements [signpost.Store].
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

func (s *Store) now(at signpost.Instant) signpost.Instant {
	if at != 0 {
		return at
	}
	return s.clock.Now()
}

func (s *Store) shard(d *id) *shard { return &s.shards[d[len(d)-1]%shardCount] }

// with runs f on the state of a key under its lock, at an instant (zero: now); on an empty state if the key is not there.
func (s *Store) with(k signpost.Key, at signpost.Instant, f func(*state.State, signpost.Instant)) error {
	if s.closed.Load() {
		return signpost.ErrClosed
	}
	id := idOf(k)
	sh := s.shard(&id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.keys[id]
	if st == nil {
		st = &state.State{}
	}
	f(st, s.now(at))
	return nil
}

// sweepSome looks at a few keys of a shard and drops those that have ended. Four are looked at for
// each one that comes, so the ended can be no more than about a quarter for long.
func (s *Store) sweepSome(sh *shard, now signpost.Instant) {
	looked := 0
	for id, st := range sh.keys { // a map is ranged over from a random place
		if st.Ended(now) {
			delete(sh.keys, id)
			s.keys.Add(-1)
		}
		if looked++; looked == 4 {
			return
		}
	}
}

// makeRoom is called without a lock when the store is full.
func (s *Store) makeRoom(now signpost.Instant) {
	s.full.Lock()
	defer s.full.Unlock()
	if s.keys.Load() < s.maxKeys { // somebody else made room
		return
	}
	if s.fresh.Swap(0) > s.maxKeys/4 && s.Sweep(now) > 0 {
		return
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		s.keys.Add(int64(-len(sh.keys)))
		sh.keys = make(map[id]*state.State)
		sh.mu.Unlock()
	}
	if s.onClear != nil {
		s.onClear()
	}
}
