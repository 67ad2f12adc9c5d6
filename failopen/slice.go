// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signposthq/signpost"
)

// maxSlices is how many slices are told apart. Names of nodes come and go with the nodes, so that healthy ones are
// forgotten when there are more.
const maxSlices = 1024

// slice is a part of the inner store that fails on its own.
type slice struct {
	name string
	// up is the period that the slice has been healthy for; nil while it is degraded.
	up atomic.Pointer[period]
	// last is the last key that met a failure. The slice is probed with its tag, at its home.
	last  atomic.Pointer[signpost.Key]
	zero  atomic.Int64 // the slice's clock as the Store began, in Unix milliseconds; 0: not known yet
	calls atomic.Int64 // inside the store
}

// period is one healthy time of a slice. Which period a call began in tells whether its failure still means anything.
type period struct{ down chan struct{} } // closed when the slice degrades

func newSlice(name string) *slice {
	sl := &slice{name: name}
	sl.up.Store(&period{down: make(chan struct{})})
	return sl
}

func (sl *slice) saw(k signpost.Key) {
	last := k // of its own, so that k stays on the stack of who asks
	sl.last.Store(&last)
}

// parts are the slices of one store.
type parts struct {
	slicer signpost.Slicer // nil: one slice
	rest   *slice          // the one, or what all names beyond maxSlices share
	mu     sync.RWMutex
	named  map[string]*slice
}

func (x *parts) init(slicer signpost.Slicer) {
	x.slicer, x.rest, x.named = slicer, newSlice(""), make(map[string]*slice)
}

// of returns the slice that serialises a key.
func (x *parts) of(k signpost.Key) *slice {
	if x.slicer == nil {
		return x.rest
	}
	name := x.slicer.Slice(k)
	x.mu.RLock()
	sl := x.named[name]
	x.mu.RUnlock()
	if sl != nil {
		return sl
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if sl = x.named[name]; sl != nil {
		return sl
	}
	if len(x.named) >= maxSlices {
		for n, old := range x.named {
			if old.up.Load() != nil {
				delete(x.named, n)
			}
		}
	}
	if len(x.named) >= maxSlices {
		return x.rest
	}
	sl = newSlice(name)
	x.named[name] = sl
	return sl
}

// probeKey returns the reserved key of a slice, and whether there is still a slice to probe: the map of
// a store can change, and then the keys of a slice are elsewhere.
func (x *parts) probeKey(sl *slice) (signpost.Key, bool) {
	last := sl.last.Load()
	k := signpost.RestoreKey(probeDigest, last.Tag()).In(last.Home())
	return k, sl == x.rest || x.slicer.Slice(k) == sl.name
}

// fail tells of a call for k, begun in the period up, that the store failed. The first in its period degrades the slice.
func (s *Store) fail(sl *slice, up *period, k signpost.Key, err error) {
	sl.saw(k)
	first := sl.up.CompareAndSwap(up, nil)
	if first {
		close(up.down)
	}
	kind := kindOf(err)
	s.hooks.Failed(sl.name, kind, err)
	if first {
		s.hooks.Degraded(sl.name, kind, err)
		s.start(func() { s.heal(sl) })
	}
}

var (
	probeDigest = signpost.KeyOf("signpost probe", "").Digest()
	// probeBound always admits, so that a probe always writes: a server that cannot write fails it. It is
	// forgotten within a second.
	probeBound = func() signpost.Bound {
		b, err := signpost.NewBound(0, signpost.Window{Len: signpost.MinWindowLen, Limit: signpost.MaxLimit})
		if err != nil {
			panic(err)
		}
		return b
	}()
)

// heal probes a degraded slice until it is healthy.
func (s *Store) heal(sl *slice) {
	began := time.Now()
	timer := time.NewTimer(ProbeEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			return
		}
		k, there := s.parts.probeKey(sl)
		if !there {
			break // nothing is judged by this slice any more
		}
		err := s.probe(k)
		if err == nil || errors.Is(err, signpost.ErrUnknownHome) {
			break
		}
		if s.ctx.Err() != nil {
			return
		}
		s.hooks.Failed(sl.name, kindOf(err), err)
		timer.Reset(ProbeEvery)
	}
	s.hooks.Healed(sl.name, time.Since(began))
	sl.up.Store(&period{down: make(chan struct{})})
	s.settleSoon()
}

// probe asks the inner store itself, in the goroutine that heals: while it does not return there is no other probe.
func (s *Store) probe(k signpost.Key) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	c := s.take(signpost.Request{Key: k, Bound: probeBound})
	_, err := c.guarded(ctx)
	if err == nil {
		err = ctx.Err() // an answer that comes too late is none
	}
	if err != nil {
		return fmt.Errorf("probe store: %w", err)
	}
	return nil
}
