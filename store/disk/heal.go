// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"fmt"
	"time"

	"github.com/signposthq/signpost"
)

const (
	// A store that is degraded tries to heal after firstTry, and then after twice as long each time, up to lastTry.
	firstTry = 50 * time.Millisecond
	lastTry  = 2 * time.Second
	// settled is how few changes may be left to write when a store is healthy again: a batch like any other.
	settled = 1000
	// maxLeft is how many instances of the engine may hang. Each holds some 20 MiB at most.
	maxLeft = 4
)

// errReplaced is why the fence of an instance is shut that was given up.
var errReplaced = errors.New("another instance of the storage engine is in its place")

// overdue runs when a batch may have been flying for too long. The committer that hangs with it is left behind, with the
// instance of the engine; another one goes on.
func (s *Store) overdue() {
	s.mu.Lock()
	b := s.flying
	if b == nil || s.degraded.Load() || time.Now().Before(s.deadline) {
		s.mu.Unlock()
		return
	}
	s.epoch++
	c := &committer{Store: s, mine: s.epoch}
	err := fmt.Errorf("write: no answer from the disk within %v", s.timeout)
	s.degradeLocked(err)
	s.mu.Unlock()
	s.engine.Load().fence.shut(errReplaced)
	s.logDegraded(err)
	s.work.Go(func() { c.run(b) })
}

// degradeLocked gives up, for now, on all that is not durable. What fills goes on filling, with nobody waiting
// for it. It needs mu.
func (s *Store) degradeLocked(err error) {
	s.failures.Add(1)
	s.why = fmt.Sprintf("commit: %v", err)
	s.degraded.Store(true)
	lost, old := s.flying, s.filling
	s.flying = nil
	s.filling = newBatch(old.number + 1)
	s.filling.began, s.filling.entries, s.filling.keys = old.began, old.entries, old.keys
	s.commits.recent[s.filling.number%4].Store(s.filling)
	lost.settle(signpost.ErrNotDurable)
	old.settle(signpost.ErrNotDurable)
}

func (s *Store) logDegraded(err error) {
	s.log.Error("the store is degraded: counts stand in memory and are not durable", "err", err)
}

// heal writes down all that is not durable, with a new instance of the engine, as often as it takes. It returns false if the store
// is closed before that succeeds.
func (c *committer) heal(lost *batch) bool {
	began := time.Now()
	for wait := firstTry; ; wait = min(2*wait, lastTry) {
		if lost != nil {
			c.requeue(lost)
		}
		var err error
		if lost, err = c.rewrite(); err == nil {
			break
		}
		c.failed("heal", err)
		select {
		case <-c.closing:
			if lost != nil {
				c.requeue(lost)
			}
			return false
		case <-time.After(wait):
		}
	}
	c.mu.Lock()
	if !c.filling.began.IsZero() {
		c.filling.began = time.Now() // nobody has waited for it
	}
	c.degraded.Store(false)
	c.mu.Unlock()
	c.log.Info("the store is healthy again: all counts are durable", "after", time.Since(began).Round(time.Millisecond).String())
	return true
}

// requeue puts what a batch could not write into the filling one.
func (c *committer) requeue(lost *batch) {
	var entries []*entry // not in place: a committer that was left behind may be reading the batch
	for _, e := range lost.entries {
		sh := c.shard(&e.id)
		sh.mu.Lock()
		if !e.queued { // else it is there already
			e.queued = true
			entries = append(entries, e)
		}
		sh.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.filling.entries = append(c.filling.entries, entries...)
	c.filling.keys = append(c.filling.keys, lost.keys...)
	if c.filling.began.IsZero() {
		c.filling.began = lost.began
	}
}

// rewrite opens the engine anew and writes batches until few changes are left. It returns the batch that
// it could not write.
func (c *committer) rewrite() (lost *batch, err error) {
	if err := c.reopen(); err != nil {
		return nil, err
	}
	for {
		b := c.takeOff()
		if b == nil {
			return nil, nil
		}
		if err := c.write(b); err != nil {
			c.mu.Lock()
			c.flying = nil
			c.mu.Unlock()
			b.settle(signpost.ErrNotDurable)
			return b, err
		}
		c.mu.Lock()
		c.publishLocked(b)
		c.mu.Unlock()
		b.settle(nil)
		few := b.size() <= settled
		c.recycle(b)
		if few {
			return nil, nil
		}
	}
}

// reopen puts a new instance of the engine in the place of the old one, which can be read until then.
func (c *committer) reopen() error {
	old := c.engine.Load()
	old.fence.shut(errReplaced)
	old.fence.settle()
	if n := c.left.Load(); n >= maxLeft {
		return fmt.Errorf("%d instances of the storage engine hang", n)
	}
	if err := c.place.check(); err != nil {
		return err
	}
	e, err := c.openEngine(false)
	if err != nil {
		return err
	}
	c.engine.Store(e)
	c.left.Add(1)
	go func() {
		old.close()
		c.left.Add(-1)
	}()
	return nil
}
