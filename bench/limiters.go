// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/memory"
)

// The names of our own rows, which the report compares.
const (
	Signpost          = "signpost"
	SignpostKeyOf     = "signpost, KeyOf each call"
	SignpostExpensive = "signpost, expensive + release"
	Reference         = "bare sharded counter"
)

// Limiters returns every subject, ours first.
func Limiters() []Limiter {
	own := []Limiter{
		{Name: Signpost, How: "one take for all windows, key computed once per link", New: newSignpost},
		{Name: SignpostKeyOf, How: "the same, and SHA-256 of the id at every take", New: newSignpostKeyOf},
		{Name: SignpostExpensive, How: "a take that is granted a lease under a random id, and its release", New: newSignpostExpensive},
		{Name: Reference, How: "64 mutexes, 64 maps, two counters: nothing but the counting", New: newReference},
	}
	return append(own, rivals...)
}

// Find returns the limiter of that name.
func Find(name string) (Limiter, error) {
	for _, l := range Limiters() {
		if l.Name == name {
			return l, nil
		}
	}
	return Limiter{}, fmt.Errorf("find limiter: there is none called %q", name)
}

// memoryLimiter holds two million keys, so that the measurement of a million is not one of making room, and allows
// the most concurrency, so that no number of processors is refused.
func memoryLimiter(ws []signpost.Window) (*signpost.Limiter, signpost.Bound) {
	bound, err := signpost.NewBound(signpost.MaxConcurrent, ws...)
	if err != nil {
		panic(err)
	}
	return signpost.New(memory.New(memory.Options{MaxKeys: 2_000_000}), signpost.Options{}), bound
}

func newSignpost(ws []signpost.Window) Take {
	limiter, bound := memoryLimiter(ws)
	ctx := context.Background()
	return func(c *Caller) bool {
		d, err := limiter.Take(ctx, signpost.Request{Key: c.Key, Bound: bound})
		return err == nil && d.Admitted
	}
}

func newSignpostKeyOf(ws []signpost.Window) Take {
	limiter, bound := memoryLimiter(ws)
	ctx := context.Background()
	return func(c *Caller) bool {
		d, err := limiter.Take(ctx, signpost.Request{Key: signpost.KeyOf(namespace, c.ID), Bound: bound})
		return err == nil && d.Admitted
	}
}

func newSignpostExpensive(ws []signpost.Window) Take {
	limiter, bound := memoryLimiter(ws)
	ctx := context.Background()
	return func(c *Caller) bool {
		d, err := limiter.Take(ctx, signpost.Request{Key: c.Key, Bound: bound, Expensive: true})
		limiter.Release(d.Lease)
		return err == nil && d.Admitted
	}
}

// reference is the least that an exact limiter of two windows can do: it decides and charges under one lock and
// says nothing but yes or no. It is a floor to compare with, not a limiter to use.
type reference struct {
	seed    maphash.Seed
	windows [2]signpost.Window
	n       int
	shards  [64]referenceShard
}

type referenceShard struct {
	mu   sync.Mutex
	keys map[string]*[2]referenceCount
	_    [48]byte // to a cache line
}

type referenceCount struct {
	start int64
	used  uint32
}

func newReference(ws []signpost.Window) Take {
	r := &reference{seed: maphash.MakeSeed(), n: len(ws)}
	copy(r.windows[:], ws)
	for i := range r.shards {
		r.shards[i].keys = map[string]*[2]referenceCount{}
	}
	return r.take
}

func (r *reference) take(c *Caller) bool {
	now := time.Now().UnixMilli()
	sh := &r.shards[maphash.String(r.seed, c.ID)%uint64(len(r.shards))]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	counts := sh.keys[c.ID]
	if counts == nil {
		counts = &[2]referenceCount{}
		sh.keys[c.ID] = counts
	}
	for i := range r.n {
		length := r.windows[i].Len.Milliseconds()
		if start := now - now%length; counts[i].start != start {
			counts[i] = referenceCount{start: start}
		}
		if counts[i].used >= r.windows[i].Limit {
			return false
		}
	}
	for i := range r.n {
		counts[i].used++
	}
	return true
}
