// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package homes_test

import (
	"context"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/homes"
	"github.com/signposthq/signpost/store/memory"
	"github.com/signposthq/signpost/store/redis"
	"github.com/signposthq/signpost/store/storetest"
)

// spread gives each key a home by its digest, so that the suite, which knows of no homes, goes to all of them.
type spread struct {
	t testing.TB
	*homes.Store
}

var everyHome = []signpost.Home{nowhere, eu, us}

func (s spread) home(k signpost.Key) signpost.Key {
	if k.IsZero() {
		return k
	}
	return k.In(everyHome[int(k.Digest()[31])%len(everyHome)])
}

// away returns a lease as the suite expects it.
func (s spread) away(l signpost.Lease) signpost.Lease {
	if l.Key != s.home(l.Key) {
		s.t.Errorf("a lease of key %v says home %q, want %q", l.Key, l.Key.Home(), s.home(l.Key).Home())
	}
	l.Key = l.Key.In(nowhere)
	return l
}

func (s spread) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	q.Key = s.home(q.Key)
	d, c, err := s.Store.Take(ctx, q)
	d.Lease = s.away(d.Lease)
	return d, c, err
}

func (s spread) Peek(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	q.Key = s.home(q.Key)
	return s.Store.Peek(ctx, q)
}

func (s spread) Release(l signpost.Lease) {
	l.Key = s.home(l.Key)
	s.Store.Release(l)
}

func (s spread) Renew(ctx context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	l.Key = s.home(l.Key)
	l, err := s.Store.Renew(ctx, l, at)
	return s.away(l), err
}

func (s spread) Inspect(ctx context.Context, k signpost.Key, at signpost.Instant) (signpost.Inspection, error) {
	in, err := s.Store.Inspect(ctx, s.home(k), at)
	for i := range in.Leases {
		in.Leases[i] = s.away(in.Leases[i])
	}
	return in, err
}

func (s spread) Reset(ctx context.Context, k signpost.Key) error {
	return s.Store.Reset(ctx, s.home(k))
}

func (s spread) Settle(ctx context.Context, k signpost.Key, at signpost.Instant, counts []signpost.Count) error {
	return s.Store.Settle(ctx, s.home(k), at, counts)
}

// two opens a store of one home in memory and two on servers, each guarded as a fleet guards it.
func two(t testing.TB, inEU, inUS *redistest.Server) signpost.Store {
	t.Helper()
	at := map[signpost.Home]signpost.Store{nowhere: memory.New(memory.Options{})}
	for h, server := range map[signpost.Home]*redistest.Server{eu: inEU, us: inUS} {
		inner, err := redis.Open(t.Context(), redis.Options{URL: server.URL()})
		if err != nil {
			t.Fatal(err)
		}
		at[h], err = failopen.New(inner, failopen.Options{
			Timeout: time.Minute, // a slow machine is no outage
			Hooks:   failopen.Hooks{Failed: func(_ string, _ failopen.Kind, err error) { t.Errorf("home %q failed: %v", h, err) }},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := homes.New(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	return spread{t, s}
}

func TestStore(t *testing.T) {
	inEU, inUS := redistest.Start(t), redistest.Start(t)
	storetest.Run(t, storetest.Options{Open: func(t testing.TB) signpost.Store { return two(t, inEU, inUS) }})
}

// Where a key is at home changes nothing of what it is told.
func TestSameAtEveryHome(t *testing.T) {
	inEU, inUS := redistest.Start(t), redistest.Start(t)
	storetest.Same(t, map[string]func(testing.TB) signpost.Store{
		"one place":   func(testing.TB) signpost.Store { return memory.New(memory.Options{}) },
		"three homes": func(t testing.TB) signpost.Store { return two(t, inEU, inUS) },
	})
}
