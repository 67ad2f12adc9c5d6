// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
)

func TestHealthyStoreDecides(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		for range 5 {
			b.wantTake(cheap("a"), true, false)
		}
		b.wantTake(cheap("a"), false, false)
		b.wantUsed(cheap("a"), 5)
		if log := b.events.all(); len(log) != 0 || len(b.events.failed) != 0 {
			b.Errorf("a healthy store had %q, %v", log, b.events.failed)
		}
	})
}

type pending struct{ done chan struct{} }

func (p pending) Done() <-chan struct{} { return p.done }
func (p pending) Err() error            { return signpost.ErrNotDurable }

type committing struct {
	*inner
	commit signpost.Commit
}

func (c committing) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	d, _, err := c.inner.Take(ctx, q)
	return d, c.commit, err
}

func TestCommitIsPassedThrough(t *testing.T) {
	p := pending{make(chan struct{})}
	s, err := failopen.New(committing{newInner(), signpost.CommitOf(p)}, failopen.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, c, err := s.Take(t.Context(), cheap("a"))
	if err != nil || c.Done() != p.Done() {
		t.Errorf("commit %v, error %v", c, err)
	}
}

// Nothing that the store does holds a request beyond the timeout, and only the first one that long.
func TestTimeout(t *testing.T) {
	thaw := make(chan struct{})
	for name, broken := range map[string]func(context.Context, called) error{
		"blackhole": blackhole,
		"slow":      slow(1001 * time.Millisecond),
		"frozen":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, failopen.Options{}, func(b *bench) {
				if name == "frozen" {
					thaw = make(chan struct{})
					broken = frozen(thaw)
					defer close(thaw)
				}
				b.inner.breaks(broken)
				if took := elapsed(func() { b.wantTake(cheap("a"), true, true) }); !isTimeout(took, time.Second) {
					b.Errorf("the first take took %v, want the timeout of 1s", took)
				}
				for range 20 {
					time.Sleep(150 * time.Millisecond)
					b.wantInstant(func() { b.take(cheap("a")) })
				}
				if log, want := b.events.all(), []string{"degraded  timeout"}; !reflect.DeepEqual(log, want) {
					b.Errorf("events %q, want %q", log, want)
				}
				if n := len(b.inner.seen("take")); n != 1 {
					b.Errorf("%d takes were sent to a degraded store, want the first only", n)
				}
			})
		})
	}
}

func TestAnswerWithinTheTimeoutCounts(t *testing.T) {
	inBubble(t, failopen.Options{Timeout: 300 * time.Millisecond}, func(b *bench) {
		b.inner.breaks(slow(299 * time.Millisecond))
		b.wantTake(cheap("a"), true, false)
		b.inner.breaks(slow(301 * time.Millisecond))
		if took := elapsed(func() { b.wantTake(cheap("a"), true, true) }); !isTimeout(took, 300*time.Millisecond) {
			b.Errorf("took %v, want 300ms", took)
		}
	})
}

// Those who wait already are not left to wait when one of them has found out.
func TestWaitersAreAnsweredWhenTheSliceDegrades(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(blackhole)
		begin := time.Now()
		var wg sync.WaitGroup
		for n := range 50 {
			wg.Go(func() {
				time.Sleep(time.Duration(n) * 20 * time.Millisecond)
				b.take(cheap("a"))
				if at := time.Since(begin); !isTimeout(at, time.Second) {
					b.Errorf("take %d was answered at %v, want 1s", n, at)
				}
			})
		}
		wg.Wait()
		if n := len(b.inner.seen("take")); n != 50 {
			b.Errorf("%d takes were sent, want the 50 before the first timeout", n)
		}
		if log := b.events.all(); len(log) != 1 {
			b.Errorf("50 failures were %d outages: %q", len(log), log)
		}
	})
}

func TestFailures(t *testing.T) {
	for name, broken := range map[string]func(context.Context, called) error{
		"error":               dead,
		"panic":               func(context.Context, called) error { panic("nil map") },
		"canceled by nobody":  func(context.Context, called) error { return context.Canceled },
		"not a take's answer": func(context.Context, called) error { return signpost.ErrLeaseGone },
		"no take at all":      func(context.Context, called) error { return errors.ErrUnsupported },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, failopen.Options{}, func(b *bench) {
				b.inner.breaks(broken)
				b.wantInstant(func() {
					for range 5 {
						b.wantTake(cheap("a"), true, true)
					}
					d := b.wantTake(cheap("a"), false, true) // by the same rules
					if d.RetryAfter() != time.Minute {
						b.Errorf("retry after %v, want 1m0s", d.RetryAfter())
					}
				})
				if log, want := b.events.all(), []string{"degraded  other"}; !reflect.DeepEqual(log, want) {
					b.Errorf("events %q, want %q", log, want)
				}
			})
		})
	}
}

func TestMisuseAndCloseNeverFailOpen(t *testing.T) {
	for _, want := range []error{signpost.ErrUsage, signpost.ErrClosed} {
		inBubble(t, failopen.Options{Cheap: failopen.Allow}, func(b *bench) {
			b.inner.breaks(func(context.Context, called) error { return want })
			_, _, err := b.store.Take(b.Context(), cheap("a"))
			if !errors.Is(err, want) {
				b.Errorf("take: error %v, want %v", err, want)
			}
			if log := b.events.all(); len(log) != 0 {
				b.Errorf("%v degraded the store: %q", want, log)
			}
		})
	}
}

// A store that lies has not answered. Each lie is told of an answer that is right otherwise.
func TestLies(t *testing.T) {
	window := func(d *signpost.Decision) *signpost.WindowState { return &d.Windows()[0] }
	for name, lie := range map[string]func(*signpost.Decision){
		"no decision":          func(d *signpost.Decision) { *d = signpost.Decision{} },
		"admitted and nothing": func(d *signpost.Decision) { *d = signpost.Decision{At: d.At, Admitted: true} },
		"no instant":           func(d *signpost.Decision) { d.At = 0 },
		"another instant":      func(d *signpost.Decision) { d.At++ },
		"above the limit":      func(d *signpost.Decision) { window(d).Used = 6 },
		"nothing charged":      func(d *signpost.Decision) { window(d).Used = 0 },
		"another length":       func(d *signpost.Decision) { window(d).Len = time.Hour },
		"another limit":        func(d *signpost.Decision) { window(d).Limit = 600 },
		"a window long ended":  func(d *signpost.Decision) { window(d).Start -= 60_000 },
		"a window far ahead":   func(d *signpost.Decision) { window(d).Start += 600_000 },
		"refused for nothing":  func(d *signpost.Decision) { d.Admitted = false },
		"another class":        func(d *signpost.Decision) { d.Expensive = !d.Expensive },
		"another concurrency":  func(d *signpost.Decision) { d.Concurrent = 100 },
		"too many at once":     func(d *signpost.Decision) { d.InUse = 2 },
		"another's lease":      func(d *signpost.Decision) { d.Lease.ID[0]++ },
		"no lease":             func(d *signpost.Decision) { d.Lease = signpost.Lease{} },
		"a lease for ever":     func(d *signpost.Decision) { d.Lease.Expires += 3_600_000 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, failopen.Options{}, func(b *bench) {
				q := expensive("a")
				q.At = signpost.InstantOf(time.Now())
				b.inner.lies(lie)
				d := b.wantTake(q, true, true)
				if w := d.Windows()[0]; w.Used != 1 || w.Limit != 5 {
					b.Errorf("the lie came through: %+v", d)
				}
				if log, want := b.events.all(), []string{"degraded  other"}; !reflect.DeepEqual(log, want) {
					b.Errorf("events %q, want %q", log, want)
				}
				synctest.Wait()
				if n := len(b.inner.seen("release")); n != 1 {
					b.Errorf("the lease that the store may hold was given back %d times, want once", n)
				}
			})
		})
	}
}

// A refusal that is a lie is caught as well, and so is a peek.
func TestLiesAboutRefusals(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		for range 5 {
			b.wantTake(cheap("full"), true, false)
		}
		b.inner.lies(func(d *signpost.Decision) { d.Admitted = true })
		b.wantTake(cheap("full"), true, true) // by the fallback, which has counted nothing
		b.inner.lies(nil)
		b.waitHealed()
		b.wantTake(cheap("full"), false, false)

		b.inner.lies(func(d *signpost.Decision) { d.Windows()[0].Used = 3 })
		d, _, err := b.store.Peek(b.Context(), cheap("full"))
		if err != nil || !d.Degraded || d.Windows()[0].Used != 1 {
			b.Errorf("peek: %+v, %v; want that of the fallback", d, err)
		}
	})
}

// Without a lease beside it, what is left to check is the window.
func TestLiesAboutCheapTakes(t *testing.T) {
	for name, lie := range map[string]func(*signpost.Decision){
		"another instant":     func(d *signpost.Decision) { d.At++ },
		"denied for no time":  func(d *signpost.Decision) { *d = signpost.Denied(&signpost.Request{Bound: five}, d.At, 0) },
		"a lease out of turn": func(d *signpost.Decision) { d.Lease.ID[0]++ },
	} {
		inBubble(t, failopen.Options{}, func(b *bench) {
			q := cheap("a")
			q.At = signpost.InstantOf(time.Now())
			b.inner.lies(lie)
			if d := b.wantTake(q, true, true); d.At != q.At {
				b.Errorf("%s: the lie came through: %+v", name, d)
			}
		})
	}
}

// What an inner store says of its own trouble is its answer: it may be a Store of this package in another process.
func TestDegradedAnswersOfTheInnerStore(t *testing.T) {
	for name, o := range map[string]failopen.Options{
		"local": {},
		"allow": {Cheap: failopen.Allow, Expensive: failopen.Allow},
		"deny":  {Cheap: failopen.Deny, Expensive: failopen.Deny},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, o, func(b *bench) {
				ev := &events{}
				outer, err := failopen.New(b.store, failopen.Options{Hooks: ev.hooks()})
				if err != nil {
					b.Fatal(err)
				}
				b.inner.breaks(dead)
				q := expensive("a")
				d, _, err := outer.Take(b.Context(), q)
				if err != nil || !d.Degraded || d.Admitted != (name != "deny") {
					b.Errorf("take: %+v, %v", d, err)
				}
				if log := ev.all(); len(log) != 0 {
					b.Errorf("the outer store took an answer for a failure: %q", log)
				}
				if name == "local" {
					// The lease is held by the inner store's fallback, and finds its way back there.
					if d.Lease.Fallback {
						b.Error("the outer store did not grant this lease")
					}
					outer.Release(d.Lease)
					p, _, _ := b.store.Peek(b.Context(), q)
					if p.InUse != 0 {
						b.Errorf("%d leases in use after the release, want 0", p.InUse)
					}
				}
				if err := outer.Close(); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

func TestPolicies(t *testing.T) {
	inBubble(t, failopen.Options{Cheap: failopen.Allow, Expensive: failopen.Deny}, func(b *bench) {
		b.inner.breaks(dead)
		for range 20 { // far above the limit
			d := b.wantTake(cheap("a"), true, true)
			if used := d.Windows()[0].Used; used != 1 {
				b.Errorf("%d used, want 1: nothing is counted", used)
			}
		}
		never := cheap("a")
		never.Cost = 6
		if d := b.wantTake(never, false, true); !d.Never {
			b.Error("allow admits what can never pass")
		}
		d := b.wantTake(expensive("a"), false, true)
		if d.Never || d.ConcurrencyRefused || len(d.Windows()) != 0 || d.RetryAfter() != time.Second || !d.Expensive || d.At == 0 {
			b.Errorf("denied with %+v", d)
		}
		for _, q := range []signpost.Request{cheap("a"), expensive("a")} {
			p, _, err := b.store.Peek(b.Context(), q)
			if err != nil || !p.Degraded || p.Admitted == q.Expensive {
				b.Errorf("peek (expensive=%v): %+v, %v", q.Expensive, p, err)
			}
		}
		b.waitHealed()
		b.wantUsed(cheap("a"), 0) // nothing is owed
	})
}

func TestOptions(t *testing.T) {
	_, err := failopen.New(newInner(), failopen.Options{Timeout: time.Microsecond, Cheap: "open", Expensive: "shut", FallbackKeys: -1})
	if err == nil {
		t.Fatal("no error")
	}
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 4 {
		t.Errorf("error %q does not name all 4 faults", err)
	}
}
