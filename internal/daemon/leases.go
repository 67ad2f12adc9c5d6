// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/signposthq/signpost"
)

// leaseCounter is a store around a store that knows how many leases are out: what it saw
// granted, less what was given back and what has expired.
type leaseCounter struct {
	signpost.Store

	mu    sync.Mutex
	alive map[signpost.LeaseID]out
	sweep int // the size at which expired leases are dropped
}

// out is a lease that is out. Its expiry is an instant of the store's clock, which can be another machine's; ends is when that
// will be on this one's monotonic clock.
type out struct {
	key  signpost.Key
	ends time.Time
}

func newLeaseCounter(s signpost.Store) *leaseCounter {
	return &leaseCounter{Store: s, alive: map[signpost.LeaseID]out{}}
}

// Take implements [signpost.Store].
func (c *leaseCounter) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	d, commit, err := c.Store.Take(ctx, q)
	if err == nil && !d.Lease.IsZero() {
		c.note(d.Lease, d.Lease.Expires.Sub(d.At))
	}
	return d, commit, err
}

// Release implements [signpost.Store].
func (c *leaseCounter) Release(l signpost.Lease) {
	c.mu.Lock()
	if c.alive[l.ID].key == l.Key { // else the store releases nothing
		delete(c.alive, l.ID)
	}
	c.mu.Unlock()
	c.Store.Release(l)
}

// Renew implements [signpost.Renewer].
func (c *leaseCounter) Renew(ctx context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	r, ok := c.Store.(signpost.Renewer)
	if !ok {
		return signpost.Lease{}, errors.ErrUnsupported
	}
	renewed, err := r.Renew(ctx, l, at)
	if err == nil {
		c.note(renewed, signpost.LeaseLife)
	}
	return renewed, err
}

// Inspect implements [signpost.Inspector].
func (c *leaseCounter) Inspect(ctx context.Context, k signpost.Key, at signpost.Instant) (signpost.Inspection, error) {
	if s, ok := c.Store.(signpost.Inspector); ok {
		return s.Inspect(ctx, k, at)
	}
	return signpost.Inspection{}, errors.ErrUnsupported
}

// Reset implements [signpost.Resetter]. The leases of the key go with its counts.
func (c *leaseCounter) Reset(ctx context.Context, k signpost.Key) error {
	s, ok := c.Store.(signpost.Resetter)
	if !ok {
		return errors.ErrUnsupported
	}
	err := s.Reset(ctx, k)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		maps.DeleteFunc(c.alive, func(_ signpost.LeaseID, o out) bool { return o.key == k })
	}
	return err
}

// Settle implements [signpost.Settler].
func (c *leaseCounter) Settle(ctx context.Context, k signpost.Key, at signpost.Instant, counts []signpost.Count) error {
	if s, ok := c.Store.(signpost.Settler); ok {
		return s.Settle(ctx, k, at, counts)
	}
	return errors.ErrUnsupported
}

func (c *leaseCounter) note(l signpost.Lease, life time.Duration) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alive[l.ID] = out{l.Key, now.Add(life)}
	// Twice what was alive at the last sweep: each lease is looked at a constant number of times.
	if len(c.alive) > c.sweep {
		c.dropExpiredLocked(now)
		c.sweep = max(1024, 2*len(c.alive))
	}
}

func (c *leaseCounter) dropExpiredLocked(now time.Time) {
	maps.DeleteFunc(c.alive, func(_ signpost.LeaseID, o out) bool { return !now.Before(o.ends) })
}

// count returns how many leases are out.
func (c *leaseCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropExpiredLocked(time.Now())
	return len(c.alive)
}
