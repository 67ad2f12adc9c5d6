// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/clock"
	"github.com/signposthq/signpost/store/memory"
)

const (
	// DefaultTimeout is how long a request waits for the store.
	DefaultTimeout = time.Second
	// DefaultFallbackKeys is how many keys the fallback holds.
	DefaultFallbackKeys = 1024
	// ProbeEvery is the shortest time between two probes of a slice.
	ProbeEvery = 100 * time.Millisecond
	// MaxCalls is how many calls may be inside one slice of the store at once.
	MaxCalls = 4096

	// margin is what is left of a caller's deadline for the answer to reach it.
	margin = 5 * time.Millisecond
	// denyWait is the wait that Deny asks for: an outage can be over in the next second.
	denyWait = time.Second
)

// ErrDegraded is wrapped by the errors of Renew, Inspect and Reset when the store did not answer them. Take and
// Peek answer without it.
var ErrDegraded = errors.New("store does not answer")

// Policy says what happens to a request that the store does not answer.
type Policy string

const (
	// Local decides by the same rules over the fallback. It is the default.
	Local Policy = "local"
	// Allow admits without counting. What can never pass, such as any request to a limit of 0, is still
	// refused. The lease that it grants is held nowhere.
	Allow Policy = "allow"
	// Deny refuses and asks to come back in a second. The refusal names no bound.
	Deny Policy = "deny"
)

// Options are what a Store can be told. The zero Options are right for most.
type Options struct {
	// Timeout is how long a request waits for the store, at least 1 ms; 0 means DefaultTimeout. A caller whose deadline is
	// nearer waits until 5 ms before it.
	Timeout time.Duration
	// Cheap and Expensive are the policies for requests of either class; "" means Local.
	Cheap, Expensive Policy
	// FallbackKeys is how many keys the fallback holds before it is cleared; 0 means DefaultFallbackKeys.
	FallbackKeys int
	// Hooks are for logs and metrics.
	Hooks Hooks
}

// Hooks are called as things happen, for logs and metrics. Each may be nil. They must be safe for concurrent use,
// must not block, and must not call the Store.
type Hooks struct {
	// Degraded and Healed mark an outage of a slice: a line in a log each. They alternate for a slice.
	Degraded func(slice string, kind Kind, cause error)
	Healed   func(slice string, after time.Duration)
	// Failed is called for every call that the store failed, probes included: a counter.
	Failed func(slice string, kind Kind, err error)
	// Cleared is called when the fallback was full and has been cleared.
	Cleared func()
	// DebtDropped is called when debt of some keys will never reach the store.
	DebtDropped func(keys int, cause error)
}

// Store is a [signpost.Store] around another one, as the package comment describes. It implements every
// optional interface and returns [errors.ErrUnsupported] for what the inner store lacks.
type Store struct {
	inner            signpost.Store
	settler          signpost.Settler // nil: none
	fallback         *memory.Store
	clock            *clock.Clock
	began            time.Time // where the clocks of the slices count from
	timeout          time.Duration
	cheap, expensive Policy
	hooks            Hooks

	parts  parts
	ledger ledger

	// mu orders the start of goroutines with Close, which waits for them.
	mu      sync.RWMutex
	running sync.WaitGroup
	ctx     context.Context // ends at Close
	stop    context.CancelFunc
}

// New returns a Store around inner, which it owns from then on and closes. It asks inner nothing: a
// store that is unreachable at first is degraded by its first take. The error lists every fault of the options.
func New(inner signpost.Store, o Options) (*Store, error) {
	if inner == nil {
		return nil, errors.New("failopen: no store to wrap; open one, such as redis.Open")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Store{
		inner:     inner,
		clock:     clock.New(),
		began:     time.Now(),
		timeout:   o.Timeout,
		cheap:     o.Cheap,
		expensive: o.Expensive,
		hooks:     o.Hooks.orNothing(),
	}
	if s.timeout == 0 {
		s.timeout = DefaultTimeout
	}
	keys := o.FallbackKeys
	if keys == 0 {
		keys = DefaultFallbackKeys
	}
	s.settler, _ = inner.(signpost.Settler)
	slicer, _ := inner.(signpost.Slicer)
	s.parts.init(slicer)
	s.ledger.init(keys)
	s.fallback = memory.New(memory.Options{MaxKeys: keys, OnClear: s.cleared})
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

func (o *Options) check() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("failopen: "+format, args...))
	}
	if o.Timeout != 0 && o.Timeout < time.Millisecond {
		fault("timeout %v is below 1ms; use 0 for %v", o.Timeout, DefaultTimeout)
	}
	for _, class := range []struct {
		name   string
		policy Policy
	}{{"cheap", o.Cheap}, {"expensive", o.Expensive}} {
		switch class.policy {
		case "", Local, Allow, Deny:
		default:
			fault("policy %q for %s requests is not local, allow or deny", class.policy, class.name)
		}
	}
	if o.FallbackKeys < 0 {
		fault("fallback of %d keys; use 0 for %d", o.FallbackKeys, DefaultFallbackKeys)
	}
	return errors.Join(faults...)
}

func (h Hooks) orNothing() Hooks {
	if h.Degraded == nil {
		h.Degraded = func(string, Kind, error) {}
	}
	if h.Healed == nil {
		h.Healed = func(string, time.Duration) {}
	}
	if h.Failed == nil {
		h.Failed = func(string, Kind, error) {}
	}
	if h.Cleared == nil {
		h.Cleared = func() {}
	}
	if h.DebtDropped == nil {
		h.DebtDropped = func(int, error) {}
	}
	return h
}

// Close implements [signpost.Store]. It closes the inner store and waits, at most the timeout, for the
// calls that are inside it.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.ctx.Err() != nil
	s.stop()
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.fallback.Close()
	err := s.inner.Close()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	late := time.NewTimer(s.timeout)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	}
	return err
}

// start runs f in a goroutine that Close waits for, and reports false after Close.
func (s *Store) start(f func()) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.running.Go(f)
	return true
}

// cleared is called by the fallback while it makes room.
func (s *Store) cleared() {
	if n := s.ledger.drop(); n > 0 {
		s.hooks.DebtDropped(n, errors.New("the fallback was cleared"))
	}
	s.hooks.Cleared()
}
