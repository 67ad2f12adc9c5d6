// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"context"
	"errors"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
)

// Take implements [signpost.Store]. It touches the disk only for the first take of a key, and that is
// bounded. The Commit is kept once the count is durable, or within the commit timeout if it cannot be.
func (s *Store) Take(ctx context.Context, q signpost.Request) (d signpost.Decision, c signpost.Commit, err error) {
	i := idOf(q.Key)
	sh := s.shard(&i)
	sh.mu.Lock()
	if s.closed.Load() {
		sh.mu.Unlock()
		return d, c, signpost.ErrClosed
	}
	e := sh.keys[i]
	if e == nil || e.load != nil {
		e = s.fetch(ctx, sh, i)
	}
	e.Take(s.now(sh, q.At), &q, &d)
	if d.Admitted || d.ClockFault {
		s.changed(e)
	}
	c = s.promise(e, &d)
	s.dropEmpty(sh, e)
	sh.mu.Unlock()
	return d, c, nil
}

// Peek implements [signpost.Store].
func (s *Store) Peek(ctx context.Context, q signpost.Request) (d signpost.Decision, c signpost.Commit, err error) {
	err = s.with(ctx, q.Key, q.At, func(e *entry, now signpost.Instant) {
		e.Peek(now, &q, &d)
		c = s.promise(e, &d)
	})
	return d, c, err
}

// Release implements [signpost.Store]. It is done when it returns.
func (s *Store) Release(l signpost.Lease) {
	s.held(l.Key, func(e *entry, _ *shard) { e.Release(l.ID) })
}

// Renew implements [signpost.Renewer].
func (s *Store) Renew(_ context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	if s.closed.Load() {
		return signpost.Lease{}, signpost.ErrClosed
	}
	alive := false
	s.held(l.Key, func(e *entry, sh *shard) { l.Expires, alive = e.Renew(l.ID, s.now(sh, at)) })
	if !alive {
		return signpost.Lease{}, signpost.ErrLeaseGone
	}
	return l, nil
}

// held runs f on a key that is in memory, as every key with a lease is.
func (s *Store) held(k signpost.Key, f func(*entry, *shard)) {
	i := idOf(k)
	sh := s.shard(&i)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.keys[i]; e != nil {
		f(e, sh)
		s.dropEmpty(sh, e)
	}
}

// Inspect implements [signpost.Inspector]. A key that cannot be read is an error.
func (s *Store) Inspect(ctx context.Context, k signpost.Key, at signpost.Instant) (in signpost.Inspection, err error) {
	unread := false
	err = s.with(ctx, k, at, func(e *entry, now signpost.Instant) {
		in, unread = e.Inspect(k, now), e.load != nil
	})
	if err == nil && unread {
		return signpost.Inspection{}, errors.New("inspect key: the disk does not answer")
	}
	return in, err
}

// Reset implements [signpost.Resetter]. The error wraps [signpost.ErrNotDurable] if the key is forgotten in memory and that
// could not be made durable in time.
func (s *Store) Reset(ctx context.Context, k signpost.Key) error {
	i := idOf(k)
	sh := s.shard(&i)
	sh.mu.Lock()
	if s.closed.Load() {
		sh.mu.Unlock()
		return signpost.ErrClosed
	}
	e := sh.keys[i]
	if e == nil {
		e = s.insert(sh, i)
	}
	e.State, e.load = state.State{}, nil // what a read that is under way finds is not wanted any more
	s.changed(e)
	c := s.commit(e)
	sh.mu.Unlock()
	return c.Wait(ctx)
}

// Settle implements [signpost.Settler]. Counts that cannot be made durable in time stand in memory.
func (s *Store) Settle(ctx context.Context, k signpost.Key, at signpost.Instant, counts []signpost.Count) error {
	var c signpost.Commit
	err := s.with(ctx, k, at, func(e *entry, now signpost.Instant) {
		e.Settle(now, counts)
		s.changed(e)
		c = s.commit(e)
	})
	if err != nil {
		return err
	}
	if err := c.Wait(ctx); !errors.Is(err, signpost.ErrNotDurable) {
		return err
	}
	return nil
}

// with runs f on a key under its lock, after the first read of it.
func (s *Store) with(ctx context.Context, k signpost.Key, at signpost.Instant, f func(*entry, signpost.Instant)) error {
	i := idOf(k)
	sh := s.shard(&i)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.closed.Load() {
		return signpost.ErrClosed
	}
	e := sh.keys[i]
	if e == nil || e.load != nil {
		e = s.fetch(ctx, sh, i)
	}
	f(e, s.now(sh, at))
	s.dropEmpty(sh, e)
	return nil
}

func (s *Store) shard(i *id) *shard { return &s.shards[i[15]%shardCount] }

// now returns the instant of an operation. It needs the shard's lock.
func (s *Store) now(sh *shard, at signpost.Instant) signpost.Instant {
	if at == 0 {
		at = s.clock.Now()
	}
	sh.latest = max(sh.latest, at)
	return at
}

// promise says what the answer about a key waits for, and marks it if it waits for nothing
// because that is not to be had.
func (s *Store) promise(e *entry, d *signpost.Decision) signpost.Commit {
	if e.load != nil || s.degraded.Load() {
		d.Degraded = true
		return signpost.Commit{}
	}
	return s.commit(e)
}

// insert puts a new key into memory, and others out if that is one too many. It needs the shard's lock.
func (s *Store) insert(sh *shard, i id) *entry {
	e := &entry{id: i}
	s.makeRoom(sh)
	sh.keys[i] = e
	s.keys.Add(1)
	return e
}

// dropEmpty drops a key of which there is nothing to keep, so that refusals cost no memory. It needs the shard's lock.
func (s *Store) dropEmpty(sh *shard, e *entry) {
	if e.State == (state.State{}) && e.load == nil && e.batch <= s.durable.Load() && sh.keys[e.id] == e {
		s.drop(sh, e)
	}
}

func (s *Store) drop(sh *shard, e *entry) {
	delete(sh.keys, e.id)
	s.keys.Add(-1)
}

// makeRoom looks at a few keys of the shard, anywhere in it, and drops those that have ended or, if the memory is full, that
// can be read again. It needs the shard's lock.
func (s *Store) makeRoom(sh *shard) {
	const look = 4
	over := s.keys.Load() - s.maxKeys + 1
	horizon := sh.horizon(s)
	looked, dropped := 0, 0
	var last *entry
	for _, e := range sh.keys { // a map is ranged over from a random place
		if s.readable(e) && (e.Ended(horizon) || over > 0 && !e.HasLeases(horizon)) {
			s.drop(sh, e)
			dropped++
		} else if e.load == nil {
			last = e
		}
		if looked++; looked == look {
			break
		}
	}
	if over <= 0 || dropped > 0 {
		return
	}
	if over > s.maxKeys/4 && last != nil {
		s.drop(sh, last)
		s.forgotten.Add(1)
	}
}

// readable reports that the disk has what the entry has.
func (s *Store) readable(e *entry) bool {
	return e.load == nil && !e.queued && e.batch <= s.durable.Load()
}

// horizon is the instant by which a key of the shard can be said to have ended: the latest that takes
// have named, but never ahead of the clock. It needs the shard's lock.
func (sh *shard) horizon(s *Store) signpost.Instant { return min(sh.latest, s.clock.Now()) }
