// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package hold_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/hold"
	"github.com/signposthq/signpost/store/memory"
)

// slow is a store whose renewals come back when they are given up.
type slow struct {
	*memory.Store
	renewing chan struct{}
}

func (s *slow) Renew(ctx context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	renewed, err := s.Store.Renew(ctx, l, at)
	s.renewing <- struct{}{}
	<-ctx.Done()
	return renewed, err
}

// A lease that is left to lapse is not given back, whether or not a renewal is under way, and is renewed no more.
func TestLapse(t *testing.T) {
	for _, wait := range []time.Duration{0, signpost.LeaseLife / 3} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{memory.New(memory.Options{}), make(chan struct{}, 1)}
			l := signpost.New(s, signpost.Options{})
			at := signpost.InstantOf(time.Now())
			q := signpost.Request{Key: signpost.KeyOf("test", "a"), Bound: signpost.MustParseBound("100/365d 1 concurrent"), Expensive: true, At: at, LeaseID: signpost.NewLeaseID()}
			d, err := l.Take(t.Context(), q)
			if err != nil || !d.Admitted {
				t.Fatal(d, err)
			}
			var h hold.Hold
			h.Begin(l, d.Lease)
			if wait > 0 {
				<-s.renewing
			}
			h.Lapse()
			h.End()
			synctest.Wait()
			q.LeaseID = signpost.NewLeaseID()
			q.At = at.Add(wait + signpost.LeaseLife - time.Second)
			if d, err = l.Take(t.Context(), q); err != nil || d.Admitted {
				t.Errorf("after %v: the lease was given back: %v", wait, err)
			}
			time.Sleep(signpost.LeaseLife)
			q.At = at.Add(wait + signpost.LeaseLife + time.Second)
			if d, err = l.Take(t.Context(), q); err != nil || !d.Admitted {
				t.Errorf("after %v: the lease goes on: %v", wait, err)
			}
		})
	}
}

// Work that ends while its lease is being renewed gives the renewal up, and the lease back at once.
func TestEndWhileRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{memory.New(memory.Options{}), make(chan struct{}, 1)}
		l := signpost.New(s, signpost.Options{})
		var h hold.Hold
		h.Begin(l, take(t, l).Lease)
		<-s.renewing
		h.End()
		synctest.Wait()
		if !take(t, l).Admitted {
			t.Error("the lease waits for a renewal that nobody needs")
		}
	})
}

// A renewal that does not come back is given up in time for another one.
func TestARenewalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{memory.New(memory.Options{}), make(chan struct{}, 100)}
		l := signpost.New(s, signpost.Options{})
		var h hold.Hold
		h.Begin(l, take(t, l).Lease)
		time.Sleep(signpost.LeaseLife - time.Second)
		if n := len(s.renewing); n < 2 {
			t.Errorf("%d renewals before the lease would have ended, want another try", n)
		}
		h.End()
	})
}

// A lease that is neglected is renewed no more, whether or not a renewal is under way, and ends by itself.
func TestNeglect(t *testing.T) {
	for _, underWay := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{memory.New(memory.Options{}), make(chan struct{}, 100)}
			l := signpost.New(s, signpost.Options{})
			var h hold.Hold
			d := take(t, l)
			h.Begin(l, d.Lease)
			if underWay {
				<-s.renewing
			}
			h.Neglect()
			time.Sleep(2 * signpost.LeaseLife)
			if len(s.renewing) > 0 || !take(t, l).Admitted {
				t.Errorf("underWay=%v: the lease goes on", underWay)
			}
			h.End()
		})
	}
}

// If the work ends before, the lease is given back at once.
func TestNeglectAndEnd(t *testing.T) {
	l := signpost.New(memory.New(memory.Options{}), signpost.Options{})
	var h hold.Hold
	d := take(t, l)
	h.Begin(l, d.Lease)
	h.Neglect()
	if take(t, l).Admitted {
		t.Error("the lease was given back before the work has ended")
	}
	h.End()
	if !take(t, l).Admitted {
		t.Error("the lease goes on")
	}
}

// take asks for the only slot.
func take(t *testing.T, l *signpost.Limiter) signpost.Decision {
	t.Helper()
	d, err := l.Take(t.Context(), signpost.Request{
		Key: signpost.KeyOf("test", "a"), Bound: signpost.MustParseBound("100/365d 1 concurrent"), Expensive: true, At: signpost.InstantOf(time.Now()), LeaseID: signpost.NewLeaseID(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
