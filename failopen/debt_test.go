// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
)

// The whole story in one: a second quota during the outage and no third one after it.
func TestOutageCountsOnce(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		for range 5 {
			b.wantTake(cheap("a"), true, false)
		}
		time.Sleep(10 * time.Second)
		b.inner.breaks(dead)
		for range 5 {
			b.wantTake(cheap("a"), true, true)
		}
		if d := b.wantTake(cheap("a"), false, true); d.RetryAfterSeconds() != 50 {
			b.Errorf("refused for %ds, want 50s", d.RetryAfterSeconds())
		}
		b.waitHealed()
		b.wantUsed(cheap("a"), 9) // the first of the five was sent, and may have been counted
		time.Sleep(8800 * time.Millisecond)
		if d := b.wantTake(cheap("a"), false, false); d.RetryAfterSeconds() != 40 {
			b.Errorf("refused for %ds, want 40s", d.RetryAfterSeconds())
		}
		time.Sleep(40 * time.Second)
		b.wantTake(cheap("a"), true, false)
		b.wantUsed(cheap("a"), 1)
	})
}

func TestDebtIsSettledOnceBeforeTheNextTake(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(dead)
		b.take(cheap("other")) // degrades; it was sent
		q := cheap("a")
		q.Cost = 2
		b.wantTake(q, true, true)
		b.wantTake(q, true, true)
		b.wantTake(q, false, true) // a refusal owes nothing
		p, _, err := b.store.Peek(b.Context(), q)
		if err != nil || !p.Degraded || p.Windows()[0].Used != 4 {
			b.Errorf("peek: %+v, %v", p, err)
		}

		// Settling takes a while, so that everybody who comes in the meantime has to wait for it.
		b.inner.breaks(func(_ context.Context, c called) error {
			if c.op == "settle" {
				time.Sleep(400 * time.Millisecond)
			}
			return nil
		})
		time.Sleep(failopen.ProbeEvery)
		synctest.Wait()
		var wg sync.WaitGroup
		admitted := 0
		var mu sync.Mutex
		for range 10 {
			wg.Go(func() {
				if d := b.take(cheap("a")); d.Degraded {
					b.Error("a take did not wait for what its key owes")
				} else if d.Admitted {
					mu.Lock()
					admitted++
					mu.Unlock()
				}
			})
		}
		b.wantInstant(func() { b.wantTake(cheap("third"), true, false) }) // owes nothing
		wg.Wait()
		if admitted != 1 {
			b.Errorf("%d admitted beside 4 that were owed, want 1", admitted)
		}
		settles := b.inner.seen("settle")
		if len(settles) != 1 || settles[0].key != q.Key || len(settles[0].counts) != 1 || settles[0].counts[0].Used != 4 {
			b.Errorf("settled %+v, want 4 once", settles)
		}
		b.wantUsed(cheap("a"), 5)
		b.wantUsed(cheap("other"), 0)
		if _, dropped := b.events.counts(); dropped != 0 {
			b.Errorf("%d debts dropped", dropped)
		}
	})
}

// Other processes see what was owed, even if the key is not taken from here again.
func TestDebtIsSettledInTheBackground(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(dead)
		b.take(cheap("first"))
		for n := range 100 {
			b.wantTake(cheap(fmt.Sprint(n)), true, true)
		}
		b.waitHealed()
		for n := range 100 {
			b.wantUsed(cheap(fmt.Sprint(n)), 1)
		}
		if n := len(b.inner.seen("settle")); n != 100 {
			b.Errorf("settled %d times, want 100", n)
		}
	})
}

// Debt is added whatever the limit: the store then shows more than it allows.
func TestDebtAboveTheLimit(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		for range 4 {
			b.wantTake(cheap("a"), true, false)
		}
		b.inner.breaks(dead)
		b.take(cheap("other"))
		for range 5 {
			b.wantTake(cheap("a"), true, true)
		}
		b.waitHealed()
		b.wantUsed(cheap("a"), 9)
		b.wantTake(cheap("a"), false, false)
	})
}

func TestDebtEndsWithItsWindow(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		q := cheap("a")
		q.Bound = signpost.MustParseBound("5/min 100/hour")
		b.inner.breaks(dead)
		b.take(cheap("other"))
		for range 3 {
			b.wantTake(q, true, true)
			b.wantTake(cheap("minute only"), true, true)
		}
		time.Sleep(2 * time.Minute)
		b.wantTake(q, true, true)
		b.waitHealed()
		b.wantUsed(q, 1)
		settles := b.inner.seen("settle")
		if len(settles) != 1 {
			b.Fatalf("settled %+v, want one key", settles)
		}
		if c := settles[0].counts; len(c) != 2 || c[0].Used != 1 || c[1].Used != 4 {
			b.Errorf("settled %+v, want 1 of this minute and 4 of this hour", c)
		}
	})
}

// A debt that may have arrived is over.
func TestDebtThatFailsIsNotSentAgain(t *testing.T) {
	for name, broken := range map[string]func(context.Context, called) error{"dead": dead, "blackhole": blackhole} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, failopen.Options{}, func(b *bench) {
				b.inner.breaks(dead)
				b.take(cheap("other"))
				b.wantTake(cheap("a"), true, true)
				b.inner.breaks(func(ctx context.Context, c called) error {
					if c.op == "settle" {
						return broken(ctx, c)
					}
					return nil
				})
				time.Sleep(failopen.ProbeEvery)
				synctest.Wait()
				b.wantTake(cheap("a"), true, true) // waited for the debt, was not sent, and is owed itself
				if _, dropped := b.events.counts(); dropped != 1 {
					b.Errorf("%d debts dropped, want 1", dropped)
				}
				b.waitHealed()
				b.wantUsed(cheap("a"), 1)
				b.wantTake(cheap("a"), true, false)
				if n := len(b.inner.seen("settle")); n != 2 {
					b.Errorf("settled %d times, want the failure and the second debt", n)
				}
			})
		})
	}
}

// What timed out may have been counted.
func TestTimedOutTakeIsNotOwed(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(slow(1500 * time.Millisecond)) // and is counted, late
		b.wantTake(cheap("a"), true, true)
		time.Sleep(time.Second)
		b.waitHealed()
		b.wantUsed(cheap("a"), 1)
		if n := len(b.inner.seen("settle")); n != 0 {
			b.Errorf("settled %d times, want never", n)
		}
	})
}

type noSettler struct{ signpost.Store }

func TestDebtToAStoreThatCannotSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, ev := newInner(), &events{}
		s, err := failopen.New(noSettler{in}, failopen.Options{Hooks: ev.hooks()})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{T: t, inner: in, store: s, events: ev}
		in.breaks(dead)
		b.take(cheap("other"))
		b.wantTake(cheap("a"), true, true)
		b.waitHealed()
		if _, dropped := ev.counts(); dropped != 1 {
			t.Errorf("%d debts dropped, want 1", dropped)
		}
		b.wantTake(cheap("a"), true, false)
		if log := ev.all(); len(log) != 2 {
			t.Errorf("events %q: a debt that cannot be settled is no outage", log)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The fallback is cleared at the 1,025th key, not at the 1,024th, and what was owed goes with it.
func TestFallbackIsCleared(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(dead)
		b.take(cheap("a")) // sent
		for range 4 {
			b.wantTake(cheap("a"), true, true)
		}
		for n := range failopen.DefaultFallbackKeys - 1 {
			b.wantTake(cheap(fmt.Sprint(n)), true, true)
		}
		b.wantTake(cheap("a"), false, true)
		if cleared, dropped := b.events.counts(); cleared != 0 || dropped != 0 {
			b.Fatalf("cleared %d times at the 1,024th key", cleared)
		}
		b.wantTake(cheap("one too many"), true, true)
		if cleared, dropped := b.events.counts(); cleared != 1 || dropped != failopen.DefaultFallbackKeys {
			b.Errorf("cleared %d times and dropped %d debts, want 1 and 1,024", cleared, dropped)
		}
		b.wantTake(cheap("a"), true, true)
		b.waitHealed()
		b.wantUsed(cheap("a"), 1)
		b.wantUsed(cheap("one too many"), 1)
		b.wantUsed(cheap("7"), 0)
	})
}

// Keys that come and go do not pile up as debtors while an outage lasts.
func TestEndedDebtMakesRoom(t *testing.T) {
	inBubble(t, failopen.Options{FallbackKeys: 10}, func(b *bench) {
		b.inner.breaks(dead)
		b.take(cheap("first"))
		for minute := range 20 {
			for n := range 8 {
				b.wantTake(cheap(fmt.Sprint(minute, n)), true, true)
			}
			time.Sleep(time.Minute)
		}
		b.wantTake(cheap("last"), true, true)
		if cleared, dropped := b.events.counts(); cleared != 0 || dropped != 0 {
			b.Errorf("cleared %d times, %d debts dropped, want none", cleared, dropped)
		}
		b.waitHealed()
		if n := len(b.inner.seen("settle")); n != 1 {
			b.Errorf("%d debts settled, want the one that is open", n)
		}
	})
}

// A short deadline makes a debt to a store that works: it is settled without an outage.
func TestDebtToAHealthyStore(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		ctx, cancel := context.WithTimeout(b.Context(), 3*time.Millisecond)
		defer cancel()
		d, _, err := b.store.Take(ctx, cheap("a"))
		if err != nil || !d.Admitted || !d.Degraded {
			b.Errorf("take: %+v, %v", d, err)
		}
		synctest.Wait()
		b.wantUsed(cheap("a"), 1)
		b.wantTake(cheap("a"), true, false)
		b.wantUsed(cheap("a"), 2)
		if log := b.events.all(); len(log) != 0 {
			b.Errorf("events %q", log)
		}
	})
}

// Many takers, an outage and a healing in between: nothing is lost and nothing counted twice.
func TestDebtUnderConcurrency(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		bound := signpost.MustParseBound("1000000/hour")
		key := signpost.KeyOf("test", "hot")
		var mu sync.Mutex
		admitted := map[bool]int{} // by whether degraded
		var wg sync.WaitGroup
		for n := range 20 {
			wg.Go(func() {
				for range 400 {
					time.Sleep(time.Duration(n+1) * time.Millisecond)
					if d := b.take(signpost.Request{Key: key, Bound: bound}); d.Admitted {
						mu.Lock()
						admitted[d.Degraded]++
						mu.Unlock()
					}
				}
			})
		}
		for range 8 {
			time.Sleep(250 * time.Millisecond)
			b.inner.breaks(dead)
			time.Sleep(250 * time.Millisecond)
			b.inner.breaks(nil)
		}
		wg.Wait()
		b.waitHealed()
		sentToTheDead := b.events.failures(failopen.Other) // takes and probes: what was sent is not owed
		healed := len(b.events.all()) / 2
		lost := sentToTheDead - (len(b.inner.probes()) - healed)
		d, _, _ := b.inner.Store.Peek(b.Context(), signpost.Request{Key: key, Bound: bound})
		if used, want := int(d.Windows()[0].Used), admitted[false]+admitted[true]-lost; used != want {
			b.Errorf("the store has counted %d, want %d (%v admitted, %d sent to a dead store)", used, want, admitted, lost)
		}
		if admitted[false] == 0 || admitted[true] == 0 {
			b.Errorf("admitted %v: the test saw only one side", admitted)
		}
	})
}

// Counts from elsewhere, such as those of a Store of this package in another process, are owed like takes.
func TestSettle(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		now := signpost.InstantOf(time.Now())
		counts := []signpost.Count{{Len: time.Minute, Start: now - now%60_000, Used: 2}}
		key := cheap("a").Key
		settle := func() {
			b.Helper()
			if err := b.store.Settle(b.Context(), key, 0, counts); err != nil {
				b.Errorf("settle: %v", err)
			}
		}
		settle()
		b.wantUsed(cheap("a"), 2)
		b.inner.breaks(dead)
		b.take(cheap("other"))
		settle()
		p, _, _ := b.store.Peek(b.Context(), cheap("a"))
		if !p.Degraded || p.Windows()[0].Used != 2 {
			b.Errorf("the fallback shows %+v, want the 2 that were settled", p)
		}
		b.waitHealed()
		b.wantUsed(cheap("a"), 4)
	})
}
