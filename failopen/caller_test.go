// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/store/memory"
)

// A proxy that gives up at 20 ms gets an answer before that, and its impatience is no outage.
func TestShortDeadline(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(slow(50 * time.Millisecond))
		for n := range 5 {
			ctx, cancel := context.WithTimeout(b.Context(), 20*time.Millisecond)
			took := elapsed(func() {
				if d, _, err := b.store.Take(ctx, cheap("a")); err != nil || !d.Admitted || !d.Degraded {
					b.Errorf("take %d: %+v, %v", n, d, err)
				}
			})
			cancel()
			if took != 15*time.Millisecond {
				b.Errorf("answered after %v, want 5ms before the deadline", took)
			}
		}
		time.Sleep(time.Second)
		b.wantUsed(cheap("a"), 5) // each was sent, none is owed
		b.inner.breaks(nil)
		b.wantTake(cheap("a"), false, false)
		if log := b.events.all(); len(log) != 0 {
			b.Errorf("events %q, want none", log)
		}
	})
}

func TestDeadlineTooNearToAsk(t *testing.T) {
	for _, left := range []time.Duration{-time.Second, 0, 4 * time.Millisecond} {
		inBubble(t, failopen.Options{}, func(b *bench) {
			ctx, cancel := context.WithDeadline(b.Context(), time.Now().Add(left))
			defer cancel()
			b.wantInstant(func() {
				if d, _, err := b.store.Take(ctx, cheap("a")); err != nil || !d.Admitted || !d.Degraded {
					b.Errorf("%v left: %+v, %v", left, d, err)
				}
			})
			if n := len(b.inner.seen("take")); n != 0 {
				b.Errorf("%v left: the store was asked", left)
			}
		})
	}
}

func TestCancelledCallerIsNoOutage(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(slow(500 * time.Millisecond))
		for range 3 {
			ctx, cancel := context.WithCancel(b.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			took := elapsed(func() {
				if _, _, err := b.store.Take(ctx, cheap("a")); !errors.Is(err, context.Canceled) {
					b.Errorf("take: error %v, want that it was cancelled", err)
				}
			})
			if took != 100*time.Millisecond {
				b.Errorf("returned after %v, want when it was cancelled", took)
			}
			if _, _, err := b.store.Take(ctx, cheap("b")); !errors.Is(err, context.Canceled) {
				b.Errorf("take of a caller that is gone: error %v", err)
			}
		}
		time.Sleep(time.Second)
		b.wantUsed(cheap("a"), 3)
		b.wantUsed(cheap("b"), 0)
		if log := b.events.all(); len(log) != 0 {
			b.Errorf("events %q, want none", log)
		}

		b.inner.breaks(dead)
		b.take(cheap("c"))
		gone, cancel := context.WithCancel(b.Context())
		cancel()
		if _, _, err := b.store.Take(gone, cheap("c")); !errors.Is(err, context.Canceled) {
			b.Errorf("take while degraded of a caller that is gone: error %v", err)
		}
		if d := b.take(cheap("c")); d.Windows()[0].Used != 2 {
			b.Errorf("%d used in the fallback, want nothing for the caller that was gone", d.Windows()[0].Used)
		}
	})
}

// Callers that never stay for the whole timeout do not hide an outage: their calls go on without them.
func TestOutageUnderImpatientCallers(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		thaw := make(chan struct{})
		defer close(thaw)
		b.inner.breaks(frozen(thaw))
		begin := time.Now()
		for time.Since(begin) < 3*time.Second {
			ctx, cancel := context.WithTimeout(b.Context(), 20*time.Millisecond)
			took := elapsed(func() { b.store.Take(ctx, cheap("a")) })
			if since := time.Since(begin); since > time.Second+20*time.Millisecond && took != 0 {
				b.Fatalf("a take waited %v, %v after the first", took, since)
			}
			cancel()
			time.Sleep(10 * time.Millisecond)
		}
		if log := b.events.all(); len(log) != 1 || log[0] != "degraded  timeout" {
			b.Errorf("events %q, want one outage", log)
		}
		if n := b.inner.insideNow(); n > 50 {
			b.Errorf("%d calls are stuck", n)
		}
	})
}

// The values of a caller's context, such as its trace, reach the store; its end does not.
func TestContextOfTheCaller(t *testing.T) {
	inBubble(t, failopen.Options{Timeout: 2 * time.Second}, func(b *bench) {
		type traceKey struct{}
		b.inner.breaks(func(ctx context.Context, _ called) error {
			deadline, ok := ctx.Deadline()
			if trace := ctx.Value(traceKey{}); trace != "id" || !ok || !isTimeout(time.Until(deadline), 2*time.Second) {
				b.Errorf("the store was asked in trace %v by %v (%v)", trace, deadline, ok)
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(context.WithValue(b.Context(), traceKey{}, "id"), time.Second)
		defer cancel()
		if d, _, err := b.store.Take(ctx, cheap("a")); err != nil || d.Degraded {
			b.Errorf("take: %+v, %v", d, err)
		}
	})
}

func TestClose(t *testing.T) {
	for name, o := range map[string]failopen.Options{"local": {}, "allow": {Cheap: failopen.Allow}, "deny": {Cheap: failopen.Deny}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, o, func(b *bench) {
				b.inner.breaks(dead)
				local := b.take(expensive("a")) // a prober is on its way
				for range 2 {
					if err := b.store.Close(); err != nil {
						b.Errorf("close: %v", err)
					}
				}
				if _, _, err := b.store.Take(b.Context(), cheap("a")); !errors.Is(err, signpost.ErrClosed) {
					b.Errorf("take after close: %v, want ErrClosed", err)
				}
				if _, err := b.store.Renew(b.Context(), local.Lease, 0); !errors.Is(err, signpost.ErrClosed) {
					b.Errorf("renew after close: %v, want ErrClosed", err)
				}
				probes := len(b.inner.probes())
				time.Sleep(time.Second)
				if n := len(b.inner.probes()); n != probes {
					b.Errorf("%d probes after close", n-probes)
				}
			})
		})
	}
}

// Close ends a probe, and does not take that for a failure.
func TestCloseDuringAProbe(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(blackhole)
		b.take(cheap("a"))
		time.Sleep(150 * time.Millisecond)
		if n := b.inner.insideNow(); n != 1 {
			b.Fatalf("%d calls inside, want the probe", n)
		}
		b.wantInstant(func() { b.store.Close() })
		if n := b.events.failures(failopen.Timeout) + b.events.failures(failopen.Other); n != 1 {
			b.Errorf("%d failures, want that of the take", n)
		}
	})
}

// A store that never returns does not hold Close for ever either.
func TestCloseOverAFrozenStore(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		thaw := make(chan struct{})
		b.inner.breaks(frozen(thaw))
		b.take(cheap("a"))
		time.Sleep(time.Second) // the probe is stuck too
		if took := elapsed(func() { b.store.Close() }); !isTimeout(took, time.Second) {
			b.Errorf("close took %v, want the timeout", took)
		}
		close(thaw)
	})
}

// Close waits for the calls that are inside, and their callers get their answers.
func TestCloseWaitsForCalls(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(slow(300 * time.Millisecond))
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _, err = b.store.Take(b.Context(), cheap("a"))
		}()
		synctest.Wait()
		if took := elapsed(func() { b.store.Close() }); !isTimeout(took, 300*time.Millisecond) {
			b.Errorf("close took %v, want as long as the call", took)
		}
		<-ended
		if !errors.Is(err, signpost.ErrClosed) { // the store inside was closed meanwhile
			b.Errorf("take: %v", err)
		}
	})
}

func TestOpenAndCloseManyTimes(t *testing.T) {
	before := runtime.NumGoroutine()
	for n := range 500 {
		in := newInner()
		s, err := failopen.New(in, failopen.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			in.breaks(dead)
		}
		if _, _, err := s.Take(t.Context(), cheap("a")); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// Goroutines that Close has waited for may still be on their last instruction.
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// plain is a store without any of the optional interfaces.
type plain struct{ signpost.Store }

func TestUnsupported(t *testing.T) {
	s, err := failopen.New(plain{memory.New(memory.Options{})}, failopen.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, _, err := s.Take(t.Context(), expensive("a"))
	if err != nil {
		t.Fatal(err)
	}
	_, renew := s.Renew(t.Context(), d.Lease, 0)
	_, inspect := s.Inspect(t.Context(), d.Lease.Key, 0)
	for call, err := range map[string]error{
		"renew":   renew,
		"inspect": inspect,
		"reset":   s.Reset(t.Context(), d.Lease.Key),
		"settle":  s.Settle(t.Context(), d.Lease.Key, 0, nil),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: error %v, want ErrUnsupported", call, err)
		}
	}
	if name := s.Slice(d.Lease.Key); name != "" {
		t.Errorf("slice %q of a store of one part", name)
	}
}

// Operators are told what is not known, and what is.
func TestInspectAndResetWhileDegraded(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		for range 3 {
			b.wantTake(cheap("a"), true, false)
		}
		in, err := b.store.Inspect(b.Context(), cheap("a").Key, 0)
		if err != nil || len(in.Counts) != 1 || in.Counts[0].Used != 3 {
			b.Errorf("inspect: %+v, %v", in, err)
		}
		b.inner.breaks(dead)
		b.take(cheap("other"))
		b.wantTake(cheap("a"), true, true)
		in, err = b.store.Inspect(b.Context(), cheap("a").Key, 0)
		if !errors.Is(err, failopen.ErrDegraded) || len(in.Counts) != 1 || in.Counts[0].Used != 1 {
			b.Errorf("inspect: %+v, %v; want what the fallback holds, and that the store does not answer", in, err)
		}
		if err := b.store.Reset(b.Context(), cheap("a").Key); !errors.Is(err, failopen.ErrDegraded) {
			b.Errorf("reset: error %v, want ErrDegraded", err)
		}
		if d := b.wantTake(cheap("a"), true, true); d.Windows()[0].Used != 1 {
			b.Errorf("%d used in the fallback after a reset and a take, want 1", d.Windows()[0].Used)
		}
		b.waitHealed()
		b.wantUsed(cheap("a"), 4) // 3, and the one after the reset: what was owed before it is forgotten
		if err := b.store.Reset(b.Context(), cheap("a").Key); err != nil {
			b.Errorf("reset: %v", err)
		}
		b.wantUsed(cheap("a"), 0)
	})
}

// Any call can find out that the store is away.
func TestOtherCallsDegradeToo(t *testing.T) {
	for name, call := range map[string]func(b *bench) error{
		"peek": func(b *bench) error {
			d, _, err := b.store.Peek(b.Context(), cheap("a"))
			if err != nil || !d.Degraded {
				b.Errorf("peek: %+v, %v", d, err)
			}
			return failopen.ErrDegraded
		},
		"renew": func(b *bench) error {
			_, err := b.store.Renew(b.Context(), signpost.Lease{Key: cheap("a").Key, ID: signpost.NewLeaseID()}, 0)
			return err
		},
		"inspect": func(b *bench) error {
			_, err := b.store.Inspect(b.Context(), cheap("a").Key, 0)
			return err
		},
		"reset": func(b *bench) error { return b.store.Reset(b.Context(), cheap("a").Key) },
		"settle": func(b *bench) error {
			return b.store.Settle(b.Context(), cheap("a").Key, 0, []signpost.Count{{Len: time.Minute, Used: 1}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, failopen.Options{}, func(b *bench) {
				b.inner.breaks(blackhole)
				took := elapsed(func() {
					if err := call(b); !errors.Is(err, failopen.ErrDegraded) {
						b.Errorf("error %v, want ErrDegraded", err)
					}
				})
				if !isTimeout(took, time.Second) {
					b.Errorf("it took %v, want the timeout", took)
				}
				b.wantInstant(func() { b.wantTake(cheap("b"), true, true) })
				b.waitHealed()
			})
		})
	}
}
