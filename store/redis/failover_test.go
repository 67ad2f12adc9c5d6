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

// handover are the kinds of outage that may be told while a master that is well gives its place to a replica: its connections end, or it
// says that it is none any more.
var handover = []failopen.Kind{failopen.Connection, failopen.Other}

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

// mustBeLeft has takes from fresh keys of a slice go on while its old master runs again, and believes that it still is one. It may
// run what it had been sent before it froze, and no more.
func mustBeLeft(t *testing.T, s *failopen.Store, slice string, old *redistest.Server) {
	t.Helper()
	old.Forget()
	takes := 0
	for i := range 1000 {
		if q := request(fmt.Sprint("thawed ", i), "5/366d"); s.Slice(q.Key) == slice {
			take(t, s, q)
			takes++
		}
	}
	if takes < 100 { // of a third of the keys in a Cluster of three
		t.Errorf("of 1000 keys %d are of %s", takes, slice)
	}
	// Each taker had at most one take under way, and so had the probe and the debt.
	if n := old.Calls("evalsha") + old.Calls("eval"); n > 10 {
		t.Errorf("of %d takes the old master was asked for %d", takes, n)
	}
}

func sentinelURL(sentinels []*redistest.Server) string {
	return fmt.Sprintf("redis://%s?addr=%s&addr=%s&master_set=%s", sentinels[0].Addr, sentinels[1].Addr, sentinels[2].Addr, redistest.MasterSet)
}

// A master is lost under load, and Sentinels put a replica in its place. Takes go on by local rules meanwhile, and then at the new
// master. What the old one had not passed on is lost: the excess is counted, and bounded.
func TestSentinelFailover(t *testing.T) {
	for _, how := range []struct {
		name    string
		timeout time.Duration
		begin   func(master *redistest.Server, sentinels []*redistest.Server)
		end     func(master *redistest.Server)
		kinds   []failopen.Kind
	}{
		{"killed", liveness, func(m *redistest.Server, _ []*redistest.Server) { m.Kill() }, nil, []failopen.Kind{failopen.Connection}},
		{"frozen", failoverTimeout, func(m *redistest.Server, _ []*redistest.Server) { m.Freeze() }, (*redistest.Server).Thaw, []failopen.Kind{failopen.Timeout}},
		{"asked", liveness, func(_ *redistest.Server, s []*redistest.Server) { s[1].Do("SENTINEL", "FAILOVER", redistest.MasterSet) }, nil, handover},
	} {
		t.Run(how.name, func(t *testing.T) {
			servers, sentinels := redistest.Sentinels(t, time.Second)
			s, e := guardWithin(t, how.timeout, redis.Options{URL: sentinelURL(sentinels)})
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
				mustBeLeft(t, s, s.Slice(requests[0].Key), servers[0])
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
			e.only(t, how.kinds...)
		})
	}
}

// A master of a Cluster is lost under load, and its replica takes its place: its keys are decided locally meanwhile, all others by
// the Cluster as if nothing had happened.
func TestClusterFailover(t *testing.T) {
	for _, how := range []struct {
		name    string
		timeout time.Duration
		begin   func(master, replica *redistest.Server)
		end     func(master *redistest.Server)
		kinds   []failopen.Kind
	}{
		{"killed", liveness, func(m, _ *redistest.Server) { m.Kill() }, nil, []failopen.Kind{failopen.Connection}},
		{"frozen", failoverTimeout, func(m, _ *redistest.Server) { m.Freeze() }, (*redistest.Server).Thaw, []failopen.Kind{failopen.Timeout, failopen.Connection}},
		{"asked", liveness, func(_, r *redistest.Server) { r.Do("CLUSTER", "FAILOVER") }, nil, handover},
	} {
		t.Run(how.name, func(t *testing.T) {
			masters, replicas := redistest.ClusterOfPairs(t, 3, "--cluster-node-timeout", "1000")
			s, e := guardWithin(t, how.timeout, redis.Options{URL: masters[0].URL() + "?addr=" + masters[1].Addr + "&addr=" + masters[2].Addr})
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
				replicas[1].Eventually("its slots have the name of the new master", func() bool { return s.Slice(requests[on[0]].Key) == replicas[1].Addr })
				mustBeLeft(t, s, replicas[1].Addr, masters[1])
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
			if healed > liveness {
				t.Errorf("takes were counted %v after the promotion", healed)
			}
			e.only(t, how.kinds...)
			// One that the replica shared would be one in which debts are lost: the client did not reach it yet.
			if len(e.slices) > 1 {
				t.Errorf("outages of %v, want one of %s at most", e.slices, lost)
			}
			for i := range requests {
				if !slices.Contains(on, i) && (c.local[i].Load() != 0 || c.exact[i].Load() != limit) {
					t.Errorf("a key of another node: %d admitted locally and %d by the Cluster, want 0 and %d", c.local[i].Load(), c.exact[i].Load(), limit)
				}
			}
		})
	}
}

// A Cluster that wants all slots served and has lost some, or that has lost most of its masters, answers CLUSTERDOWN for all keys,
// those of nodes that are well included. Without most masters nobody can promote a replica either.
func TestClusterDown(t *testing.T) {
	for _, how := range []struct {
		name  string
		start func() []*redistest.Server
		lost  int // the last of the masters
	}{
		{"some slots lost", func() []*redistest.Server {
			return redistest.Cluster(t, 3, "--cluster-require-full-coverage", "yes", "--cluster-node-timeout", "1000")
		}, 1},
		{"most masters lost", func() []*redistest.Server {
			masters, _ := redistest.ClusterOfPairs(t, 3, "--cluster-node-timeout", "1000")
			return masters
		}, 2},
	} {
		t.Run(how.name, func(t *testing.T) {
			nodes := how.start()
			well, lost := nodes[:3-how.lost], nodes[3-how.lost:]
			s, e := guard(t, redis.Options{URL: nodes[0].URL() + "?addr=" + nodes[1].Addr})
			const limit = 1000
			requests := many(30, fmt.Sprintf("%d/366d", limit))
			c := gather(t, s, 2, requests)
			nodes[0].Eventually("takes are admitted", func() bool { n, _ := c.most(); return n > 20 })
			for _, node := range lost {
				node.Kill()
			}
			for _, node := range well {
				node.Eventually("the Cluster is down", func() bool { return strings.Contains(node.Text("CLUSTER", "INFO"), "cluster_state:fail") })
			}
			nodes[0].Eventually("all keys are decided locally", func() bool {
				for _, q := range requests {
					if d := take(t, s, q); !d.Degraded {
						return false
					}
				}
				return true
			})
			e.mu.Lock()
			told := slices.ContainsFunc(e.causes, func(err error) bool { return strings.Contains(err.Error(), "CLUSTERDOWN") })
			if !told || !e.slices[nodes[0].Addr] {
				t.Errorf("outages of %v because of %v, want one of %s by CLUSTERDOWN", e.slices, e.causes, nodes[0].Addr)
			}
			e.mu.Unlock()
			e.only(t, failopen.Connection, failopen.Other)
			for _, node := range lost {
				node.Restart()
			}
			began := time.Now()
			for _, q := range requests {
				nodes[0].Eventually("the Cluster rules again", func() bool { return !take(t, s, q).Degraded })
			}
			c.end()
			total, local := c.most()
			t.Logf("counted again %v after the nodes were back; at most %d of %d admitted of a key, %d of them locally",
				time.Since(began).Round(time.Millisecond), total, limit, local)
			// The nodes that were lost have forgotten what they had counted: a limit before, one by local rules, and one after.
			if total > 3*limit || local > limit {
				t.Errorf("%d admitted of a key with a limit of %d, %d of them locally", total, limit, local)
			}
		})
	}
}
