// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/signposthq/signpost"
)

const (
	// maxReleases is how many leases may be on their way back; more are left to expire.
	maxReleases = 8192
	// releaseBatch is how many go in one pipeline.
	releaseBatch = 256
	// releaseRetry is how long to wait before trying again those that did not arrive.
	releaseRetry = 100 * time.Millisecond
)

// Renew implements [signpost.Renewer].
func (s *Store) Renew(ctx context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	args := []string{string(binary.BigEndian.AppendUint64(nil, uint64(at))), string(l.ID[:])}
	m, err := s.call(ctx, l.Key, renewScript, []string{s.leasesOf(l.Key)}, args)
	if err != nil {
		return signpost.Lease{}, fmt.Errorf("renew lease: %w", err)
	}
	expires, err := m.AsInt64()
	switch {
	case err != nil:
		return signpost.Lease{}, fmt.Errorf("renew lease: reply is malformed: %w", err)
	case expires == 0:
		return signpost.Lease{}, signpost.ErrLeaseGone
	}
	l.Expires = signpost.Instant(expires)
	return l, nil
}

// Release implements [signpost.Store]. The lease goes back in the background, in a batch with others. While
// the server is away, it is tried until it would have expired anyway.
func (s *Store) Release(l signpost.Lease) {
	if l.IsZero() || s.closed.Load() {
		return
	}
	select {
	case s.releases.queue <- release{l, time.Now().Add(signpost.LeaseLife)}:
	default:
	}
}

type release struct {
	lease signpost.Lease
	ends  time.Time // when it has expired, whatever happened
}

// releases are the leases on their way back.
type releases struct {
	store *Store
	queue chan release
	ctx   context.Context
	stop  context.CancelFunc
	ended sync.WaitGroup
}

func (r *releases) init(s *Store) {
	r.store, r.queue = s, make(chan release, maxReleases)
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.ended.Go(r.work)
}

// close sends what is queued, once and as far as a second goes, and ends the work.
func (r *releases) close() {
	r.stop()
	r.ended.Wait()
}

func (r *releases) work() {
	var late []release // did not arrive
	var retry <-chan time.Time
	for {
		batch, queue := late, r.queue
		if len(late) > 0 {
			queue = nil // those first, and not more often than that
		}
		select {
		case one := <-queue:
			batch = append(batch, one)
		case <-retry:
		case <-r.ctx.Done():
			last, cancel := context.WithTimeout(context.Background(), answerTimeout) // for all batches, not for each
			defer cancel()
			for batch = r.more(batch); len(batch) > 0 && r.send(last, batch) == nil; batch = r.more(nil) {
			}
			return
		}
		late, retry = r.send(context.Background(), r.more(batch)), nil
		if len(late) > 0 {
			retry = time.After(releaseRetry)
		}
	}
}

// more fills a batch with what is queued.
func (r *releases) more(batch []release) []release {
	for len(batch) < releaseBatch {
		select {
		case one := <-r.queue:
			batch = append(batch, one)
		default:
			return batch
		}
	}
	return batch
}

// send gives leases back in one pipeline, within a second, and returns those that have to be tried again.
func (r *releases) send(ctx context.Context, batch []release) (late []release) {
	c, err := r.store.get()
	if err != nil {
		return r.still(batch)
	}
	// Leases of one key go in one command.
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var (
		cmds  []rueidis.Completed
		parts [][]release
		index = map[signpost.Key]int{}
	)
	for _, one := range batch {
		i, ok := index[one.lease.Key]
		if !ok {
			i = len(parts)
			index[one.lease.Key] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], one)
	}
	for _, part := range parts {
		ids := make([]string, len(part))
		for i, one := range part {
			ids[i] = string(one.lease.ID[:])
		}
		cmds = append(cmds, c.B().Zrem().Key(r.store.leasesOf(part[0].lease.Key)).Member(ids...).Build())
	}
	for i, result := range c.DoMulti(ctx, cmds...) {
		if result.Error() != nil {
			late = append(late, r.still(parts[i])...)
		}
	}
	return late
}

// still returns those that have not expired in the meantime.
func (r *releases) still(batch []release) (late []release) {
	now := time.Now()
	for _, one := range batch {
		if now.Before(one.ends) {
			late = append(late, one)
		}
	}
	return late
}
