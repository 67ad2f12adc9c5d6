// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
)

// ledger holds what keys owe to the inner store: what the fallback admitted and the store was never asked about.
type ledger struct {
	mu    sync.Mutex
	max   int
	debts map[signpost.Key]*debt
	// keys is len(debts), so that while nothing is owed no take needs the lock.
	keys atomic.Int64
	// drains is 0 when nobody drains, 1 when somebody does, 2 when that one has to look once more.
	drains int
}

// debt is what one key owes.
type debt struct {
	owed    state.State
	sending chan struct{} // while what was owed before is being sent; closed after that
}

func (l *ledger) init(max int) { l.max, l.debts = max, make(map[signpost.Key]*debt) }

// add notes counts that a key owes, and returns how many debts had to be dropped to make room.
func (l *ledger) add(k signpost.Key, now signpost.Instant, counts []signpost.Count) (dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.debts[k]
	if d == nil {
		if len(l.debts) >= l.max {
			l.dropLocked(func(d *debt) bool { return d.owed.Ended(now) })
		}
		if len(l.debts) >= l.max {
			dropped = l.dropLocked(func(*debt) bool { return true })
		}
		d = &debt{}
		l.debts[k] = d
		l.keys.Add(1)
	}
	d.owed.Settle(now, counts)
	return dropped
}

// claim takes out what a key owes, for the caller to send and then call sent. While somebody else
// is sending, it returns the channel that is closed after that instead. Neither means that nothing is owed.
func (l *ledger) claim(k signpost.Key, now signpost.Instant) (counts []signpost.Count, sending <-chan struct{}) {
	if l.keys.Load() == 0 {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.debts[k]
	switch {
	case d == nil:
		return nil, nil
	case d.sending != nil:
		return nil, d.sending
	}
	counts = d.owed.Inspect(k, now).Counts
	if len(counts) == 0 {
		l.deleteLocked(k)
		return nil, nil
	}
	d.owed, d.sending = state.State{}, make(chan struct{})
	return counts, nil
}

// sent ends a claim. What is still owed, because it was not sent, goes back.
func (l *ledger) sent(k signpost.Key, now signpost.Instant, owed []signpost.Count) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.debts[k]
	d.owed.Settle(now, owed)
	close(d.sending)
	d.sending = nil
	if d.owed.Ended(now) {
		l.deleteLocked(k)
	}
}

// forget drops what one key owes.
func (l *ledger) forget(k signpost.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.debts[k]; d != nil && d.sending == nil {
		l.deleteLocked(k)
	}
}

// drop forgets what every key owes, and returns how many those were.
func (l *ledger) drop() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropLocked(func(*debt) bool { return true })
}

// dropLocked forgets debts that are not being sent, and returns how many.
func (l *ledger) dropLocked(which func(*debt) bool) (n int) {
	for k, d := range l.debts {
		if d.sending == nil && which(d) {
			l.deleteLocked(k)
			n++
		}
	}
	return n
}

func (l *ledger) deleteLocked(k signpost.Key) {
	delete(l.debts, k)
	l.keys.Add(-1)
}

// all returns the keys that owe something.
func (l *ledger) all() []signpost.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.debts))
}

// owe notes that a key owes counts to the inner store.
func (s *Store) owe(k signpost.Key, now signpost.Instant, counts []signpost.Count) {
	if n := s.ledger.add(k, now, counts); n > 0 {
		s.hooks.DebtDropped(n, errors.New("too many keys owe"))
	}
	// The slice can have healed since, and a caller that was short of time owes to a healthy one.
	if s.parts.of(k).up.Load() != nil {
		s.settleSoon()
	}
}

// settle sends what a key owes and returns when it owes nothing. It reports false if the slice
// that the key is in is not, or no longer, in the period up.
func (s *Store) settle(k signpost.Key, up *period) bool {
	for {
		now := s.instant(k, 0)
		counts, sending := s.ledger.claim(k, now)
		switch {
		case sending != nil:
			<-sending // within the timeout
		case len(counts) == 0:
			return true
		default:
			s.send(k, now, counts)
		}
		if s.parts.of(k).up.Load() != up {
			return false
		}
	}
}

// send adds counts to a key of the inner store. Unless the store says that it did not, the debt is over either way: an error can
// mean that it counted.
func (s *Store) send(k signpost.Key, now signpost.Instant, counts []signpost.Count) {
	_, err := ask(s.ctx, s, k, &call[struct{}]{do: func(ctx context.Context) (struct{}, error) {
		if s.settler == nil {
			return struct{}{}, errors.ErrUnsupported
		}
		return struct{}{}, s.settler.Settle(ctx, k, 0, counts)
	}})
	if errors.Is(err, signpost.ErrNotCharged) {
		s.ledger.sent(k, now, counts)
		return
	}
	if err != nil {
		s.hooks.DebtDropped(1, fmt.Errorf("settle debt of key %v: %w", k, err))
	}
	s.ledger.sent(k, now, nil)
}

// settleSoon has what the keys of healthy slices owe sent in the background, one key after the other.
func (s *Store) settleSoon() {
	l := &s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drains > 0 {
		l.drains = 2
		return
	}
	if s.start(s.drain) {
		l.drains = 1
	}
}

func (s *Store) drain() {
	l := &s.ledger
	for again := true; again; {
		for _, k := range l.all() {
			if up := s.parts.of(k).up.Load(); up != nil {
				s.settle(k, up)
			}
		}
		l.mu.Lock()
		l.drains--
		again = l.drains > 0
		l.mu.Unlock()
	}
}
