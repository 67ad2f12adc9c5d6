// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/memory"
	"github.com/signposthq/signpost/store/redis"
	"github.com/signposthq/signpost/store/storetest"
)

// TestResharding moves the slots of keys from node to node and back while they are taken from, in all the states that a slot goes
// through on its way. No take fails, none is decided locally, and the count stays exact.
func TestResharding(t *testing.T) {
	nodes := redistest.Cluster(t, 3)
	s, e := guardWithin(t, failoverTimeout, redis.Options{URL: nodes[0].URL() + "?addr=" + nodes[1].Addr})
	requests := many(6, "1000000000/366d 1000 concurrent")
	for i := range requests { // two keys of a script: the state in which one is here and the other there is the worst
		requests[i].Expensive = i%2 == 0
	}
	c := gather(t, s, 4, requests)
	nodes[0].Eventually("takes are admitted", func() bool { n, _ := c.most(); return n > 50 })

	at := map[string]int{} // the node of each slot
	moves := 0
	for range 3 {
		for _, q := range requests {
			slot := slotOf(t, nodes[0], q)
			from := slices.IndexFunc(nodes, func(node *redistest.Server) bool { return node.Addr == claimed(t, nodes[0], slot) })
			at[slot] = (from + 1) % len(nodes)
			move(t, slot, nodes[from], nodes[at[slot]], nodes)
			moves++
		}
	}
	nodes[0].Eventually("the store knows where all keys are", func() bool {
		for _, q := range requests {
			if s.Slice(q.Key) != nodes[at[slotOf(t, nodes[0], q)]].Addr {
				return false
			}
		}
		return true
	})
	c.end()
	// Between the moves of its two keys a script cannot run. If that takes very long the take is decided locally, and owed.
	for i, q := range requests {
		got, local := c.exact[i].Load(), c.local[i].Load()
		nodes[0].Eventually(fmt.Sprintf("key %d: what was admitted, %d by the Cluster and %d locally, is counted once", i, got, local), func() bool {
			return int64(used(t, s, q)) == got+local
		})
		if n := c.refused[i].Load(); n != 0 {
			t.Errorf("key %d: %d were refused", i, n)
		}
	}
	for _, cause := range e.causes {
		if !strings.Contains(cause.Error(), "TRYAGAIN") {
			t.Errorf("an outage because of %v", cause)
		}
	}
	t.Logf("%d moves, outages because of %v", moves, e.causes)
	asked := 0
	for _, node := range nodes {
		asked += node.Calls("asking")
	}
	if asked == 0 {
		t.Error("no take met a slot that was on its way")
	}
}

// slotOf returns the slot of a key, as the server sees it.
func slotOf(t *testing.T, node *redistest.Server, q signpost.Request) string {
	tag := q.Key.Tag()
	slot, err := node.Do("CLUSTER", "KEYSLOT", fmt.Sprintf("{%x}", tag)).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(slot, 10)
}

// claimed returns the address of the node that has a slot, as a node sees it.
func claimed(t *testing.T, node *redistest.Server, slot string) string {
	t.Helper()
	ranges, err := node.Do("CLUSTER", "SLOTS").ToArray()
	if err != nil {
		t.Fatal(err)
	}
	number, _ := strconv.ParseInt(slot, 10, 64)
	for _, r := range ranges {
		fields, _ := r.ToArray()
		first, _ := fields[0].AsInt64()
		last, _ := fields[1].AsInt64()
		master, _ := fields[2].ToArray()
		if first <= number && number <= last {
			host, _ := master[0].ToString()
			port, _ := master[1].AsInt64()
			return net.JoinHostPort(host, strconv.FormatInt(port, 10))
		}
	}
	return ""
}

// move moves a slot as redis-cli does.
func move(t *testing.T, slot string, from, to *redistest.Server, all []*redistest.Server) {
	t.Helper()
	fromID, toID := from.Text("CLUSTER", "MYID"), to.Text("CLUSTER", "MYID")
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	host, port, _ := net.SplitHostPort(to.Addr)
	for {
		names, err := from.Do("CLUSTER", "GETKEYSINSLOT", slot, "1").AsStrSlice() // one by one, so that they are apart for a while
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 0 {
			break
		}
		from.Do("MIGRATE", host, port, names[0], "0", "5000")
	}
	for _, node := range append([]*redistest.Server{to, from}, all...) {
		node.Do("CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	// The new owner has given itself a new epoch. Another one may do so only when it knows of this.
	to.Eventually("all nodes know of the move", func() bool {
		epoch := epochOf(to)
		for _, node := range all {
			if epochOf(node) != epoch || claimed(t, node, slot) != to.Addr {
				return false
			}
		}
		return true
	})
}

func epochOf(node *redistest.Server) string {
	_, after, _ := strings.Cut(node.Text("CLUSTER", "INFO"), "cluster_current_epoch:")
	epoch, _, _ := strings.Cut(after, "\r")
	return epoch
}

// One random stream of operations is answered alike by memory and by every topology of servers.
func TestSameOnEveryTopology(t *testing.T) {
	single := redistest.Start(t)
	masters, _ := redistest.ClusterOfPairs(t, 3)
	_, sentinels := redistest.Sentinels(t, time.Minute)
	opens := map[string]func(testing.TB) signpost.Store{
		"memory": func(testing.TB) signpost.Store { return memory.New(memory.Options{}) },
	}
	for name, url := range map[string]string{
		"single":    single.URL(),
		"cluster":   masters[0].URL() + "?addr=" + masters[1].Addr + "&addr=" + masters[2].Addr,
		"sentinels": sentinelURL(sentinels),
	} {
		opens[name] = contract(redis.Options{URL: url}).Open
	}
	storetest.Same(t, opens)
}

// Through Sentinels a store is what it is otherwise.
func TestSentinels(t *testing.T) {
	_, sentinels := redistest.Sentinels(t, time.Minute)
	storetest.Run(t, contract(redis.Options{URL: sentinelURL(sentinels)}))
}
