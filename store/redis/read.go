// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/signposthq/signpost"
)

// reading is what is stored for a key at an instant.
type reading struct {
	now    signpost.Instant
	state  string
	leases []signpost.Lease // first to expire first, ended ones included
}

// read asks for the windows of a key, and for its leases if they matter.
func (s *Store) read(ctx context.Context, k signpost.Key, at signpost.Instant, leases bool) (r reading, _ error) {
	keys := []string{s.windowsOf(k)}
	if leases {
		keys = append(keys, s.leasesOf(k))
	}
	m, err := s.call(ctx, k, readScript, keys, []string{string(binary.BigEndian.AppendUint64(nil, uint64(at)))})
	if err != nil {
		return r, err
	}
	fields, err := m.AsStrSlice()
	if err != nil {
		return r, fmt.Errorf("reply is malformed: %w", err)
	}
	if len(fields)%2 != 1 || len(fields[0]) < 8 {
		return r, errors.New("reply is malformed")
	}
	r.now, r.state = signpost.Instant(be64(fields[0])), fields[0][8:]
	if r.now <= 0 || at != 0 && r.now != at {
		return r, fmt.Errorf("reply is for the instant %d", r.now)
	}
	for i := 1; i < len(fields); i += 2 {
		var expires int64
		if _, err := fmt.Sscan(fields[i+1], &expires); err != nil || len(fields[i]) != len(signpost.LeaseID{}) {
			return r, errors.New("reply has a malformed lease")
		}
		r.leases = append(r.leases, signpost.Lease{Key: k, ID: signpost.LeaseID([]byte(fields[i])), Expires: signpost.Instant(expires)})
	}
	return r, checkState(r.state)
}

// alive returns the leases that have not ended.
func (r *reading) alive() []signpost.Lease {
	for i, l := range r.leases {
		if l.Expires > r.now {
			return r.leases[i:]
		}
	}
	return nil
}

// Peek implements [signpost.Store].
func (s *Store) Peek(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	r, err := s.read(ctx, q.Key, q.At, q.Expensive)
	raw := signpost.Raw{Now: r.now}
	if err == nil {
		err = readWindows(&raw, &q, r.state)
	}
	if err != nil {
		return signpost.Decision{}, signpost.Commit{}, fmt.Errorf("peek in redis: %w", err)
	}
	alive, allowed := r.alive(), q.Bound.Concurrent()
	raw.InUse = uint32(len(alive))
	if allowed > 0 && len(alive) >= allowed {
		raw.FreesAt = alive[len(alive)-allowed].Expires
	}
	return signpost.JudgePeek(&raw, &q), signpost.Commit{}, nil
}

// Inspect implements [signpost.Inspector].
func (s *Store) Inspect(ctx context.Context, k signpost.Key, at signpost.Instant) (signpost.Inspection, error) {
	r, err := s.read(ctx, k, at, true)
	if err != nil {
		return signpost.Inspection{}, fmt.Errorf("inspect key %v: %w", k, err)
	}
	in := signpost.Inspection{At: r.now}
	for i := 0; ; i++ {
		w, ok := recordAt(r.state, i)
		if !ok {
			break
		}
		length := time.Duration(w.seconds) * time.Second
		if w.start.Add(length) > r.now {
			in.Counts = append(in.Counts, signpost.Count{Len: length, Start: w.start, Used: w.used})
		}
	}
	slices.SortFunc(in.Counts, func(a, b signpost.Count) int { return cmp.Compare(a.Len, b.Len) })
	latest := r.now.Add(signpost.LeaseLife)
	for _, l := range r.alive() {
		l.Expires = min(l.Expires, latest)
		in.Leases = append(in.Leases, l)
	}
	return in, nil
}
