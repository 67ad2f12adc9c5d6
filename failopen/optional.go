// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// Release implements [signpost.Store]. A lease goes back to where it was granted.
func (s *Store) Release(l signpost.Lease) {
	// The fallback is always asked, which costs nothing: a lease that travelled through another
	// process can have lost its origin.
	s.fallback.Release(l)
	if !l.Fallback {
		s.releaseInner(l)
	}
}

// releaseInner does not wait: that is the inner store's promise. Releases come from deferred calls and goroutines of
// doors, where a panic would end the process.
func (s *Store) releaseInner(l signpost.Lease) {
	defer func() {
		if p := recover(); p != nil {
			err := panicked(p)
			s.hooks.Failed(s.Slice(l.Key), kindOf(err), err)
		}
	}()
	s.inner.Release(l)
}

// Renew implements [signpost.Renewer], where the lease was granted.
func (s *Store) Renew(ctx context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	renewed, err := s.fallback.Renew(ctx, l, s.instant(l.Key, at))
	if err == nil || l.Fallback {
		return renewed, err
	}
	r, ok := s.inner.(signpost.Renewer)
	if !ok {
		return signpost.Lease{}, fmt.Errorf("renew lease: %w", errors.ErrUnsupported)
	}
	renewed, err = ask(ctx, s, l.Key, &call[signpost.Lease]{do: func(ctx context.Context) (signpost.Lease, error) {
		return r.Renew(ctx, l, at)
	}})
	if err != nil {
		return signpost.Lease{}, fmt.Errorf("renew lease: %w", err)
	}
	renewed.Fallback = false
	return renewed, nil
}

// Inspect implements [signpost.Inspector]. If the store does not answer, it returns what the fallback holds together
// with an error that wraps ErrDegraded.
func (s *Store) Inspect(ctx context.Context, k signpost.Key, at signpost.Instant) (signpost.Inspection, error) {
	i, ok := s.inner.(signpost.Inspector)
	if !ok {
		return signpost.Inspection{}, fmt.Errorf("inspect key %v: %w", k, errors.ErrUnsupported)
	}
	in, err := ask(ctx, s, k, &call[signpost.Inspection]{
		settles: true,
		do: func(ctx context.Context) (signpost.Inspection, error) {
			return i.Inspect(ctx, k, at)
		},
	})
	if errors.Is(err, ErrDegraded) {
		in, _ = s.fallback.Inspect(ctx, k, s.instant(k, at))
	}
	if err != nil {
		return in, fmt.Errorf("inspect key %v: %w", k, err)
	}
	return in, nil
}

// Reset implements [signpost.Resetter]. The fallback forgets the key, and what it owes, in any case; an error that wraps
// ErrDegraded means that the store may still hold it.
func (s *Store) Reset(ctx context.Context, k signpost.Key) error {
	s.ledger.forget(k)
	if err := s.fallback.Reset(ctx, k); err != nil {
		return err
	}
	r, ok := s.inner.(signpost.Resetter)
	if !ok {
		return fmt.Errorf("reset key %v: %w", k, errors.ErrUnsupported)
	}
	_, err := ask(ctx, s, k, &call[struct{}]{
		settles: true, // what is on its way already must not arrive after the reset
		do: func(ctx context.Context) (struct{}, error) {
			return struct{}{}, r.Reset(ctx, k)
		},
	})
	if err != nil {
		return fmt.Errorf("reset key %v: %w", k, err)
	}
	return nil
}

// Settle implements [signpost.Settler]. Counts for a degraded slice are owed to it like those of a take.
func (s *Store) Settle(ctx context.Context, k signpost.Key, at signpost.Instant, counts []signpost.Count) error {
	if s.settler == nil {
		return fmt.Errorf("settle key %v: %w", k, errors.ErrUnsupported)
	}
	counts = slices.Clone(counts) // the call can outlive this one
	_, err := ask(ctx, s, k, &call[struct{}]{do: func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.settler.Settle(ctx, k, at, counts)
	}})
	if errors.Is(err, signpost.ErrNotCharged) {
		now := s.instant(k, at)
		s.owe(k, now, counts)
		return s.fallback.Settle(ctx, k, now, counts)
	}
	if err != nil {
		return fmt.Errorf("settle key %v: %w", k, err)
	}
	return nil
}

// Slice implements [signpost.Slicer]. A store of one part is the slice "".
func (s *Store) Slice(k signpost.Key) string { return s.parts.of(k).name }
