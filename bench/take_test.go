// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signposthq/signpost"
)

func TestCallersAreDistinct(t *testing.T) {
	const n = 100_000
	callers := Shuffled(n)
	ids, keys := map[string]bool{}, map[signpost.Key]bool{}
	for _, c := range callers {
		if len(c.ID) != 17 {
			t.Fatalf("id %q has %d bytes, want 17", c.ID, len(c.ID))
		}
		ids[c.ID], keys[c.Key] = true, true
	}
	if len(ids) != n || len(keys) != n {
		t.Errorf("%d ids and %d keys, want %d of each", len(ids), len(keys), n)
	}
}

// A figure for 100,000 keys must be one of 100,000 keys: here is a limiter that notes who came.
func TestEveryKeyIsTouched(t *testing.T) {
	for _, parallel := range []bool{false, true} {
		for _, n := range []int{1, 100_000} {
			var mu sync.Mutex
			touched := map[string]int{}
			spy := Limiter{New: func([]signpost.Window) Take {
				return func(c *Caller) bool {
					mu.Lock()
					defer mu.Unlock()
					touched[c.ID]++
					return true
				}
			}}
			f := Run{Windows: 2, Keys: n, Parallel: parallel}.Do(spy)
			if len(touched) < n {
				t.Errorf("parallel %t: %d keys were touched, want %d", parallel, len(touched), n)
			}
			for id, times := range touched {
				if times < 2 { // once when created, so at least once more while measured
					t.Fatalf("parallel %t: %s was taken once only: it was created and not measured", parallel, id)
				}
			}
			if f.Ops < n {
				t.Errorf("parallel %t: %d takes, fewer than %d keys", parallel, f.Ops, n)
			}
		}
	}
}

func TestHeapOfMakesEveryKey(t *testing.T) {
	const n = heapBatch + 1
	touched := map[string]bool{}
	spy := Limiter{New: func([]signpost.Window) Take {
		return func(c *Caller) bool { touched[c.ID] = true; return true }
	}}
	if got := HeapOf(spy, n); got.BytesPerKey <= 17 {
		t.Errorf("a map of the ids is %.0f bytes a key, less than the ids", got.BytesPerKey)
	}
	if len(touched) != n {
		t.Errorf("%d keys were touched, want %d", len(touched), n)
	}
}

// A wrong answer must show in the figures, or a limiter that refuses everything would look fast.
func TestWrongAnswersAreCounted(t *testing.T) {
	no := Limiter{New: func([]signpost.Window) Take { return func(*Caller) bool { return false } }}
	if f := (Run{Windows: 1, Keys: 1}).Do(no); f.Wrong != f.Ops {
		t.Errorf("%d wrong of %d, want all", f.Wrong, f.Ops)
	}
	if f := (Run{Windows: 1, Keys: 1, Refuse: true}).Do(no); f.Wrong != 0 {
		t.Errorf("%d wrong of %d, want none", f.Wrong, f.Ops)
	}
}

func TestLimitersAnswerRightInARun(t *testing.T) {
	for _, l := range Limiters() {
		t.Run(l.Name, func(t *testing.T) {
			for _, r := range []Run{
				{Windows: 1, Keys: 1},
				{Windows: 2, Keys: 1},
				{Windows: 1, Keys: 2000, Parallel: true},
				{Windows: 2, Keys: 2000, Parallel: true},
				{Windows: 2, Keys: 1, Refuse: true},
				{Windows: 2, Keys: 2000, Refuse: true, Parallel: true},
			} {
				if f := r.Do(l); f.Wrong != 0 {
					t.Errorf("%+v: %d of %d answers are wrong", r, f.Wrong, f.Ops)
				}
			}
		})
	}
}

// Each window must bind, the second too, and each caller for itself. Signpost refuses a bound whose second window
// could bind alone at once; that its second window binds is the store tests' matter.
func TestLimitersHoldEachWindow(t *testing.T) {
	const plenty = admitLimit
	for _, l := range Limiters() {
		t.Run(l.Name, func(t *testing.T) {
			for _, ws := range [][]signpost.Window{
				{{Len: day, Limit: 5}},
				{{Len: time.Hour, Limit: 5}, {Len: day, Limit: 5}},
				{{Len: time.Hour, Limit: 5}, {Len: day, Limit: plenty}},
				{{Len: time.Hour, Limit: plenty}, {Len: day, Limit: 5}},
			} {
				if len(ws) == 2 && ws[1].Limit < ws[0].Limit && strings.HasPrefix(l.Name, Signpost) {
					continue
				}
				admitted, _ := withinOneHour(func() ([2]int, error) {
					take, callers := l.New(ws), Callers(2)
					var admitted [2]int
					for i := range callers {
						for range 20 {
							if take(&callers[i]) {
								admitted[i]++
							}
						}
					}
					return admitted, nil
				})
				if admitted != [2]int{5, 5} {
					t.Errorf("%v: two callers were admitted %v times, want 5 each", ws, admitted)
				}
			}
		})
	}
}

func TestLimitersAreExactUnderConcurrency(t *testing.T) {
	const limit, goroutines, takes = 100, 16, 200
	for _, l := range Limiters() {
		t.Run(l.Name, func(t *testing.T) {
			admitted, _ := withinOneHour(func() (int32, error) {
				take, callers := l.New([]signpost.Window{{Len: day, Limit: limit}}), Callers(1)
				var admitted atomic.Int32
				var wg sync.WaitGroup
				for range goroutines {
					wg.Go(func() {
						for range takes {
							if take(&callers[0]) {
								admitted.Add(1)
							}
						}
					})
				}
				wg.Wait()
				return admitted.Load(), nil
			})
			if admitted != limit {
				t.Errorf("admitted %d of %d, want %d", admitted, goroutines*takes, limit)
			}
		})
	}
}

const day = 24 * time.Hour
