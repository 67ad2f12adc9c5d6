// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"sync"
)

// committer is the one goroutine in front of an engine.
type committer struct {
	engine engine
	wake   chan struct{}
	ended  chan struct{}
	count  uint64

	mu      sync.Mutex
	filling *batch
}

// batch is what gathers while the one before it is being written.
type batch struct {
	records []record
	done    chan struct{}
	err     error
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

func behindCommitter(open func(string) (engine, error)) func(string) (subject, error) {
	return func(dir string) (subject, error) {
		e, err := open(dir)
		if err != nil {
			return nil, err
		}
		c := &committer{engine: e, wake: make(chan struct{}, 1), ended: make(chan struct{}), filling: newBatch()}
		go c.run()
		return c, nil
	}
}

func (c *committer) run() {
	defer close(c.ended)
	for range c.wake {
		c.mu.Lock()
		b := c.filling
		c.filling = newBatch()
		c.mu.Unlock()
		if len(b.records) > 0 {
			b.err = c.engine.commit(b.records)
			c.count++
		}
		close(b.done)
	}
}

func (c *committer) change(key, number uint64) error {
	var r record
	binary.BigEndian.PutUint64(r.key[:], key*0x9e3779b97f4a7c15) // spread, as digests are
	binary.BigEndian.PutUint64(r.value[:], number)
	c.mu.Lock()
	b := c.filling
	b.records = append(b.records, r)
	first := len(b.records) == 1
	c.mu.Unlock()
	if first {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	<-b.done
	return b.err
}

// batches is asked when nobody changes anything.
func (c *committer) batches() uint64 { return c.count }

func (c *committer) close() error {
	close(c.wake)
	<-c.ended
	return c.engine.close()
}
