// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
	"github.com/signposthq/signpost/store/memory"
	"github.com/signposthq/signpost/store/storetest"
)

// plainStore is the least that is a store: one lock, one map, and the rules. It shows what the rules do with
// nothing around them.
type plainStore struct {
	mu     sync.Mutex
	keys   map[signpost.Key]*state.State
	closed bool
}

// with runs f on the state of a key at an instant, under the lock.
func (s *plainStore) with(k signpost.Key, at signpost.Instant, f func(*state.State, signpost.Instant)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return signpost.ErrClosed
	}
	if at == 0 {
		at = signpost.InstantOf(time.Now())
	}
	if s.keys == nil {
		s.keys = map[signpost.Key]*state.State{}
	}
	if s.keys[k] == nil {
		s.keys[k] = &state.State{}
	}
	f(s.keys[k], at)
	return nil
}

func (s *plainStore) Take(_ context.Context, q signpost.Request) (d signpost.Decision, _ signpost.Commit, err error) {
	err = s.with(q.Key, q.At, func(st *state.State, now signpost.Instant) { st.Take(now, &q, &d) })
	return d, signpost.Commit{}, err
}

func (s *plainStore) Peek(_ context.Context, q signpost.Request) (d signpost.Decision, _ signpost.Commit, err error) {
	err = s.with(q.Key, q.At, func(st *state.State, now signpost.Instant) { st.Peek(now, &q, &d) })
	return d, signpost.Commit{}, err
}

func (s *plainStore) Release(l signpost.Lease) {
	s.with(l.Key, 0, func(st *state.State, _ signpost.Instant) { st.Release(l.ID) })
}

func (s *plainStore) Renew(_ context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	alive := false
	err := s.with(l.Key, at, func(st *state.State, now signpost.Instant) { l.Expires, alive = st.Renew(l.ID, now) })
	if err == nil && !alive {
		err = signpost.ErrLeaseGone
	}
	return l, err
}

func (s *plainStore) Inspect(_ context.Context, k signpost.Key, at signpost.Instant) (in signpost.Inspection, err error) {
	err = s.with(k, at, func(st *state.State, now signpost.Instant) { in = st.Inspect(k, now) })
	return in, err
}

func (s *plainStore) Reset(_ context.Context, k signpost.Key) error {
	return s.with(k, 0, func(st *state.State, _ signpost.Instant) { *st = state.State{} })
}

func (s *plainStore) Settle(_ context.Context, k signpost.Key, at signpost.Instant, counts []signpost.Count) error {
	return s.with(k, at, func(st *state.State, now signpost.Instant) { st.Settle(now, counts) })
}

func (s *plainStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func TestRulesWithNothingAround(t *testing.T) {
	storetest.Run(t, storetest.Options{
		Open: func(testing.TB) signpost.Store { return &plainStore{} },
	})
}

// What is built around the rules for speed and bounded memory changes no decision.
func TestMemoryDecidesAsTheRulesDo(t *testing.T) {
	storetest.Same(t, map[string]func(testing.TB) signpost.Store{
		"plain":  func(testing.TB) signpost.Store { return &plainStore{} },
		"memory": func(testing.TB) signpost.Store { return memory.New(memory.Options{}) },
	})
}
