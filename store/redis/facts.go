// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/signposthq/signpost"
)

const (
	// askEvery is the shortest time between two questions about a key that is full, so a reset is seen within it.
	askEvery = time.Second
	// factShards times maxFacts is how many full keys are known at most. A shard that has more forgets them all, which costs
	// a question each.
	factShards = 16
	maxFacts   = 1024
)

// facts are refusals that this process has seen. What is used of a window only grows until its end, so a take that is above the
// limit by such a count is refused without a word to the server, and a caller that loops on a full key costs it
// one command a second. Leases come and go, so concurrency is never a fact.
type facts struct {
	began  time.Time
	known  atomic.Int64
	shards [factShards]factShard
}

type factShard struct {
	mu   sync.Mutex
	keys map[signpost.Key]*fact
}

type fact struct {
	raw     signpost.Raw // what the server judged
	seconds [signpost.MaxWindows]uint32
	sent    time.Duration // when it was asked, by the monotonic clock: not after the server looked at its own
	asked   time.Duration // when somebody went to ask last
}

func (f *facts) init() {
	f.began = time.Now()
	for i := range f.shards {
		f.shards[i].keys = make(map[signpost.Key]*fact)
	}
}

// now reads the monotonic clock.
func (f *facts) now() time.Duration { return time.Since(f.began) }

func (f *facts) shard(k signpost.Key) *factShard {
	digest := k.Digest()
	return &f.shards[digest[len(digest)-1]%factShards]
}

// refuse reports whether a request is refused by what is known, and decides it then. The instant of the decision is
// at most a round trip ahead of the server's clock: it stops refusing a little early, never late.
func (f *facts) refuse(q *signpost.Request, now time.Duration, d *signpost.Decision) bool {
	if f.known.Load() == 0 {
		return false
	}
	sh := f.shard(q.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	known := sh.keys[q.Key]
	if known == nil || known.seconds != q.Bound.Seconds() {
		return false
	}
	raw := known.raw
	// A caller that was held up after it looked at the clock can meet what was asked later. It is refused by that, and so as of then.
	raw.Now = raw.Now.Add(max(0, now-known.sent))
	signpost.JudgeInto(&raw, q, d)
	switch {
	case !refusedByWindow(d):
		return false
	case now-known.asked >= askEvery:
		known.asked = now
		return false
	}
	return true
}

// learn notes what the server judged for a request that was sent at an instant of the monotonic clock.
func (f *facts) learn(q *signpost.Request, raw *signpost.Raw, d *signpost.Decision, sent time.Duration) {
	if !refusedByWindow(d) {
		f.forget(q.Key)
		return
	}
	sh := f.shard(q.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	known := sh.keys[q.Key]
	if known == nil {
		if len(sh.keys) >= maxFacts {
			f.known.Add(-int64(len(sh.keys)))
			clear(sh.keys)
		}
		known = &fact{}
		sh.keys[q.Key] = known
		f.known.Add(1)
	}
	if known.sent > sent {
		return // somebody who asked later has his answer already
	}
	*known = fact{raw: *raw, seconds: q.Bound.Seconds(), sent: sent, asked: max(sent, known.asked)}
	known.raw.InUse = 0
}

// forget drops what is known of a key.
func (f *facts) forget(k signpost.Key) {
	if f.known.Load() == 0 {
		return
	}
	sh := f.shard(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.keys[k] != nil {
		delete(sh.keys, k)
		f.known.Add(-1)
	}
}

func refusedByWindow(d *signpost.Decision) bool {
	for _, w := range d.Windows() {
		if w.Refused {
			return true
		}
	}
	return false
}
