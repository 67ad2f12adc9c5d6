// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
)

// wantInUse checks how many leases the store inside holds.
func (b *bench) wantInUse(q signpost.Request, want int) {
	b.Helper()
	in, err := b.inner.Store.Inspect(b.Context(), q.Key, 0)
	if err != nil {
		b.Fatal(err)
	}
	if len(in.Leases) != want {
		b.Errorf("the store holds %d leases, want %d", len(in.Leases), want)
	}
}

// A lease goes back to where it was granted, whatever has happened since.
func TestLeaseOrigin(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		stored := b.wantTake(expensive("a"), true, false)
		b.inner.breaks(dead)
		b.take(cheap("other"))
		first := b.wantTake(expensive("a"), true, true)
		second := b.wantTake(expensive("a"), true, true) // the fallback knows of no lease of the store
		if d := b.wantTake(expensive("a"), false, true); !d.ConcurrencyRefused || d.InUse != 2 {
			b.Errorf("refused with %+v, want for 2 in use", d)
		}
		if stored.Lease.Fallback || !first.Lease.Fallback || !second.Lease.Fallback {
			b.Error("a lease does not say where it was granted")
		}

		b.store.Release(stored.Lease) // does not free a slot of the fallback, though the store is degraded
		b.wantInUse(expensive("a"), 0)
		b.wantTake(expensive("a"), false, true)

		b.waitHealed()
		b.store.Release(first.Lease) // does not travel, though the store is healthy
		if n := len(b.inner.seen("release")); n != 1 {
			b.Errorf("%d releases travelled, want that of the store's own lease", n)
		}
		b.inner.breaks(dead)
		b.take(cheap("other"))
		b.wantTake(expensive("a"), true, true)
		b.wantTake(expensive("a"), false, true)
	})
}

// The fallback forgets leases when it is cleared. What it held before frees nothing after that.
func TestLeasesFromBeforeAClear(t *testing.T) {
	inBubble(t, failopen.Options{FallbackKeys: 4}, func(b *bench) {
		b.inner.breaks(dead)
		b.take(cheap("other"))
		old := []signpost.Decision{b.wantTake(expensive("a"), true, true), b.wantTake(expensive("a"), true, true)}
		b.wantTake(expensive("a"), false, true)
		for n := range 4 {
			b.take(cheap(fmt.Sprint(n)))
		}
		if cleared, _ := b.events.counts(); cleared != 1 {
			b.Fatalf("cleared %d times, want once", cleared)
		}
		b.wantTake(expensive("a"), true, true)
		b.wantTake(expensive("a"), true, true)
		for _, d := range old {
			b.store.Release(d.Lease)
		}
		if d := b.wantTake(expensive("a"), false, true); d.InUse != 2 {
			b.Errorf("%d in use, want 2", d.InUse)
		}
	})
}

func TestRenew(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		stored := b.wantTake(expensive("a"), true, false)
		time.Sleep(20 * time.Second)
		renewed, err := b.store.Renew(b.Context(), stored.Lease, 0)
		if err != nil || renewed.Expires.Sub(stored.Lease.Expires) != 20*time.Second || renewed.Fallback {
			b.Errorf("renew a lease of the store: %+v, %v", renewed, err)
		}
		b.inner.breaks(dead)
		b.take(cheap("other"))
		if _, err := b.store.Renew(b.Context(), stored.Lease, 0); !errors.Is(err, failopen.ErrDegraded) || errors.Is(err, signpost.ErrLeaseGone) {
			b.Errorf("renew a lease of a degraded store: error %v, want ErrDegraded", err)
		}
		local := b.wantTake(expensive("a"), true, true)
		b.waitHealed()
		before := len(b.inner.seen("renew"))
		time.Sleep(20 * time.Second)
		renewed, err = b.store.Renew(b.Context(), local.Lease, 0)
		if err != nil || !renewed.Fallback || renewed.Expires.Sub(local.Lease.Expires) < 20*time.Second {
			b.Errorf("renew a lease of the fallback: %+v, %v", renewed, err)
		}
		b.store.Release(renewed)
		if _, err := b.store.Renew(b.Context(), renewed, 0); !errors.Is(err, signpost.ErrLeaseGone) {
			b.Errorf("renew a lease that was given back: error %v, want ErrLeaseGone", err)
		}
		if n := len(b.inner.seen("renew")); n != before {
			b.Errorf("%d renewals of the fallback's leases travelled", n-before)
		}
		if _, err := b.store.Renew(b.Context(), signpost.Lease{Key: stored.Lease.Key, ID: signpost.NewLeaseID()}, 0); !errors.Is(err, signpost.ErrLeaseGone) {
			b.Errorf("renew a lease that never was: error %v, want ErrLeaseGone", err)
		}
	})
}

// A lease whose answer nobody got does not hold its slot: it is given back after the reply, not before.
func TestLostLeaseIsGivenBack(t *testing.T) {
	late := 1500 * time.Millisecond
	for name, end := range map[string]func(b *bench, q signpost.Request){
		"timeout": func(b *bench, q signpost.Request) { b.wantTake(q, true, true) },
		"short deadline": func(b *bench, q signpost.Request) {
			ctx, cancel := context.WithTimeout(b.Context(), 20*time.Millisecond)
			defer cancel()
			if d, _, err := b.store.Take(ctx, q); err != nil || !d.Degraded || !d.Lease.Fallback {
				b.Errorf("take: %+v, %v", d, err)
			}
		},
		"cancelled": func(b *bench, q signpost.Request) {
			ctx, cancel := context.WithCancel(b.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			if _, _, err := b.store.Take(ctx, q); !errors.Is(err, context.Canceled) {
				b.Errorf("take: %v", err)
			}
		},
		"degraded by another": func(b *bench, q signpost.Request) {
			time.AfterFunc(20*time.Millisecond, func() {
				b.inner.breaks(dead)
				b.take(cheap("other"))
			})
			b.wantTake(q, true, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, failopen.Options{}, func(b *bench) {
				b.inner.breaks(slow(late))
				q := expensive("a")
				begin := time.Now()
				end(b, q)
				if n := len(b.inner.seen("release")); n != 0 {
					b.Error("given back before the reply")
				}
				time.Sleep(time.Until(begin.Add(late)))
				synctest.Wait()
				if calls := b.inner.seen("release"); len(calls) != 1 || calls[0].at.Sub(begin) != late {
					b.Errorf("given back %v, want once, after the reply at 1.5s", calls)
				}
				b.wantInUse(q, 0)
				b.wantUsed(q, 1) // what was counted stays
			})
		})
	}
}

// A refusal that came too late granted nothing.
func TestLateRefusalGivesNothingBack(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.take(expensive("a"))
		b.take(expensive("a"))
		b.inner.breaks(slow(1500 * time.Millisecond))
		b.take(expensive("a"))
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(b.inner.seen("release")); n != 0 {
			b.Errorf("%d leases given back, want none", n)
		}
		b.wantInUse(expensive("a"), 2)
	})
}
