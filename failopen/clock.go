// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen

import (
	"time"

	"github.com/signposthq/signpost"
)

// drift is how far the clock of a slice may seem to be off before it is set again, in milliseconds. How long an answer travels varies.
const drift = 100

// learn notes the instant of a decision that the store has just made by its own clock.
func (s *Store) learn(k signpost.Key, at signpost.Instant) {
	sl := s.parts.of(k)
	zero := int64(at) - time.Since(s.began).Milliseconds()
	if off := zero - sl.zero.Load(); off > drift || off < -drift {
		sl.zero.Store(zero)
	}
}

// instant returns at or, if that is zero, the instant of what is decided here instead of by the store. It is that of the store's
// clock, carried on by the monotonic one since the store told it, so that a process whose own clock is wrong judges an outage in the
// windows of the store, and owes to those. Before the store has told, it is the process's.
func (s *Store) instant(k signpost.Key, at signpost.Instant) signpost.Instant {
	if at != 0 {
		return at
	}
	if zero := s.parts.of(k).zero.Load(); zero != 0 {
		return signpost.Instant(zero + time.Since(s.began).Milliseconds())
	}
	return s.clock.Now()
}
