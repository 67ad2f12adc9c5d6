// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"runtime"
	"testing"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/redis"
	"github.com/signposthq/signpost/store/storetest"
)

func open(t testing.TB, o redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// contract is what every topology is tested with.
func contract(o redis.Options) storetest.Options {
	one := func(t testing.TB) signpost.Store {
		s, err := redis.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return storetest.Options{
		Open: one,
		Reopen: func(t testing.TB, s signpost.Store) signpost.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return one(t)
		},
		KeepsLeases: true,
		Clients: func(t testing.TB, n int) (all []signpost.Store) {
			for range n {
				all = append(all, one(t))
			}
			return all
		},
	}
}

func TestStore(t *testing.T) {
	server := redistest.Start(t)
	storetest.Run(t, contract(redis.Options{URL: server.URL()}))
}

// What is closed leaves nothing behind.
func TestCloseLeavesNothing(t *testing.T) {
	single, nodes := redistest.Start(t), redistest.Cluster(t, 1)
	cycle := func(url string) {
		s, err := redis.Open(t.Context(), redis.Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		q := request("closed", "1000/day 5 concurrent")
		q.Expensive = true
		s.Release(take(t, s, q).Lease)
		s.Close()
		l, err := redis.OpenLinks(t.Context(), redis.Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	cycle(single.URL())
	before := runtime.NumGoroutine()
	const cycles = 20
	for range cycles {
		cycle(single.URL())
		cycle(nodes[0].URL())
		closed, err := redis.Open(t.Context(), redis.Options{URL: "redis://127.0.0.1:1"}) // where nothing is
		if err != nil {
			t.Fatal(err)
		}
		closed.Close()
	}
	single.Eventually("no goroutine is left", func() bool { return runtime.NumGoroutine() < before+cycles/2 })
}
