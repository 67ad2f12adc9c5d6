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

// events are what a failopen.Store has told.
type events struct {
	mu       sync.Mutex
	degraded []failopen.Kind
	slices   map[string]bool
	causes   []error
	healed   int
	dropped  int
}

// only fails the test if an outage was of another kind.
func (e *events) only(t *testing.T, kinds ...failopen.Kind) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, kind := range e.degraded {
		if !slices.Contains(kinds, kind) {
			t.Errorf("an outage of the kind %s because of %v, want %v", kind, e.causes[i], kinds)
		}
	}
}

// outages returns how many there were, and how many are over.
func (e *events) outages() (begun, over int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.degraded), e.healed
}

// guard opens a store as everybody should use it, but for a timeout that no busy machine meets.
func guard(t testing.TB, o redis.Options) (*failopen.Store, *events) {
	t.Helper()
	return guardWithin(t, liveness, o)
}

// guardWithin is guard with another timeout.
func guardWithin(t testing.TB, timeout time.Duration, o redis.Options) (*failopen.Store, *events) {
	t.Helper()
	inner, err := redis.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	e := &events{slices: map[string]bool{}}
	s, err := failopen.New(inner, failopen.Options{Timeout: timeout, Hooks: failopen.Hooks{
		Degraded: func(slice string, kind failopen.Kind, cause error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.degraded, e.causes = append(e.degraded, kind), append(e.causes, cause)
			e.slices[slice] = true
		},
		Healed: func(string, time.Duration) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.healed++
		},
		DebtDropped: func(keys int, _ error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.dropped += keys
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, e
}

// TestOutage breaks a server in every way that one breaks. While it is broken every request is answered by the rules, and
// only one wave of requests waits; then it heals by itself, with what was admitted in the meantime added to the count.
func TestOutage(t *testing.T) {
	type world struct {
		*redistest.Server
		proxy *redistest.Proxy
	}
	for _, fault := range []struct {
		name     string
		settings []string
		begin    func(world)
		end      func(world)
		kinds    []failopen.Kind
		forgets  bool // the count of before is gone
		silent   bool // nobody says that it is broken
	}{
		{
			name:  "stopped",
			begin: func(w world) { w.Stop() }, end: func(w world) { w.Restart() },
			kinds: []failopen.Kind{failopen.Connection}, forgets: true,
		}, {
			name: "killed, with a log", settings: []string{"--appendonly", "yes", "--appendfsync", "always"},
			begin: func(w world) { w.Kill() }, end: func(w world) { w.Restart() },
			kinds: []failopen.Kind{failopen.Connection},
		}, {
			name:  "frozen",
			begin: func(w world) { w.Freeze() }, end: func(w world) { w.Thaw() },
			kinds: []failopen.Kind{failopen.Timeout}, silent: true,
		}, {
			name:  "a network that loses everything",
			begin: func(w world) { w.proxy.Lose(true) }, end: func(w world) { w.proxy.Lose(false) },
			kinds: []failopen.Kind{failopen.Timeout}, silent: true,
		}, {
			name:  "a latency of two seconds",
			begin: func(w world) { w.proxy.Delay(time.Second) }, end: func(w world) { w.proxy.Delay(0) },
			kinds: []failopen.Kind{failopen.Timeout}, silent: true,
		}, {
			name:  "out of memory",
			begin: func(w world) { w.Do("CONFIG", "SET", "maxmemory", "1") }, end: func(w world) { w.Do("CONFIG", "SET", "maxmemory", "0") },
			kinds: []failopen.Kind{failopen.Other},
		}, {
			name:  "a replica that cannot be written",
			begin: func(w world) { w.Do("REPLICAOF", "127.0.0.1", "1") }, end: func(w world) { w.Do("REPLICAOF", "NO", "ONE") },
			kinds: []failopen.Kind{failopen.Other},
		}, {
			name: "another password",
			begin: func(w world) {
				w.Do("ACL", "SETUSER", "signpost", "resetpass", ">changed")
				w.Do("CLIENT", "KILL", "USER", "signpost")
			},
			end:   func(w world) { w.Do("ACL", "SETUSER", "signpost", "resetpass", ">secret") },
			kinds: []failopen.Kind{failopen.Auth, failopen.Connection},
		}, {
			name:  "a permission less",
			begin: func(w world) { w.Do("ACL", "SETUSER", "signpost", "-set") }, end: func(w world) { w.Do("ACL", "SETUSER", "signpost", "+set") },
			kinds: []failopen.Kind{failopen.Auth},
		},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, append([]string{"--user", "signpost", "on", ">secret", "~*", "+@all"}, fault.settings...)...)
			w := world{Server: server, proxy: redistest.NewProxy(t, server.Addr)}
			timeout := liveness
			if fault.silent {
				timeout = 400 * time.Millisecond // so that the client has not given the connection up before
			}
			s, e := guardWithin(t, timeout, redis.Options{URL: "redis://signpost:secret@" + w.proxy.Addr})
			q := request("outage", "100000/366d")
			var taken atomic.Int64
			ask := func() signpost.Decision {
				taken.Add(1)
				return take(t, s, q)
			}
			// exact asks until the store itself answers: if the timeout is short, a machine that stands still is an outage of its own.
			exact := func() (d signpost.Decision) {
				server.Eventually("the store rules", func() bool { d = ask(); return !d.Degraded })
				return d
			}
			const before = 10
			for range before {
				if d := exact(); !d.Admitted {
					t.Fatal("before: refused")
				}
			}
			earlier := 0
			server.Eventually("all is well", func() bool {
				begun, over := e.outages()
				earlier = begun
				return begun == over
			})

			fault.begin(w)
			// A wave of requests, and then many one by one: were each to wait for the timeout, this would take a minute.
			const wave, more = 20, 150
			began := time.Now()
			var wg sync.WaitGroup
			for range wave {
				wg.Go(func() {
					if d := ask(); !d.Admitted || !d.Degraded {
						t.Errorf("first wave: admitted=%v degraded=%v, want an answer of the fallback", d.Admitted, d.Degraded)
					}
				})
			}
			wg.Wait()
			for range more {
				if d := ask(); !d.Admitted || !d.Degraded {
					t.Fatalf("during: admitted=%v degraded=%v, want an answer of the fallback", d.Admitted, d.Degraded)
				}
			}
			if took := time.Since(began); took > liveness {
				t.Errorf("%d requests took %v, as if each had waited", wave+more, took)
			}
			server.Eventually("an outage is told", func() bool { begun, _ := e.outages(); return begun > earlier }) // a moment after the callers
			e.mu.Lock()
			if len(e.degraded) != earlier+1 || !e.slices[w.proxy.Addr] || len(e.slices) != 1 {
				t.Errorf("%d outages of the slices %v, want one of %s", len(e.degraded)-earlier, e.slices, w.proxy.Addr)
			}
			if kind := e.degraded[earlier]; !slices.Contains(fault.kinds, kind) {
				t.Errorf("the outage is one of kind %s (%v), want %v", kind, e.causes[earlier], fault.kinds)
			}
			e.mu.Unlock()

			fault.end(w)
			// What was admitted meanwhile is owed, and counted once. What was sent and not answered may have been counted: the wave, and one take
			// of each other outage.
			last := exact()
			have := last.Windows()[0].Used
			most := uint32(taken.Load())
			begun, _ := e.outages()
			least := most - wave - uint32(begun-1)
			if fault.forgets {
				most, least = most-before, least-before
			}
			if have < least || have > most {
				t.Errorf("%d used after the outage, want %d to %d", have, least, most)
			}
			if e.dropped != 0 {
				t.Errorf("debt of %d keys was dropped", e.dropped)
			}
		})
	}
}

// What cannot be read of one key has nothing to do with others, and a reset makes it well.
func TestSpoiltKey(t *testing.T) {
	server := redistest.Start(t)
	s, e := guard(t, redis.Options{URL: server.URL()})
	spoilt, other := request("spoilt", "1000/366d 1000 concurrent"), request("other", "1000/366d")
	spoilt.Expensive, spoilt.LeaseID = true, signpost.NewLeaseID()
	for what, spoil := range map[string]func(string){
		"windows that are a list":    func(name string) { server.Do("DEL", name); server.Do("RPUSH", name, "x") },
		"windows of a newer version": func(name string) { server.Do("SET", name, "\x02something else") },
		"leases that are a string":   func(name string) { server.Do("SET", name+":leases", "x") },
	} {
		if err := s.Reset(t.Context(), other.Key); err != nil {
			t.Fatal(err)
		}
		take(t, s, spoilt)
		names, _ := server.Do("KEYS", "*:leases").AsStrSlice()
		spoil(strings.TrimSuffix(names[0], ":leases"))
		for range 20 {
			if d := take(t, s, spoilt); !d.Admitted || !d.Degraded {
				t.Errorf("%s: admitted=%v, degraded=%v, want a decision of the fallback", what, d.Admitted, d.Degraded)
			}
			if d := take(t, s, other); !d.Admitted || d.Degraded {
				t.Errorf("beside %s: admitted=%v, degraded=%v, want one of the store", what, d.Admitted, d.Degraded)
			}
		}
		if err := s.Reset(t.Context(), spoilt.Key); err != nil {
			t.Fatal(err)
		}
		if d := take(t, s, spoilt); d.Degraded || d.Windows()[0].Used != 1 {
			t.Errorf("%s, after a reset: degraded=%v, %d used, want 1", what, d.Degraded, d.Windows()[0].Used)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.degraded) != 0 || e.dropped != 0 {
		t.Errorf("outages %v because of %v, debts of %d keys dropped; want none", e.degraded, e.causes, e.dropped)
	}
}

// A take whose reply is lost with the connection has been counted, once: it is not sent again, and not owed. The lease that it was granted
// goes back.
func TestReplyLost(t *testing.T) {
	for _, expensive := range []bool{false, true} {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr)
		s, e := guardWithin(t, liveness, redis.Options{URL: proxy.URL()})
		warm := request("warm", "5/min 5 concurrent")
		warm.Expensive = expensive
		take(t, s, warm)
		server.Freeze()
		q := request("lost", "5/366d 5 concurrent")
		q.Expensive = expensive
		told := make(chan signpost.Decision, 1)
		before := proxy.Reached("EVALSHA")
		go func() { told <- take(t, s, q) }()
		server.Eventually("the take is with the server", func() bool { return proxy.Reached("EVALSHA") > before })
		proxy.Cut()
		if d := <-told; !d.Degraded || !d.Admitted || d.Lease.IsZero() == expensive {
			t.Errorf("expensive=%v: admitted=%v, degraded=%v, lease %v; want an answer of the fallback", expensive, d.Admitted, d.Degraded, d.Lease)
		}
		server.Thaw()
		server.Eventually("the store rules again", func() bool {
			p, _, err := s.Peek(t.Context(), q)
			return err == nil && !p.Degraded
		})
		server.Eventually("the lease is back", func() bool {
			in, err := s.Inspect(t.Context(), q.Key, 0)
			return err == nil && len(in.Leases) == 0
		})
		for want := uint32(1); want <= 5; want++ {
			if n := used(t, s, q); n != want {
				t.Errorf("expensive=%v: %d used, want %d", expensive, n, want)
			}
			if d := take(t, s, q); d.Degraded || d.Admitted != (want < 5) {
				t.Errorf("expensive=%v: take %d: admitted=%v, degraded=%v", expensive, want+1, d.Admitted, d.Degraded)
			} else {
				s.Release(d.Lease)
			}
		}
		e.only(t, failopen.Connection)
	}
}

// A master that was demoted keeps its connections. The address leads to the new one already, but only for who asks again.
func TestDemotedMaster(t *testing.T) {
	old, next := redistest.Start(t), redistest.Start(t)
	proxy := redistest.NewProxy(t, old.Addr)
	s, _ := guard(t, redis.Options{URL: proxy.URL()})
	q := request("demoted", "1000/366d")
	take(t, s, q)
	proxy.Point(next.Addr)
	old.Do("REPLICAOF", "127.0.0.1", "1")
	next.Eventually("the new master counts", func() bool {
		return !take(t, s, q).Degraded && next.Calls("set") > 0
	})
}

// One node of a Cluster that is lost degrades its own keys, and no others for a moment.
func TestLostShard(t *testing.T) {
	nodes := redistest.Cluster(t, 3)
	s, e := guardWithin(t, failoverTimeout, redis.Options{URL: nodes[0].URL() + "?addr=" + nodes[1].Addr})
	of := map[string][]signpost.Request{}
	for i := range 60 {
		q := request(fmt.Sprint("shard ", i), "1000/366d")
		of[s.Slice(q.Key)] = append(of[s.Slice(q.Key)], q)
		take(t, s, q)
	}
	if len(of) != 3 {
		t.Fatalf("60 keys are on %d nodes, want 3", len(of))
	}
	for _, how := range []struct{ begin, end func() }{
		{nodes[1].Freeze, nodes[1].Thaw},
		{nodes[1].Kill, nil}, // and without a replica it does not come back
	} {
		how.begin()
		for range 5 {
			for name, qs := range of {
				for _, q := range qs {
					if d := take(t, s, q); d.Degraded != (name == nodes[1].Addr) || !d.Admitted {
						t.Fatalf("a key of node %s: admitted=%v, degraded=%v while %s is lost", name, d.Admitted, d.Degraded, nodes[1].Addr)
					}
				}
			}
		}
		if how.end == nil {
			break
		}
		how.end()
		nodes[1].Eventually("the node is back", func() bool { return !take(t, s, of[nodes[1].Addr][0]).Degraded })
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.slices) != 1 || !e.slices[nodes[1].Addr] {
		t.Errorf("slices %v were degraded, want %s alone", e.slices, nodes[1].Addr)
	}
}
