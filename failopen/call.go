// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/signposthq/signpost"
)

// What became of a call. It moves from waiting to sent to answered, unless the caller gives it up first.
const (
	waiting int32 = iota // for what the key owes
	sent
	answered
	abandoned
)

var (
	// errNotSent says that the store was not asked, so that it cannot have counted.
	errNotSent = fmt.Errorf("%w: it was not asked: %w", ErrDegraded, signpost.ErrNotCharged)
	// errNoAnswer says that the store was asked and may have counted.
	errNoAnswer = fmt.Errorf("%w in time", ErrDegraded)
	errCrowded  = fmt.Errorf("%d calls are inside the store already", MaxCalls)
)

// call is one call into the inner store. It runs in a goroutine of its own under the store's timeout, not the
// caller's, so that nothing that the store does holds the caller, and nothing that the caller does looks like an outage.
type call[T any] struct {
	do func(context.Context) (T, error)
	// lost, if not nil, is told what the store replied when nobody can use that.
	lost func(T, error)
	// settles says that what the key owes has to be sent first.
	settles bool

	phase atomic.Int32
	done  chan struct{} // closed when answered
	value T
	err   error
	broke bool // err is a failure of the store, which degrades the slice
}

// ask makes a call for a key and waits until it is answered, its slice is degraded, or the caller has to know. The error
// is the inner store's if that is an answer, wraps ErrDegraded if there is none, or is that of a cancelled caller.
func ask[T any](ctx context.Context, s *Store, k signpost.Key, c *call[T]) (T, error) {
	var none T
	if s.ctx.Err() != nil {
		return none, signpost.ErrClosed
	}
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return none, err
	}
	sl := s.parts.of(k)
	up := sl.up.Load()
	if up == nil {
		sl.saw(k)
		return none, errNotSent
	}
	var short <-chan time.Time // before the caller's own deadline
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline) - margin
		if left <= 0 {
			return none, errNotSent
		}
		if left < s.timeout {
			timer := time.NewTimer(left)
			defer timer.Stop()
			short = timer.C
		}
	}
	if sl.calls.Add(1) > MaxCalls {
		sl.calls.Add(-1)
		s.fail(sl, up, k, errCrowded)
		return none, errNotSent
	}
	c.done = make(chan struct{})
	if !s.start(func() { c.run(context.WithoutCancel(ctx), s, k, sl, up) }) {
		sl.calls.Add(-1)
		return none, signpost.ErrClosed
	}
	select {
	case <-c.done:
	case <-up.down:
	case <-short:
	case <-ctx.Done():
	}
	switch c.phase.Swap(abandoned) {
	case answered:
		if c.broke {
			<-up.down // in a moment: nobody learns of a failure before its slice is degraded
			return none, fmt.Errorf("%w: %w", ErrDegraded, c.err)
		}
		return c.value, c.err
	case waiting:
		return none, cancelledOr(ctx, errNotSent)
	default:
		return none, cancelledOr(ctx, errNoAnswer)
	}
}

// cancelledOr tells a caller that went away from one whose deadline was short: that one still wants an answer.
func cancelledOr(ctx context.Context, err error) error {
	if cancelled := ctx.Err(); errors.Is(cancelled, context.Canceled) {
		return cancelled
	}
	return err
}

// run is the call's goroutine.
func (c *call[T]) run(ctx context.Context, s *Store, k signpost.Key, sl *slice, up *period) {
	defer sl.calls.Add(-1)
	// The end of the timeout is an outage even if the store never returns. One that keeps to its deadline comes a little before,
	// because it can say more: whether it charged.
	ctx, cancel := context.WithTimeout(ctx, s.timeout-s.timeout/100)
	defer cancel()
	watch := time.AfterFunc(s.timeout, func() {
		s.fail(sl, up, k, fmt.Errorf("store did not answer in %v: %w", s.timeout, context.DeadlineExceeded))
	})
	defer watch.Stop()

	if c.settles && !s.settle(k, up) {
		c.err = errNotSent
		if c.phase.CompareAndSwap(waiting, answered) {
			close(c.done)
		}
		return
	}
	if !c.phase.CompareAndSwap(waiting, sent) {
		return
	}
	c.value, c.err = c.guarded(ctx)

	if ofKey(c.err) {
		c.err = fmt.Errorf("key %v: %w", k, c.err)
		s.hooks.Failed(sl.name, kindOf(c.err), c.err)
		c.err = fmt.Errorf("%w: %w", ErrDegraded, c.err)
	} else {
		c.broke = c.err != nil && !isAnswer(c.err)
	}
	used := c.phase.CompareAndSwap(sent, answered)
	if inTime := watch.Stop(); c.broke {
		if inTime {
			s.fail(sl, up, k, c.err)
		}
		<-up.down
	}
	if used {
		close(c.done)
	}
	if c.lost != nil && (c.broke || !used) {
		c.lost(c.value, c.err)
	}
}

func (c *call[T]) guarded(ctx context.Context) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	return c.do(ctx)
}

func panicked(p any) error { return fmt.Errorf("store panicked: %v\n%s", p, debug.Stack()) }

// ofKey reports whether an error is about the key that was asked for, and so says nothing of others.
func ofKey(err error) bool {
	return errors.Is(err, signpost.ErrUnknownHome) || errors.Is(err, signpost.ErrSpoilt)
}

// isAnswer reports whether an error is an answer of a store that works.
func isAnswer(err error) bool {
	return errors.Is(err, signpost.ErrUsage) || errors.Is(err, signpost.ErrClosed) ||
		errors.Is(err, signpost.ErrLeaseGone) || errors.Is(err, errors.ErrUnsupported)
}
