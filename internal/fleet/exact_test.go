// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/disk"
	"github.com/signposthq/signpost/store/memory"
	"github.com/signposthq/signpost/store/redis"
	"github.com/signposthq/signpost/store/storetest"
)

// wrong are clocks that are off in both directions, by seconds and by more than a window.
var wrong = []time.Duration{0, 3 * time.Second, -3 * time.Second, 7 * time.Minute, -7 * time.Minute, 0, 90 * time.Minute, -26 * time.Hour}

// topologies are where a fleet can keep its count.
var topologies = map[string]func(testing.TB) string{
	"single": func(t testing.TB) string { return redistest.Start(t).URL() },
	"cluster": func(t testing.TB) string { // of three masters with a replica each
		masters, _ := redistest.ClusterOfPairs(t, 3)
		return masters[0].URL()
	},
}

// fleet starts n processes on one server, some guarded as the binary does it, most with wrong clocks.
func fleet(t testing.TB, url string, n int) (all []*process) {
	for i := range n {
		all = append(all, start(t, setup{URL: url, Guard: i%3 == 1}, wrong[i%len(wrong)]))
	}
	return all
}

// The contract holds for several processes whose clocks are wrong: among others that their histories are linearizable.
func TestContract(t *testing.T) {
	for name, topology := range topologies {
		t.Run(name, func(t *testing.T) {
			url := topology(t)
			storetest.Run(t, storetest.Options{
				Open: func(t testing.TB) signpost.Store { return start(t, setup{URL: url, Guard: true}, wrong[3]) },
				Clients: func(t testing.TB, n int) (all []signpost.Store) {
					for _, p := range fleet(t, url, n) {
						all = append(all, p)
					}
					return all
				},
			})
		})
	}
}

// One random stream of operations has the same answers everywhere: in memory, on a disk, on a server, on a Cluster, and through a process whose
// clock is wrong.
func TestSame(t *testing.T) {
	single, cluster := topologies["single"](t), topologies["cluster"](t)
	opened := func(s signpost.Store, err error) signpost.Store {
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	storetest.Same(t, map[string]func(testing.TB) signpost.Store{
		"memory": func(testing.TB) signpost.Store { return memory.New(memory.Options{}) },
		"disk": func(t testing.TB) signpost.Store {
			return opened(disk.Open(t.TempDir(), disk.Options{Sync: disk.SyncOff}))
		},
		"redis":   func(t testing.TB) signpost.Store { return opened(redis.Open(t.Context(), redis.Options{URL: single})) },
		"cluster": func(t testing.TB) signpost.Store { return opened(redis.Open(t.Context(), redis.Options{URL: cluster})) },
		"process": func(t testing.TB) signpost.Store {
			return start(t, setup{URL: topologies["single"](t), Guard: true}, wrong[4])
		},
	})
}

// Eight processes with thousands of takers cross the edges of windows, while most of their clocks step to and fro. Everything that they
// were told is one exact count.
func TestExact(t *testing.T) {
	for name, topology := range topologies {
		t.Run(name, func(t *testing.T) {
			all := fleet(t, topology(t), 8)
			for range 3 {
				l := &load{
					Prefix: "exact " + rand.Text(), Takers: 400, For: 5 * time.Second,
					Kinds: []kind{
						{Keys: 3, Bounds: []string{"50/s"}, Costs: []uint32{0, 1}},
						{Keys: 8, Bounds: []string{"7/s 20/2s 100/hour"}, Costs: []uint32{1, 1, 2, 5}},
						{Keys: 3, Bounds: []string{"40/s 100000/day", "25/s 100000/day", "60/s 120/2s"}, Costs: []uint32{1, 3}},
						{Keys: 100, Bounds: []string{"2/s 5/3s", "3/s 9/5s 1000/week"}, Costs: []uint32{1}},
						{Keys: 4, Bounds: []string{"100000/hour 5 concurrent", "100000/hour 3 concurrent"}, Costs: []uint32{1}, Leases: true},
						{Keys: 4, Bounds: []string{"9/s 2 concurrent"}, Costs: []uint32{1, 2}, Leases: true},
					},
				}
				sum := l.runIn(t, all)
				if sum.Unwell == 0 {
					proveLoad(t, l, sum, all[0])
					return
				}
				// What is proved holds while the server answers, and on a machine that is too busy it may be late for a process.
				t.Logf("the server did not answer %d takes in time; once more", sum.Unwell)
			}
			t.Error("the server was late three times")
		})
	}
}

// runIn loads the store of several processes at once, and returns what they were told.
func (l *load) runIn(t *testing.T, all []*process) *seen {
	t.Helper()
	for _, p := range all { // so that every node is connected
		for i := range 30 {
			q := signpost.Request{Key: signpost.KeyOf("warm", fmt.Sprint(i)), Bound: signpost.MustParseBound("1/s")}
			if _, _, err := p.Take(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
	}
	ended, jumped := make(chan struct{}), make(chan struct{})
	go func() { defer close(jumped); jump(t, all, ended) }()
	told := make(chan *seen, len(all))
	for _, p := range all {
		go func() {
			r, err := p.call(t.Context(), call{Op: "load", Load: l})
			if err != nil {
				t.Error(err)
				r.Seen = &seen{}
			}
			told <- r.Seen
		}()
	}
	var each []*seen
	for range all {
		each = append(each, <-told)
	}
	close(ended)
	<-jumped
	if t.Failed() {
		t.FailNow()
	}
	return together(each)
}

// proveLoad proves what all processes were told, and compares it with what is on the server.
func proveLoad(t *testing.T, l *load, sum *seen, s signpost.Store) {
	t.Helper()
	for _, fault := range sum.Faults {
		t.Error(fault)
	}
	ended := map[windowID]uint32{} // what is used of the last interval of each window
	full := 0
	for id, tally := range sum.Windows {
		used, err := tally.prove()
		if err != nil {
			t.Errorf("key %v, %v from %d: %v", id.Key, id.Len, id.Start, err)
		}
		for told := range tally.Looked {
			if told.Refused {
				full++
				break
			}
		}
		ended[id] = used
	}
	for id, told := range sum.Leases {
		if err := proveSlots(told); err != nil {
			t.Errorf("key %v: %v", id, err)
		}
	}
	// What a window holds that is still open is what was admitted.
	open := 0
	for i := range l.Kinds {
		for n := range l.Kinds[i].Keys {
			id := keyID{i, n}
			in, err := s.(signpost.Inspector).Inspect(t.Context(), l.key(id), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range in.Counts {
				open++
				if used := ended[windowID{id, c.Len, c.Start}]; used != c.Used {
					t.Errorf("key %v, %v from %d: the server counts %d, admitted were %d", id, c.Len, c.Start, c.Used, used)
				}
			}
			if len(in.Leases) != 0 {
				t.Errorf("key %v: %d leases are alive after all were given back", id, len(in.Leases))
			}
		}
	}
	seconds := map[signpost.Instant]bool{}
	for id := range sum.Windows {
		if id.Len == time.Second {
			seconds[id.Start] = true
		}
	}
	t.Logf("%d takes, %d admitted, in %d intervals of which %d were full, over %d seconds", sum.Takes, sum.Admitted, len(sum.Windows), full, len(seconds))
	if len(seconds) < 3 || full < 100 || open == 0 || sum.Admitted == 0 {
		t.Error("which is too little to prove anything")
	}
}
