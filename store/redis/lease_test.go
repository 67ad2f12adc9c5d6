// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/redis"
)

// However many leases are still to be given back, and however slowly the server takes them, a program that ends does not wait for all.
func TestCloseDoesNotWaitForEveryLease(t *testing.T) {
	slow := redistest.NewProxy(t, redistest.Start(t).Addr)
	s := open(t, redis.Options{URL: slow.URL()})
	slow.Delay(300 * time.Millisecond)
	for i := range 8000 { // 32 batches, each 600 ms
		s.Release(signpost.Lease{Key: signpost.KeyOf("leases", strconv.Itoa(i)), ID: signpost.LeaseID{1}, Expires: 1})
	}
	began := time.Now()
	s.Close()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Close took %v, want two or three seconds", took)
	}
}

// Leases of a node that is lost, however many, hold up none of the others.
func TestLostShardHoldsUpNoLease(t *testing.T) {
	nodes := redistest.Cluster(t, 3)
	s := open(t, redis.Options{URL: nodes[0].URL() + "?addr=" + nodes[1].Addr})
	const many = 400 // more than a batch
	held := map[string][]signpost.Lease{}
	for i := 0; len(held[nodes[1].Addr]) < many; i++ {
		q := request(fmt.Sprint("lease ", i), "5/366d 1 concurrent")
		q.Expensive = true
		if at := s.Slice(q.Key); at == nodes[1].Addr || len(held[at]) < 10 {
			held[at] = append(held[at], take(t, s, q).Lease)
		}
	}
	lost := held[nodes[1].Addr]
	delete(held, nodes[1].Addr)
	nodes[1].Freeze()
	for _, l := range lost {
		s.Release(l)
	}
	began := time.Now()
	for _, leases := range held {
		for _, l := range leases {
			s.Release(l)
		}
	}
	back := func(l signpost.Lease) func() bool {
		return func() bool {
			in, err := s.Inspect(t.Context(), l.Key, 0)
			return err == nil && len(in.Leases) == 0
		}
	}
	for _, leases := range held {
		for _, l := range leases {
			nodes[0].Eventually("a lease of a node that is well is back", back(l))
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("leases of nodes that are well took %v to go back", took)
	}
	nodes[1].Thaw()
	for _, l := range lost {
		nodes[1].Eventually("a lease of the node that was lost is back", back(l))
	}
	if took := time.Since(began); took > signpost.LeaseLife*2/3 {
		t.Errorf("leases of the node that was lost took %v to go back, as if by expiry", took)
	}
}

// A lease that did not arrive is sent again when the server is back.
func TestLeaseGoesBackAfterAnOutage(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, redis.Options{URL: server.URL()})
	q := request("outage", "5/366d 1 concurrent")
	q.Expensive = true
	d := take(t, s, q)
	server.Kill()
	s.Release(d.Lease)
	server.Eventually("it is sent, in vain", func() bool { return redis.SendsReleases(s) })
	server.Restart()
	server.Eventually("the lease is back", func() bool {
		in, err := s.Inspect(t.Context(), q.Key, 0)
		if err == nil && in.At > d.At.Add(signpost.LeaseLife*2/3) {
			t.Fatal("the lease is held, as if until it expires")
		}
		return err == nil && len(in.Leases) == 0
	})
}
