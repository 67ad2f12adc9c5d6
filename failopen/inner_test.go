// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/store/memory"
)

// inner is a store that works, until a test breaks it.
type inner struct {
	*memory.Store
	ahead time.Duration // how far its clock is ahead of the process's

	mu     sync.Mutex
	before func(ctx context.Context, c called) error // runs in place of the server: it may be slow, fail or panic
	after  func(*signpost.Decision)                  // may lie
	slice  func(signpost.Key) string
	calls  []called
	inside int
}

type called struct {
	op     string
	key    signpost.Key
	at     time.Time
	counts []signpost.Count // of a settle
}

var probeDigest = signpost.KeyOf("signpost probe", "").Digest()

func (c called) isProbe() bool { return c.key.Digest() == probeDigest }

func newInner() *inner { return &inner{Store: memory.New(memory.Options{})} }

// breaks makes every call from now on go through before; nil mends the store.
func (i *inner) breaks(before func(context.Context, called) error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.before = before
}

func (i *inner) lies(after func(*signpost.Decision)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.after = after
}

func (i *inner) enter(ctx context.Context, c called) error {
	c.at = time.Now()
	i.mu.Lock()
	i.calls = append(i.calls, c)
	i.inside++
	before := i.before
	i.mu.Unlock()
	defer func() {
		i.mu.Lock()
		i.inside--
		i.mu.Unlock()
	}()
	if before == nil {
		return nil
	}
	return before(ctx, c)
}

func (i *inner) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	if err := i.enter(ctx, called{op: "take", key: q.Key}); err != nil {
		return signpost.Decision{}, signpost.Commit{}, err
	}
	q.At = i.instant(q.At)
	d, c, err := i.Store.Take(ctx, q)
	i.lie(&d)
	return d, c, err
}

func (i *inner) Peek(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	if err := i.enter(ctx, called{op: "peek", key: q.Key}); err != nil {
		return signpost.Decision{}, signpost.Commit{}, err
	}
	q.At = i.instant(q.At)
	d, c, err := i.Store.Peek(ctx, q)
	i.lie(&d)
	return d, c, err
}

// instant returns at, or the instant of the store's clock.
func (i *inner) instant(at signpost.Instant) signpost.Instant {
	if at == 0 && i.ahead != 0 {
		return signpost.InstantOf(time.Now().Add(i.ahead))
	}
	return at
}

func (i *inner) lie(d *signpost.Decision) {
	i.mu.Lock()
	after := i.after
	i.mu.Unlock()
	if after != nil {
		after(d)
	}
}

func (i *inner) Release(l signpost.Lease) {
	i.mu.Lock()
	i.calls = append(i.calls, called{op: "release", key: l.Key, at: time.Now()})
	i.mu.Unlock()
	i.Store.Release(l)
}

func (i *inner) Renew(ctx context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	if err := i.enter(ctx, called{op: "renew", key: l.Key}); err != nil {
		return signpost.Lease{}, err
	}
	return i.Store.Renew(ctx, l, at)
}

func (i *inner) Inspect(ctx context.Context, k signpost.Key, at signpost.Instant) (signpost.Inspection, error) {
	if err := i.enter(ctx, called{op: "inspect", key: k}); err != nil {
		return signpost.Inspection{}, err
	}
	return i.Store.Inspect(ctx, k, at)
}

func (i *inner) Reset(ctx context.Context, k signpost.Key) error {
	if err := i.enter(ctx, called{op: "reset", key: k}); err != nil {
		return err
	}
	return i.Store.Reset(ctx, k)
}

func (i *inner) Settle(ctx context.Context, k signpost.Key, at signpost.Instant, counts []signpost.Count) error {
	if err := i.enter(ctx, called{op: "settle", key: k, counts: counts}); err != nil {
		return err
	}
	return i.Store.Settle(ctx, k, i.instant(at), counts)
}

func (i *inner) Slice(k signpost.Key) string {
	i.mu.Lock()
	slice := i.slice
	i.mu.Unlock()
	if slice == nil {
		return ""
	}
	return slice(k)
}

// seen returns the calls of an operation, probes apart.
func (i *inner) seen(op string) (calls []called) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range i.calls {
		if c.op == op && !c.isProbe() {
			calls = append(calls, c)
		}
	}
	return calls
}

func (i *inner) probes() (calls []called) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range i.calls {
		if c.isProbe() {
			calls = append(calls, c)
		}
	}
	return calls
}

func (i *inner) insideNow() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.inside
}

var errDead = errors.New("connection refused")

// dead fails at once.
func dead(context.Context, called) error { return errDead }

// blackhole answers nothing, and gives up when it is told to.
func blackhole(ctx context.Context, _ called) error {
	<-ctx.Done()
	return ctx.Err()
}

// frozen ignores its context until the channel is closed, and then goes on as if nothing had been.
func frozen(thaw <-chan struct{}) func(context.Context, called) error {
	return func(context.Context, called) error {
		<-thaw
		return nil
	}
}

// slow answers after a while, whatever its context.
func slow(d time.Duration) func(context.Context, called) error {
	return func(context.Context, called) error {
		time.Sleep(d)
		return nil
	}
}

// events is what the hooks were told.
type events struct {
	mu      sync.Mutex
	log     []string // "degraded <slice> <kind>", "healed <slice>"
	failed  map[failopen.Kind]int
	cleared int
	dropped int
	outage  time.Duration // the last one
}

func (e *events) hooks() failopen.Hooks {
	e.failed = map[failopen.Kind]int{}
	locked := func(f func()) {
		e.mu.Lock()
		defer e.mu.Unlock()
		f()
	}
	return failopen.Hooks{
		Degraded: func(slice string, kind failopen.Kind, cause error) {
			locked(func() { e.log = append(e.log, "degraded "+slice+" "+string(kind)) })
		},
		Healed: func(slice string, after time.Duration) {
			locked(func() { e.log, e.outage = append(e.log, "healed "+slice), after })
		},
		Failed:      func(_ string, kind failopen.Kind, _ error) { locked(func() { e.failed[kind]++ }) },
		Cleared:     func() { locked(func() { e.cleared++ }) },
		DebtDropped: func(keys int, _ error) { locked(func() { e.dropped += keys }) },
	}
}

// all returns the transitions. Nobody waits for a hook, so the bubble has to come to rest first.
func (e *events) all() []string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.log...)
}

func (e *events) counts() (cleared, dropped int) {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cleared, e.dropped
}

// failures returns how many calls failed in this way.
func (e *events) failures(kind failopen.Kind) int {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed[kind]
}

// bench is a Store over a store to break, in a bubble where time is not real.
type bench struct {
	*testing.T
	inner  *inner
	store  *failopen.Store
	events *events
}

// inBubble runs f and closes the store after it.
func inBubble(t *testing.T, o failopen.Options, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, inner: newInner(), events: &events{}}
		o.Hooks = b.events.hooks()
		s, err := failopen.New(b.inner, o)
		if err != nil {
			t.Fatal(err)
		}
		b.store = s
		f(b)
		b.inner.breaks(nil)
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		time.Sleep(time.Minute) // for what is slower than Close waits; more than that is a leak, and the bubble fails
	})
}

var five = signpost.MustParseBound("5/min 2 concurrent")

func cheap(id string) signpost.Request {
	return signpost.Request{Key: signpost.KeyOf("test", id), Bound: five}
}

func expensive(id string) signpost.Request {
	q := cheap(id)
	q.Expensive, q.LeaseID = true, signpost.NewLeaseID()
	return q
}

func (b *bench) take(q signpost.Request) signpost.Decision {
	b.Helper()
	d, _, err := b.store.Take(b.Context(), q)
	if err != nil {
		b.Fatalf("take: %v", err)
	}
	return d
}

// wantTake takes and checks who decided and how.
func (b *bench) wantTake(q signpost.Request, admitted, degraded bool) signpost.Decision {
	b.Helper()
	d := b.take(q)
	if d.Admitted != admitted || d.Degraded != degraded {
		b.Errorf("take: admitted=%v degraded=%v, want %v and %v", d.Admitted, d.Degraded, admitted, degraded)
	}
	return d
}

// wantUsed checks what the store inside has counted.
func (b *bench) wantUsed(q signpost.Request, want uint32) {
	b.Helper()
	d, _, err := b.inner.Store.Peek(b.Context(), q)
	if err != nil {
		b.Fatal(err)
	}
	if used := d.Windows()[0].Used; used != want {
		b.Errorf("the store has counted %d, want %d", used, want)
	}
}

// elapsed returns how long f took.
func elapsed(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

// isTimeout reports whether a wait was one for the store's timeout: never more, and hardly less.
func isTimeout(took, timeout time.Duration) bool {
	return took <= timeout && took >= timeout-timeout/50
}

// wantInstant fails if f took any time at all.
func (b *bench) wantInstant(f func()) {
	b.Helper()
	if took := elapsed(f); took != 0 {
		b.Errorf("it took %v, want no wait", took)
	}
}

// waitHealed lets probes pass, and what is owed be settled.
func (b *bench) waitHealed() {
	b.Helper()
	b.inner.breaks(nil)
	time.Sleep(1200 * time.Millisecond) // the rest of a probe that was lost, and one that passes
	synctest.Wait()
	if log := b.events.all(); len(log) == 0 || log[len(log)-1][:6] != "healed" {
		b.Fatalf("not healed: %q", log)
	}
}
