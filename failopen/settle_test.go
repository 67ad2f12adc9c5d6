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
)

// What comes to be owed while others are settled is settled too.
func TestDebtWhileSettling(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		hasty := func(id string) {
			ctx, cancel := context.WithTimeout(b.Context(), time.Millisecond)
			defer cancel()
			if d, _, err := b.store.Take(ctx, cheap(id)); err != nil || !d.Admitted || !d.Degraded {
				b.Errorf("take: %+v, %v", d, err)
			}
		}
		b.inner.breaks(func(_ context.Context, c called) error {
			if c.op == "settle" {
				time.Sleep(400 * time.Millisecond)
			}
			return nil
		})
		hasty("a")
		time.Sleep(100 * time.Millisecond)
		hasty("a")
		hasty("b")
		time.Sleep(1200 * time.Millisecond)
		b.wantUsed(cheap("a"), 2)
		b.wantUsed(cheap("b"), 1)
		if n := len(b.inner.seen("settle")); n != 3 {
			b.Errorf("settled %d times, want 3", n)
		}
	})
}

// Who leaves while the key's debt is being settled has not been sent, and never will be.
func TestLeavingWhileSettling(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(dead)
		b.take(cheap("other"))
		b.wantTake(cheap("a"), true, true)
		b.inner.breaks(func(_ context.Context, c called) error {
			if c.op == "settle" {
				time.Sleep(400 * time.Millisecond)
			}
			return nil
		})
		time.Sleep(failopen.ProbeEvery)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(b.Context(), 105*time.Millisecond)
		defer cancel()
		took := elapsed(func() {
			if d, _, err := b.store.Take(ctx, cheap("a")); err != nil || !d.Admitted || !d.Degraded {
				b.Errorf("take: %+v, %v", d, err)
			}
		})
		if took != 100*time.Millisecond {
			b.Errorf("took %v, want 100ms", took)
		}
		time.Sleep(2 * time.Second)
		b.wantUsed(cheap("a"), 2)
		for _, c := range b.inner.seen("take") {
			if c.key == cheap("a").Key {
				b.Error("a take that nobody waits for was sent")
			}
		}
	})
}

// A caller that goes away in that moment is told so, and owes nothing: nobody does the work.
func TestCancelledWhileSettling(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(dead)
		b.take(cheap("other"))
		b.wantTake(cheap("a"), true, true)
		b.inner.breaks(func(_ context.Context, c called) error {
			if c.op == "settle" {
				time.Sleep(400 * time.Millisecond)
			}
			return nil
		})
		time.Sleep(failopen.ProbeEvery)
		synctest.Wait()
		ctx, cancel := context.WithCancel(b.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if d, _, err := b.store.Take(ctx, cheap("a")); !errors.Is(err, context.Canceled) || d.Admitted {
			b.Errorf("take: admitted=%v, error %v; want that the caller left", d.Admitted, err)
		}
		time.Sleep(2 * time.Second)
		b.wantUsed(cheap("a"), 1)
	})
}

// A debt that is on its way does not arrive after a reset.
func TestResetWhileSettling(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(dead)
		b.take(cheap("other"))
		b.wantTake(cheap("a"), true, true)
		b.inner.breaks(func(_ context.Context, c called) error {
			if c.op == "settle" {
				time.Sleep(400 * time.Millisecond)
			}
			return nil
		})
		time.Sleep(failopen.ProbeEvery)
		synctest.Wait()
		if err := b.store.Reset(b.Context(), cheap("a").Key); err != nil {
			b.Errorf("reset: %v", err)
		}
		time.Sleep(time.Second)
		b.wantUsed(cheap("a"), 0)
	})
}

// The map of the slices can change at any moment. A take is not sent by an old one, nor is a debt lost.
func TestMapChangesWhileSettling(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		a := cheap("a").Key
		var mu sync.Mutex
		where := func(k signpost.Key, asked int) string { return "bad" }
		asked := 0
		move := func(to func(signpost.Key, int) string) {
			mu.Lock()
			defer mu.Unlock()
			where, asked = to, 0
		}
		b.inner.slice = func(k signpost.Key) string {
			mu.Lock()
			defer mu.Unlock()
			if k == a {
				asked++
			}
			return where(k, asked)
		}
		onlyA := func(op string, err error) func(context.Context, called) error {
			return func(_ context.Context, c called) error {
				if c.isProbe() {
					return errDead
				}
				if c.op == op {
					time.Sleep(400 * time.Millisecond)
				}
				return err
			}
		}
		b.inner.breaks(dead)
		b.take(cheap("other"))
		b.wantTake(cheap("a"), true, true)

		// The drain finds the key in a slice that is healthy, and sends it to one that is not.
		b.inner.breaks(onlyA("", nil))
		move(func(k signpost.Key, asked int) string {
			if k == a && asked > 1 {
				return "bad"
			}
			return "good"
		})
		ctx, cancel := context.WithTimeout(b.Context(), time.Millisecond)
		defer cancel()
		b.store.Take(ctx, cheap("hasty")) // owes to a healthy slice, and so begins a drain
		synctest.Wait()
		if n := len(b.inner.seen("settle")); n != 1 {
			b.Errorf("settled %d times, want what the hasty one owes", n)
		}
		if _, dropped := b.events.counts(); dropped != 0 {
			b.Errorf("%d debts dropped", dropped)
		}

		// A take waits for the debt of its key in one slice, and meanwhile the key moves to another.
		b.inner.breaks(onlyA("settle", nil))
		move(func(signpost.Key, int) string { return "good" })
		time.AfterFunc(200*time.Millisecond, func() { move(func(signpost.Key, int) string { return "bad" }) })
		took := elapsed(func() { b.wantTake(cheap("a"), true, true) })
		if took != 400*time.Millisecond {
			b.Errorf("took %v, want as long as settling", took)
		}
		b.wantUsed(cheap("a"), 1)
		b.inner.breaks(nil)
		time.Sleep(time.Second)
		b.wantUsed(cheap("a"), 2)
	})
}
