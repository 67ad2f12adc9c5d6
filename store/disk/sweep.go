// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"context"
	"slices"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
)

const (
	// firstSweep and sweepEvery are how long what has ended stays on the disk.
	firstSweep = time.Minute
	sweepEvery = time.Hour
	// sweepAtOnce is how many keys are looked at before the sweep rests for sweepRest.
	sweepAtOnce = 1000
	sweepRest   = 20 * time.Millisecond
)

// sweepAll removes what has ended from the disk, from time to time, until the store is closed.
func (s *Store) sweepAll() {
	next := time.NewTimer(firstSweep)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			s.sweep()
			next.Reset(sweepEvery)
		case <-s.closing:
			return
		}
	}
}

// sweep looks through all that is stored, slowly. What cannot be read is left to the next sweep.
func (s *Store) sweep() {
	s.sweepLinks(time.Now())
	horizon := s.horizon()
	seen := uint64(0)
	for from := (id{}); ; {
		var ended []id
		n := 0
		err := s.engine.Load().scan(countKind, from, func(i id, value []byte) (bool, error) {
			n++
			from = i
			var buf [state.MaxLengths]state.Window
			windows, err := parseWindows(buf[:0], value)
			if err == nil && !slices.ContainsFunc(windows, func(w state.Window) bool { return w.End() > horizon }) {
				ended = append(ended, i)
			}
			return n < sweepAtOnce, nil
		})
		if err != nil {
			s.failed("sweep", err)
			return
		}
		seen += uint64(n - len(ended))
		for _, i := range ended {
			s.expire(i, horizon)
		}
		if n < sweepAtOnce || !from.advance() {
			s.stored.Store(seen)
			return
		}
		select {
		case <-time.After(sweepRest):
		case <-s.closing:
			return
		}
	}
}

// expire forgets a key that has ended, as a reset does, after a read of it as before a take: only the committer
// changes what is stored, so nothing that was charged since can be lost.
func (s *Store) expire(i id, horizon signpost.Instant) {
	sh := s.shard(&i)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.closed.Load() || s.degraded.Load() || sh.keys[i] != nil {
		return
	}
	e := s.fetch(context.Background(), sh, i)
	if e.load == nil && e.Ended(horizon) {
		e.State = state.State{}
		s.changed(e)
	}
}

// horizon is the latest instant by which a key can be said to have ended.
func (s *Store) horizon() (latest signpost.Instant) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		latest = max(latest, sh.horizon(s))
		sh.mu.Unlock()
	}
	return latest
}

// advance makes i the id behind it, and reports false if there is none.
func (i *id) advance() bool {
	for n := len(i) - 1; n >= 0; n-- {
		if i[n]++; i[n] != 0 {
			return true
		}
	}
	return false
}

// sweepLinks removes links that ended long ago, and what else is known of them.
func (s *Store) sweepLinks(now time.Time) {
	var gone []record
	err := s.scan(linkKind, id{}, func(i id, value []byte) (bool, error) {
		if r, err := parseLink(i, value); err == nil && endedLongAgo(&r, now) {
			gone = append(gone, record{key: linkKind.of(i)}, record{key: seenKind.of(i)}, record{key: tryKind.of(i)})
		}
		return true, nil
	})
	if err != nil {
		s.failed("sweep", err)
		return
	}
	s.links.forget(gone)
}
