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
	if !l.IsZero() {
		s.releases.add(s.nodes.of(slotOf(l.Key)), release{l, time.Now().Add(signpost.LeaseLife)})
	}
}

type release struct {
	lease signpost.Lease
	ends  time.Time // when it has expired, whatever happened
}

// releases are the leases on their way back. Those of one server wait for no other.
type releases struct {
	store *Store
	// ctx ends a second after closing, which is closed by close.
	ctx     context.Context
	stop    context.CancelFunc
	closing chan struct{}
	ended   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	count  int                   // of all, those that are being sent included
	queues map[*server][]release // of servers that somebody sends to: what waits until that is done
}

func (r *releases) init(s *Store) {
	r.store, r.closing, r.queues = s, make(chan struct{}), make(map[*server][]release)
	r.ctx, r.stop = context.WithCancel(context.Background())
}

// close has what is queued sent, once and as far as a second goes.
func (r *releases) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	close(r.closing)
	late := time.AfterFunc(answerTimeout, r.stop)
	defer late.Stop()
	r.ended.Wait()
	r.stop()
}

func (r *releases) add(sv *server, one release) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.count == maxReleases {
		return
	}
	r.count++
	queue, sending := r.queues[sv]
	r.queues[sv] = append(queue, one)
	if !sending {
		r.ended.Go(func() { r.work(sv) })
	}
}

// work sends what is queued for a server, until that is nothing.
func (r *releases) work(sv *server) {
	var batch, late []release
	for {
		batch = r.next(sv, len(batch)-len(late), late)
		if len(batch) == 0 {
			return
		}
		last := false // try
		select {
		case <-r.closing:
			last = true
		default:
		}
		if late = r.send(batch); len(late) == 0 {
			continue
		}
		if last {
			return
		}
		select {
		case <-time.After(releaseRetry):
		case <-r.closing:
		}
	}
}

// next returns the next batch: those that did not arrive, and others as far as there is room. Some are done with.
func (r *releases) next(sv *server, done int, late []release) []release {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count -= done
	queue := r.queues[sv]
	n := min(releaseBatch-len(late), len(queue))
	batch := append(late, queue[:n]...)
	r.queues[sv] = queue[n:]
	if len(batch) == 0 {
		delete(r.queues, sv)
	}
	return batch
}

// send gives leases back in one pipeline, within a second, and returns those that have to be tried again.
func (r *releases) send(batch []release) (late []release) {
	c, err := r.store.get()
	if err != nil {
		return r.still(batch)
	}
	// Leases of one key go in one command.
	ctx, cancel := context.WithTimeout(r.ctx, answerTimeout)
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
