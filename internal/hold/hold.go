// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package hold keeps leases alive while the work that they were granted for goes on.
package hold

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/signposthq/signpost"
)

const (
	// renewEvery leaves two more tries before a lease ends.
	renewEvery = signpost.LeaseLife / 3
	// Max is how long a lease is renewed. Work that takes longer goes on without one.
	Max = 10 * time.Minute
	// most is how often that is.
	most = int(Max / renewEvery)
	// renewTimeout bounds one renewal.
	renewTimeout = 5 * time.Second
)

// Hold keeps the lease of expensive work alive until the work ends, and gives it back once. The zero Hold holds nothing, and
// is ready for Begin. It is safe for concurrent use, and must not be copied once it has begun.
// Nothing is asked of the limiter while mu is held: the limiter has locks of its own.
type Hold struct {
	limiter *signpost.Limiter

	mu       sync.Mutex
	lease    signpost.Lease
	timer    *time.Timer
	renewals int
	cancel   context.CancelFunc // of the renewal under way, or nil
	ended    bool
	lapsed   bool // and nothing is given back
}

// Begin starts to renew a lease, well before it ends. For the zero Lease, that of cheap work, it does nothing.
func (h *Hold) Begin(l *signpost.Limiter, lease signpost.Lease) {
	if lease.IsZero() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.limiter, h.lease = l, lease
	h.timer = time.AfterFunc(renewEvery, h.renew)
}

// Begun reports whether there was a lease to hold.
func (h *Hold) Begun() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.lease.IsZero()
}

func (h *Hold) renew() {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	h.cancel = cancel
	lease := h.lease
	h.mu.Unlock()

	renewed, err := h.limiter.Renew(ctx, lease)
	if err == nil {
		lease = renewed
	}
	if h.goOn(lease, err) {
		h.limiter.Release(lease)
	}
}

// goOn plans the next renewal after one that came back with a lease. It reports whether the work has ended meanwhile, so that
// the lease is to be given back.
func (h *Hold) goOn(lease signpost.Lease, err error) (ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel = nil
	h.lease = lease
	h.renewals++
	switch {
	case h.ended:
	case errors.Is(err, signpost.ErrLeaseGone), errors.Is(err, errors.ErrUnsupported):
		// There is nothing to renew. The work goes on.
	case h.renewals < most:
		h.timer.Reset(renewEvery)
	}
	return h.ended && !h.lapsed
}

// Lapse is an End that leaves the lease to end by itself: for work that may go on where its end cannot be seen.
func (h *Hold) Lapse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || h.lease.IsZero() {
		return
	}
	h.ended, h.lapsed = true, true
	h.timer.Stop()
	if h.cancel != nil {
		h.cancel()
	}
}

// Neglect renews the lease no more. It ends by itself unless End comes first: for work that should end, and whose end may not be seen.
func (h *Hold) Neglect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease.IsZero() {
		return
	}
	h.timer.Stop()
	h.renewals = most
}

// End gives the lease back. It may be called twice, and does not block. No context bounds it: the work may end
// because its caller has gone.
func (h *Hold) End() {
	if lease := h.finish(); !lease.IsZero() {
		h.limiter.Release(lease)
	}
}

// finish ends the renewals, and returns the lease that is to be given back now, or the zero Lease.
func (h *Hold) finish() signpost.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || h.lease.IsZero() {
		return signpost.Lease{}
	}
	h.ended = true
	h.timer.Stop()
	if h.cancel != nil {
		// A renewal may come back with another lease than it went with: it gives back what it gets.
		h.cancel()
		return signpost.Lease{}
	}
	return h.lease
}
