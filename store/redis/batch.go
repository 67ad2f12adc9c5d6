// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// maxBatch is how many takes are in one command at most. More save little, and all of them wait for the last.
const maxBatch = 32

// batches put cheap takes of callers that meet into one command: that is little more than half of the work for both sides.
// No take waits for another to come. The first steps back once, for callers that could run already, and leaves with those that came.
type batches struct {
	mu   sync.Mutex
	open *batch // that others may join
	// split says that the server does not take keys of different slots in one command.
	split atomic.Bool
}

// batch is takes that are sent in one command.
type batch struct {
	keys, args []string
	done       chan struct{} // closed when the rest is there; nil for a lone take
	replies    []rueidis.RedisMessage
	err        error
	apart      bool // nothing was sent, and each has to go by itself
}

// join adds a take to the batch that leaves next. Its first is to send it.
func (bs *batches) join(key, arg string) (b *batch, place int) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b = bs.open
	if b == nil {
		b = &batch{}
		bs.open = b
	}
	place = len(b.keys)
	if place == 1 {
		b.done = make(chan struct{})
	}
	b.keys, b.args = append(b.keys, key), append(b.args, arg)
	if len(b.keys) == maxBatch {
		bs.open = nil
	}
	return b, place
}

// shut has nobody join a batch any more.
func (bs *batches) shut(b *batch) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.open == b {
		bs.open = nil
	}
}

// together reports whether takes may go to a server in batches. The keys of a Cluster are in different slots.
func (x *connection) together(sv *server) bool {
	return x.smooth(sv, sv.inside.Load()) && !sv.takes.split.Load() && (*x.client.Load()).Mode() != rueidis.ClientModeCluster
}

// runTogether is run for a cheap take that may go in a batch.
func (x *connection) runTogether(ctx context.Context, sv *server, key, arg string) (rueidis.RedisMessage, error) {
	b, place := sv.takes.join(key, arg)
	if place == 0 {
		runtime.Gosched()
		sv.takes.shut(b)
		if b.done == nil {
			return x.run(ctx, sv, takeScript, b.keys, b.args)
		}
		go x.sendBatch(sv, b)
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return rueidis.RedisMessage{}, x.failed(ctx, sv, ctx.Err())
	}
	if b.apart {
		return x.run(ctx, sv, takeScript, []string{key}, []string{arg})
	}
	err := b.err
	if err == nil {
		if err = b.replies[place].Error(); err == nil {
			return b.replies[place], nil
		}
	}
	return rueidis.RedisMessage{}, x.failed(ctx, sv, err)
}

// sendBatch sends a batch. It has no deadline, as each of its callers has one: it ends with the connection at the latest.
func (x *connection) sendBatch(sv *server, b *batch) {
	defer close(b.done)
	inside := sv.inside.Add(1)
	defer sv.inside.Add(-1)
	if b.apart = !x.smooth(sv, inside); b.apart {
		return
	}
	m, err := takesScript.send(context.Background(), *x.client.Load(), b.keys, b.args).ToMessage()
	if refused, ok := rueidis.IsRedisErr(err); ok && codeOf(refused) == "CROSSSLOT" {
		sv.takes.split.Store(true)
		b.apart = true
		return
	}
	if err == nil {
		if b.replies, err = m.ToArray(); err == nil && len(b.replies) != len(b.keys) {
			err = fmt.Errorf("%d replies to %d takes", len(b.replies), len(b.keys))
		}
	}
	b.err = err
}
