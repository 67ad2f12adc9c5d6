// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
)

// commits is the queue between the takes and the committer. There are at most two batches that are not settled: one
// is filling while the one before it, the flying one, is being written.
type commits struct {
	mu       sync.Mutex
	filling  *batch
	flying   *batch
	deadline time.Time // of the flying batch
	epoch    uint64    // of the committer: one that finds another number here has been replaced
	why      string
	closeErr error // of the engine

	recent   [4]atomic.Pointer[batch] // the last batches, by number
	durable  atomic.Uint64            // the last batch that is durable
	degraded atomic.Bool
	wake     chan struct{}
	watch    *time.Timer
}

// recovered is the batch that what was read at Open counts as.
const recovered = 1

func (c *commits) init() {
	c.durable.Store(recovered)
	c.filling = newBatch(recovered + 1)
	c.recent[c.filling.number%4].Store(c.filling)
	c.wake = make(chan struct{}, 1)
}

// batch is what becomes durable at once. It is the [signpost.Pending] of all who wait for it.
type batch struct {
	number  uint64
	began   time.Time // when the first change came
	entries []*entry  // each once: queued says so
	keys    []key     // of records in recent
	done    chan struct{}
	err     error // set before done is closed
}

func newBatch(number uint64) *batch { return &batch{number: number, done: make(chan struct{})} }

// Done implements [signpost.Pending].
func (b *batch) Done() <-chan struct{} { return b.done }

// Err implements [signpost.Pending].
func (b *batch) Err() error { return b.err }

func (b *batch) settle(err error) {
	b.err = err
	close(b.done)
}

// size is how many records the batch will write.
func (b *batch) size() int { return len(b.entries) + len(b.keys) }

// changed puts an entry into the filling batch, if it is in none. An entry that is not read yet has to
// wait for that: half a count must not replace a whole one. It needs the lock of the entry's shard.
func (s *Store) changed(e *entry) {
	if e.queued || e.load != nil {
		return
	}
	e.queued = true
	s.mu.Lock()
	b := s.filling
	b.entries = append(b.entries, e)
	e.batch = b.number
	s.joined(b)
	s.mu.Unlock()
}

// put writes records of links and returns the promise that they become durable, all of them at once. They
// are in memory when it returns.
func (s *Store) put(records ...record) signpost.Commit {
	return s.commitOf(s.enqueue(records))
}

func (s *Store) enqueue(records []record) (number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.filling
	for _, r := range records {
		s.pending.put(r.key, r.value, b.number)
		b.keys = append(b.keys, r.key)
	}
	s.joined(b)
	return b.number
}

// joined wakes the committer when the first change comes. It needs mu.
func (s *Store) joined(b *batch) {
	if b.began.IsZero() {
		b.began = time.Now()
		s.nudge()
	}
}

func (s *Store) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// notDurable is the Pending of a change while the store is degraded.
var notDurable = func() *batch {
	b := newBatch(0)
	b.settle(signpost.ErrNotDurable)
	return b
}()

// commit returns the promise that the last change of an entry becomes durable. It needs the lock of its shard.
func (s *Store) commit(e *entry) signpost.Commit { return s.commitOf(e.batch) }

func (s *Store) commitOf(number uint64) signpost.Commit {
	if number <= s.durable.Load() {
		return signpost.Commit{}
	}
	if s.degraded.Load() {
		return signpost.CommitOf(notDurable)
	}
	if !s.syncs {
		return signpost.Commit{}
	}
	if b := s.commits.recent[number%4].Load(); b != nil && b.number == number {
		return signpost.CommitOf(b)
	}
	return signpost.Commit{} // durable by now
}

func (s *Store) queue() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.filling.size()
	if s.flying != nil {
		n += s.flying.size()
	}
	return n
}

func (s *Store) cause() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// failed counts a failure of the disk.
func (s *Store) failed(what string, err error) {
	s.failures.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = fmt.Sprintf("%s: %v", what, err)
}

// committer writes batches. One at a time does; one that hangs is replaced, and ends when it finds out.
type committer struct {
	*Store
	mine    uint64   // epoch
	free    []*entry // memory for a batch
	windows [state.MaxLengths]state.Window
	value   []byte
	ordered []*entry
}

// start begins to write, or, after an error, to heal.
func (s *Store) start(err error) {
	s.watch = time.AfterFunc(time.Hour, s.overdue)
	s.watch.Stop()
	c := &committer{Store: s}
	var lost *batch
	if err != nil {
		c.mu.Lock()
		lost = c.takeOffLocked()
		c.degradeLocked(err)
		c.mu.Unlock()
		c.logDegraded(err)
	}
	s.work.Go(func() { c.run(lost) })
	s.work.Go(s.sweepAll)
	go s.lookAfter()
}

// run writes batch after batch until the store is closed. If lost is not nil it is what another committer
// could not write, and the disk has to be healed first.
func (c *committer) run(lost *batch) {
	for {
		if lost != nil && !c.heal(lost) {
			return
		}
		b := c.next()
		if b == nil {
			return
		}
		var ok bool
		if lost, ok = c.flush(b); !ok {
			return
		}
	}
}

// next waits for a batch. It returns nil once the store is closed and everything is written.
func (c *committer) next() *batch {
	for {
		if b := c.takeOff(); b != nil {
			return b
		}
		select {
		case <-c.wake:
		case <-c.closing:
			return c.takeOff()
		}
	}
}

// takeOff makes the filling batch the flying one, and returns it, unless it is empty.
func (c *committer) takeOff() *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.filling.began.IsZero() {
		return nil
	}
	return c.takeOffLocked()
}

func (c *committer) takeOffLocked() *batch {
	b := c.filling
	c.flying = b
	c.deadline = b.began.Add(c.timeout)
	c.filling = newBatch(b.number + 1)
	c.filling.entries, c.free = c.free, nil
	c.commits.recent[c.filling.number%4].Store(c.filling)
	return b
}

// flush makes a batch durable. If that fails it returns the batch: the store is degraded then. It returns false if this
// committer has been replaced.
func (c *committer) flush(b *batch) (lost *batch, ok bool) {
	c.watch.Reset(time.Until(c.deadline))
	err := c.write(b)
	c.watch.Stop()
	c.mu.Lock()
	if c.epoch != c.mine {
		c.mu.Unlock()
		return nil, false
	}
	if err != nil {
		c.degradeLocked(err)
		c.mu.Unlock()
		c.logDegraded(err)
		return b, true
	}
	c.publishLocked(b)
	c.mu.Unlock()
	b.settle(nil)
	c.recycle(b)
	return nil, true
}

// write encodes a batch as it is now and writes it.
func (c *committer) write(b *batch) error {
	w := c.engine.Load().write()
	// In order: that costs the engine less, and a batch of many callers a seventh less altogether. Not in place: another
	// committer may be reading the batch.
	c.ordered = append(c.ordered[:0], b.entries...)
	slices.SortFunc(c.ordered, func(x, y *entry) int { return bytes.Compare(x.id[:], y.id[:]) })
	for _, e := range c.ordered {
		sh := c.shard(&e.id)
		sh.mu.Lock()
		e.queued = false
		c.value = appendWindows(c.value[:0], e.Windows(c.windows[:0], 0))
		sh.mu.Unlock()
		if err := w.put(countKind.of(e.id), c.value); err != nil {
			return err
		}
	}
	for _, n := range b.keys {
		value, _ := c.pending.get(n)
		if err := w.put(n, value); err != nil {
			return err
		}
	}
	return w.commit()
}

// publishLocked says that a batch is durable. It needs mu.
func (c *committer) publishLocked(b *batch) {
	c.flying = nil
	c.durable.Store(b.number)
	c.flushes.Add(1)
	c.records.Add(uint64(b.size()))
}

// recycle forgets what can be read now, and keeps the memory of a batch that is done for the next.
func (c *committer) recycle(b *batch) {
	if len(b.keys) > 0 {
		c.pending.forget(b.number)
	}
	const most = 1 << 16
	if cap(b.entries) <= most {
		clear(b.entries)
		c.free = b.entries[:0]
	}
	b.entries, b.keys = nil, nil
}
