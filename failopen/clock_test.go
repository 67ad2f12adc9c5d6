// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
)

// A process whose clock is not the store's judges an outage in the store's windows all the same, and pays what it owes into them.
func TestOutageByTheStoresClock(t *testing.T) {
	for _, ahead := range []time.Duration{7 * time.Minute, -7 * time.Minute, 30 * time.Second, 400 * 24 * time.Hour} {
		for _, policy := range []failopen.Policy{failopen.Local, failopen.Allow, failopen.Deny} {
			inBubble(t, failopen.Options{Cheap: policy}, func(b *bench) {
				b.inner.ahead = ahead
				b.wantTake(cheap("a"), true, false)
				time.Sleep(5 * time.Second) // the monotonic clock carries it on
				b.inner.breaks(dead)
				b.take(cheap("other")) // degrades; it was sent
				synctest.Wait()
				now := func() signpost.Instant { return signpost.InstantOf(time.Now().Add(ahead)) }
				d := b.wantTake(cheap("a"), policy != failopen.Deny, true)
				if off := d.At.Sub(now()); off < -time.Millisecond || off > time.Millisecond {
					b.Errorf("%s, a store that is %v ahead: decided for an instant that is off by %v", policy, ahead, off)
				}
				if p, _, err := b.store.Peek(b.Context(), cheap("a")); err != nil || p.At != d.At {
					b.Errorf("a peek is for %d, error %v; want %d", p.At, err, d.At)
				}
				if in, err := b.store.Inspect(b.Context(), cheap("a").Key, 0); err == nil || in.At != d.At {
					b.Errorf("an inspection is for %d, error %v; want %d", in.At, err, d.At)
				}
				if policy != failopen.Local {
					return
				}
				held := b.wantTake(expensive("leases"), true, true)
				time.Sleep(10 * time.Second)
				if l, err := b.store.Renew(b.Context(), held.Lease, 0); err != nil || l.Expires != held.Lease.Expires.Add(10*time.Second) {
					b.Errorf("a lease until %d is renewed until %d, error %v", held.Lease.Expires, l.Expires, err)
				}
				b.waitHealed()
				q := cheap("a")
				q.At = now()
				b.wantUsed(q, 2)
			})
		}
	}
}

// The store's clock may be set, in either direction: what it said last holds.
func TestTheStoresClockIsSet(t *testing.T) {
	for _, to := range []time.Duration{time.Hour, -time.Hour, 0} {
		inBubble(t, failopen.Options{}, func(b *bench) {
			b.inner.ahead = 30 * time.Minute
			b.wantTake(cheap("a"), true, false)
			b.inner.ahead = to
			b.wantTake(cheap("b"), true, false)
			b.inner.breaks(dead)
			b.take(cheap("other"))
			if off := b.wantTake(cheap("a"), true, true).At.Sub(signpost.InstantOf(time.Now().Add(to))); off < -time.Millisecond || off > time.Millisecond {
				b.Errorf("a clock that was set to be %v ahead: decided for an instant that is off by %v", to, off)
			}
		})
	}
}
