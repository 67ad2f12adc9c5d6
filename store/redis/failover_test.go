// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/redis"
)

// failoverTimeout is long enough that a healthy node answers in time while the machine is busy with the failover of another.
const failoverTimeout = 2 * time.Second

// crowd takes from many keys without a pause, and remembers what was admitted.
type crowd struct {
	t        *testing.T
	requests []signpost.Request
	exact    []atomic.Int64 // admitted by the store
	local    []atomic.Int64 // admitted by the fallback
	refused  []atomic.Int64 // by the store
	slowest  atomic.Int64   // nanoseconds of the longest take
	stop     atomic.Bool
	all      sync.WaitGroup
}

// gather starts takers, each of which goes round the requests.
func gather(t *testing.T, s signpost.Store, takers int, requests []signpost.Request) *crowd {
	n := len(requests)
	c := &crowd{t: t, requests: requests, exact: make([]atomic.Int64, n), local: make([]atomic.Int64, n), refused: make([]atomic.Int64, n)}
	for k := range takers {
		c.all.Go(func() {
			for i := k; !c.stop.Load(); i++ {
				q := requests[i%n]
				if q.Expensive {
					q.LeaseID = signpost.NewLeaseID()
				}
				began := time.Now()
				d, _, err := s.Take(t.Context(), q)
				took := int64(time.Since(began))
				for old := c.slowest.Load(); took > old && !c.slowest.CompareAndSwap(old, took); old = c.slowest.Load() {
				}
				if !d.Lease.IsZero() {
					s.Release(d.Lease)
				}
				switch {
				case t.Context().Err() != nil: // the test has failed
					return
				case err != nil:
					t.Errorf("take: %v", err)
				case d.Degraded && d.Admitted:
					c.local[i%n].Add(1)
				case d.Admitted:
					c.exact[i%n].Add(1)
				case !d.Degraded:
					c.refused[i%n].Add(1)
				}
			}
		})
	}
	t.Cleanup(c.end)
	return c
}

func (c *crowd) end() {
	c.stop.Store(true)
	c.all.Wait()
}

// most returns the largest of what was admitted of one key, by everybody and by the fallback.
func (c *crowd) most() (total, local int64) {
	for i := range c.requests {
		total, local = max(total, c.exact[i].Load()+c.local[i].Load()), max(local, c.local[i].Load())
	}
	return total, local
}

// full waits until the store itself has refused every key.
func (c *crowd) full(server *redistest.Server) {
	c.t.Helper()
	server.Eventually("every key is full", func() bool {
		for i := range c.refused {
			if c.refused[i].Load() == 0 {
				return false
			}
		}
		return true
	})
}

func many(n int, bound string) []signpost.Request {
	var all []signpost.Request
	for i := range n {
		all = append(all, request(fmt.Sprint("failover ", i), bound))
	}
	return all
}

func sentinelURL(sentinels []*redistest.Server) string {
	return fmt.Sprintf("redis://%s?addr=%s&addr=%s&master_set=%s", sentinels[0].Addr, sentinels[1].Addr, sentinels[2].Addr, redistest.MasterSet)
}

// A master is lost under load, and Sentinels put a replica in its place. Takes go on by local rules meanwhile, and then at the new
// master. What the old one had not passed on is lost: the excess is counted, and bounded.
func TestSentinelFailover(t *testing.T) {
	for _, how := range []struct {
		name  string
		begin func(master *redistest.Server, sentinels []*redistest.Server)
		end   func(master *redistest.Server)
	}{
		{"killed", func(m *redistest.Server, _ []*redistest.Server) { m.Kill() }, nil},
		{"frozen", func(m *redistest.Server, _ []*redistest.Server) { m.Freeze() }, (*redistest.Server).Thaw},
		{"asked", func(_ *redistest.Server, s []*redistest.Server) { s[1].Do("SENTINEL", "FAILOVER", redistest.MasterSet) }, nil},
	} {
		t.Run(how.name, func(t *testing.T) {
			servers, sentinels := redistest.Sentinels(t)
			s, e := guardWithin(t, failoverTimeout, redis.Options{URL: sentinelURL(sentinels)})
			const limit = 3000
			requests := many(5, fmt.Sprintf("%d/366d", limit))
			c := gather(t, s, 4, requests)
			sentinels[0].Eventually("takes are admitted", func() bool { n, _ := c.most(); return n > 20 })

			began := time.Now()
			how.begin(servers[0], sentinels)
			var next *redistest.Server
			sentinels[0].Eventually("a replica is the master", func() bool {
				for _, r := range servers[1:] {
					if r.IsMaster() {
						next = r
					}
				}
				return next != nil
			})
			promoted := time.Since(began)
			next.Eventually("takes arrive at the new master", func() bool { return next.Calls("evalsha") > 0 })
			next.Eventually("the store rules", func() bool { return !take(t, s, requests[0]).Degraded })
			healed := time.Since(began)
			if how.end != nil {
				how.end(servers[0]) // and believes that it is the master, until it is told
			}
			c.full(next)
			next.Eventually("every key is full at the new master", func() bool { // some were at the old one, which went on for a moment
				for _, q := range requests {
					if d := take(t, s, q); d.Admitted || d.Degraded {
						return false
					}
				}
				return true
			})
			c.end()
			total, local := c.most()
			t.Logf("promoted after %v, counted there after %v; at most %d of %d admitted of a key, %d of them locally; slowest take %v; outages %v",
				promoted.Round(time.Millisecond), healed.Round(time.Millisecond), total, limit, local, time.Duration(c.slowest.Load()).Round(time.Millisecond), e.degraded)
			// A limit at the servers, and one by local rules: what a failover can cost is less than that.
			if total > 2*limit {
				t.Errorf("%d admitted of a key with a limit of %d", total, limit)
			}
		})
	}
}

// A master of a Cluster is lost under load, and its replica takes its place: its keys are decided locally meanwhile, all others by
// the Cluster as if nothing had happened.
func TestClusterFailover(t *testing.T) {
	for _, how := range []struct {
		name  string
		begin func(master, replica *redistest.Server)
		end   func(master *redistest.Server)
	}{
		{"killed", func(m, _ *redistest.Server) { m.Kill() }, nil},
		{"frozen", func(m, _ *redistest.Server) { m.Freeze() }, (*redistest.Server).Thaw},
		{"asked", func(_, r *redistest.Server) { r.Do("CLUSTER", "FAILOVER") }, nil},
	} {
		t.Run(how.name, func(t *testing.T) {
			masters, replicas := redistest.ClusterOfPairs(t, 3)
			s, e := guardWithin(t, failoverTimeout, redis.Options{URL: masters[0].URL() + "?addr=" + masters[1].Addr + "&addr=" + masters[2].Addr})
			const limit = 2000
			requests := many(12, fmt.Sprintf("%d/366d", limit))
			lost := masters[1].Addr
			var on []int // the requests whose keys are on the master that is lost
			for i, q := range requests {
				if s.Slice(q.Key) == lost {
					on = append(on, i)
				}
			}
			if len(on) == 0 || len(on) == len(requests) {
				t.Fatalf("%d of %d keys are on one node", len(on), len(requests))
			}
			c := gather(t, s, 4, requests)
			masters[0].Eventually("takes are admitted", func() bool { n, _ := c.most(); return n > 20 })

			began := time.Now()
			how.begin(masters[1], replicas[1])
			masters[0].Eventually("the replica is the master", replicas[1].IsMaster)
			promoted := time.Now()
			replicas[1].Eventually("takes arrive at the new master", func() bool { return replicas[1].Calls("evalsha") > 0 })
			replicas[1].Eventually("the store rules", func() bool { return !take(t, s, requests[on[0]]).Degraded })
			healed := time.Since(promoted)
			if how.end != nil {
				how.end(masters[1])
			}
			c.full(masters[0])
			c.end()
			total, local := c.most()
			t.Logf("promoted after %v, counted there %v later; at most %d of %d admitted of a key, %d of them locally; slowest take %v; outages %v of %v",
				promoted.Sub(began).Round(time.Millisecond), healed.Round(time.Millisecond), total, limit, local,
				time.Duration(c.slowest.Load()).Round(time.Millisecond), e.degraded, e.slices)
			if total > 2*limit {
				t.Errorf("%d admitted of a key with a limit of %d", total, limit)
			}
			if healed > 5*time.Second {
				t.Errorf("takes were counted %v after the promotion", healed)
			}
			for i := range requests {
				if !slices.Contains(on, i) && (c.local[i].Load() != 0 || c.exact[i].Load() != limit) {
					t.Errorf("a key of another node: %d admitted locally and %d by the Cluster, want 0 and %d", c.local[i].Load(), c.exact[i].Load(), limit)
				}
			}
		})
	}
}

// A Cluster that wants all slots served, and has lost some, answers CLUSTERDOWN for all of them.
func TestClusterDown(t *testing.T) {
	nodes := redistest.Cluster(t, 3, "--cluster-require-full-coverage", "yes")
	s, e := guard(t, redis.Options{URL: nodes[0].URL() + "?addr=" + nodes[1].Addr})
	requests := many(30, "1000/366d")
	for _, q := range requests {
		take(t, s, q)
	}
	nodes[2].Kill()
	nodes[0].Eventually("the Cluster is down", func() bool { return strings.Contains(nodes[0].Text("CLUSTER", "INFO"), "cluster_state:fail") })
	nodes[0].Eventually("every node knows", func() bool { return strings.Contains(nodes[1].Text("CLUSTER", "INFO"), "cluster_state:fail") })
	nodes[0].Eventually("all keys are decided locally", func() bool {
		for _, q := range requests {
			if d := take(t, s, q); !d.Degraded || !d.Admitted {
				return false
			}
		}
		return true
	})
	e.mu.Lock()
	told := slices.ContainsFunc(e.causes, func(err error) bool { return strings.Contains(err.Error(), "CLUSTERDOWN") })
	if !told || slices.Contains(e.degraded, failopen.Auth) {
		t.Errorf("outages of the kinds %v because of %v, want CLUSTERDOWN among them", e.degraded, e.causes)
	}
	e.mu.Unlock()
	nodes[2].Restart()
	for _, q := range requests {
		nodes[0].Eventually("the Cluster rules again", func() bool { return !take(t, s, q).Degraded })
	}
}
