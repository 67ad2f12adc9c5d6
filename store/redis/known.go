// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signposthq/signpost/link"
)

const (
	// maxKnown is how many links a process remembers; of more, any one is forgotten.
	maxKnown = 65536
	// recheck is how long a record serves without a word from the server. Changes are pushed; this bounds what
	// a push that never came can do.
	recheck = 30 * time.Second
	// readTries is how often a record is read that changes all the while, until it is used and not remembered.
	readTries = 3
	// patience is how long a link that was read before waits for its record to be read again, before it goes on with the one that is there.
	patience = 100 * time.Millisecond
	// maxLate is how many records may be on their way that nobody waits for.
	maxLate = 256
	// restTime is how long the server is left alone after it did not answer, each time.
	restTime = 100 * time.Millisecond
	// noteEvery is how often a link's last use is written.
	noteEvery = time.Minute
	// maxNotes is how many of those may be on their way.
	maxNotes = 1024
)

// known are the records that a process has read.
type known struct {
	began time.Time
	// asleep says that the server did not answer. Nobody waits for it until it has answered a question that nobody waits for.
	asleep atomic.Bool
	fell   chan struct{} // holds one when asleep has become true

	telling sync.Mutex // lets asleep change only as it is told
	lost    func(cause error)
	found   func(after time.Duration)
	since   time.Duration // when it fell asleep

	mu      sync.RWMutex
	late    map[string]struct{} // IDs of records that are read again and that nobody has the patience to wait for any more
	epoch   uint64              // counts the connections that were lost: what was pushed meanwhile, nobody knows
	records map[string]remembered
	lookups map[*lookup]struct{}
}

// lookup is a record being read. What is pushed meanwhile can be newer than the answer.
type lookup struct {
	id       string
	outdated bool
}

type remembered struct {
	record link.Record
	at     time.Time     // the server's clock when it was asked, at the latest
	read   time.Duration // the same instant by the monotonic clock
	epoch  uint64
}

// live returns the record if it is that of a hash and the link has not ended, by the server's clock.
func (r *remembered) live(h link.Hash, now time.Duration) (link.Record, error) {
	if r.record.Hash != h || !r.record.Live(r.at.Add(now-r.read)) {
		return link.Record{}, link.ErrUnknown
	}
	return r.record, nil
}

func (k *known) init() {
	k.began, k.records, k.lookups = time.Now(), make(map[string]remembered), make(map[*lookup]struct{})
	k.fell, k.late = make(chan struct{}, 1), make(map[string]struct{})
	k.lost, k.found = func(error) {}, func(time.Duration) {}
}

func (k *known) now() time.Duration { return time.Since(k.began) }

func (k *known) get(id string) (remembered, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	r, ok := k.records[id]
	return r, ok
}

// sure reports whether a record needs no word from the server.
func (r *remembered) sure(k *known, now time.Duration) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return r.epoch == k.epoch && now-r.read < recheck
}

// look tells that a record is going to be asked for. It has to end.
func (k *known) look(id string) *lookup {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &lookup{id: id}
	k.lookups[r] = struct{}{}
	return r
}

// end ends a lookup that came to nothing.
func (k *known) end(r *lookup) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.lookups, r)
}

// put remembers what was read, and reports whether it did: not if it has changed since it was asked for. It ends the lookup.
func (k *known) put(r *lookup, what remembered) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.lookups, r)
	if r.outdated {
		return false
	}
	if len(k.records) >= maxKnown {
		for any := range k.records {
			delete(k.records, any)
			break
		}
	}
	what.epoch = k.epoch
	k.records[r.id] = what
	return true
}

// forget drops a record that has changed. It does not serve again before it was read, whatever happens to the server.
func (k *known) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for r := range k.lookups {
		r.outdated = r.outdated || r.id == id
	}
	delete(k.records, id)
}

// doubt has every record read again before it serves, if the server can be read.
func (k *known) doubt() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for r := range k.lookups {
		r.outdated = true
	}
	k.epoch++
}

// gone ends a lookup of a record that was not there when it was asked for. What was read of it before never serves again, whatever was pushed
// meanwhile.
func (k *known) gone(r *lookup, asked time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.lookups, r)
	if k.records[r.id].read <= asked {
		delete(k.records, r.id)
	}
}

// again reports whether a record that serves is to be read again, and how long to wait for it: not at all once somebody has waited in
// vain for any. It is read nevertheless, as a registry that is far away never answers in time.
func (k *known) again(id string) (wait time.Duration, ask bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if _, is := k.late[id]; is || len(k.late) >= maxLate {
		return 0, false
	}
	if len(k.late) > 0 {
		return 0, true
	}
	return patience, true
}

// isLate tells that nobody waits for a record any more, until found says that it is there.
func (k *known) isLate(id string, found <-chan answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, is := k.late[id]; is {
		return
	}
	k.late[id] = struct{}{}
	go func() {
		<-found
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.late, id)
	}()
}

// rest leaves the server alone, because of an error.
func (k *known) rest(cause error) {
	k.telling.Lock()
	defer k.telling.Unlock()
	if k.asleep.Swap(true) {
		return
	}
	k.since = k.now()
	k.lost(cause)
	select {
	case k.fell <- struct{}{}:
	default: // it fell before, and wake goes on
	}
}

// rested ends rest.
func (k *known) rested() {
	k.telling.Lock()
	defer k.telling.Unlock()
	k.asleep.Store(false)
	k.found(k.now() - k.since)
}

// wake asks a server that did not answer until it does, whenever that happens, until Close.
func (l *Links) wake() {
	for {
		select {
		case <-l.known.fell:
		case <-l.ctx.Done():
			return
		}
		for l.known.asleep.Load() {
			select {
			case <-time.After(restTime):
			case <-l.ctx.Done():
				return
			}
			if _, _, err := l.read(l.ctx, []string{"check"}); err == nil {
				l.known.rested()
			}
		}
	}
}

// notes are last uses of links on their way to the server.
type notes struct {
	queue chan note

	mu   sync.Mutex
	last map[link.Hash]time.Time
}

type note struct {
	hash link.Hash
	at   time.Time
}

func (n *notes) init() { n.queue, n.last = make(chan note, maxNotes), make(map[link.Hash]time.Time) }

// note writes notes down, until Close.
func (l *Links) note() {
	for {
		select {
		case one := <-l.notes.queue:
			id := one.hash.ID()
			l.call(l.ctx, seenScript, []string{l.recordKey(id), l.seenKey(id)}, string(one.hash[:]), strconv.FormatInt(one.at.UnixMilli(), 10))
		case <-l.ctx.Done():
			return
		}
	}
}

// Seen implements [link.Registry].
func (l *Links) Seen(h link.Hash, at time.Time) {
	n := &l.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	if last, ok := n.last[h]; ok && at.Sub(last) < noteEvery {
		return
	}
	select {
	case n.queue <- note{h, at}:
	default:
		return
	}
	if len(n.last) >= maxKnown {
		clear(n.last)
	}
	n.last[h] = at
}
