// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package homes spreads keys over stores in several places. Each key has a home, which is part of the key, and is counted
// there wherever its requests arrive: the count stays one, and whoever lives near the home waits for nothing far away.
//
// Put a failopen.Store around each home's own store, not around the whole: then a home that cannot be reached degrades its own
// keys only.
package homes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/signposthq/signpost"
)

var _ interface {
	signpost.Store
	signpost.Renewer
	signpost.Inspector
	signpost.Resetter
	signpost.Settler
	signpost.Slicer
} = (*Store)(nil)

// Store is a [signpost.Store] of several. It is safe for concurrent use.
type Store struct {
	at        map[signpost.Home]signpost.Store
	elsewhere signpost.Store
}

// New returns a Store that counts each key in the store of its home. Keys of no home are counted in that of the zero Home. elsewhere
// has the keys of homes that are not in the map: [Nowhere], with a failopen.Store around it, or nil to answer each with an error
// that wraps [signpost.ErrUnknownHome]. The Store owns all of them from then on, and closes them.
func New(at map[signpost.Home]signpost.Store, elsewhere signpost.Store) (*Store, error) {
	var faults []error
	if len(at) == 0 {
		faults = append(faults, errors.New("homes: no home"))
	}
	for h, s := range at {
		if s == nil {
			faults = append(faults, fmt.Errorf("homes: home %q has no store", h))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	if elsewhere == nil {
		elsewhere = Nowhere()
	}
	return &Store{maps.Clone(at), elsewhere}, nil
}

func (s *Store) of(k signpost.Key) signpost.Store {
	if home := s.at[k.Home()]; home != nil {
		return home
	}
	return s.elsewhere
}

// Take implements [signpost.Store].
func (s *Store) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	return s.of(q.Key).Take(ctx, q)
}

// Peek implements [signpost.Store].
func (s *Store) Peek(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	return s.of(q.Key).Peek(ctx, q)
}

// Release implements [signpost.Store].
func (s *Store) Release(l signpost.Lease) { s.of(l.Key).Release(l) }

// Renew implements [signpost.Renewer].
func (s *Store) Renew(ctx context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	if r, ok := s.of(l.Key).(signpost.Renewer); ok {
		return r.Renew(ctx, l, at)
	}
	return signpost.Lease{}, errors.ErrUnsupported
}

// Inspect implements [signpost.Inspector].
func (s *Store) Inspect(ctx context.Context, k signpost.Key, at signpost.Instant) (signpost.Inspection, error) {
	if i, ok := s.of(k).(signpost.Inspector); ok {
		return i.Inspect(ctx, k, at)
	}
	return signpost.Inspection{}, errors.ErrUnsupported
}

// Reset implements [signpost.Resetter].
func (s *Store) Reset(ctx context.Context, k signpost.Key) error {
	if r, ok := s.of(k).(signpost.Resetter); ok {
		return r.Reset(ctx, k)
	}
	return errors.ErrUnsupported
}

// Settle implements [signpost.Settler].
func (s *Store) Settle(ctx context.Context, k signpost.Key, at signpost.Instant, counts []signpost.Count) error {
	if settler, ok := s.of(k).(signpost.Settler); ok {
		return settler.Settle(ctx, k, at, counts)
	}
	return errors.ErrUnsupported
}

// Slice implements [signpost.Slicer]: the home, and the part of its store.
func (s *Store) Slice(k signpost.Key) string {
	name := k.Home().String()
	if slicer, ok := s.of(k).(signpost.Slicer); ok {
		name += "/" + slicer.Slice(k)
	}
	return name
}

// Close implements [signpost.Store]. All stores are closed at once: one that is away takes its time.
func (s *Store) Close() error {
	var mu sync.Mutex
	var errs []error
	var closing sync.WaitGroup
	for h, home := range s.at {
		closing.Go(func() {
			if err := home.Close(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("home %q: %w", h, err))
			}
		})
	}
	err := s.elsewhere.Close()
	closing.Wait()
	return errors.Join(append(errs, err)...)
}

// Nowhere returns the store of keys whose home is not known: every take and peek is an error that wraps [signpost.ErrUnknownHome].
func Nowhere() signpost.Store { return nowhere{} }

type nowhere struct{}

func (nowhere) Take(_ context.Context, q signpost.Request) (d signpost.Decision, c signpost.Commit, err error) {
	return d, c, fmt.Errorf("%w: %s", signpost.ErrUnknownHome, q.Key.Home())
}

func (n nowhere) Peek(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	return n.Take(ctx, q)
}

func (nowhere) Release(signpost.Lease) {}

// Slice implements [signpost.Slicer]: each home that is not known shows by itself.
func (nowhere) Slice(k signpost.Key) string { return k.Home().String() }

func (nowhere) Close() error { return nil }
