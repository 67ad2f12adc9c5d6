// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/redis"
)

// A flood on a full key costs the server at most one command a second, and every answer is the one that it would give.
func TestFloodOnAFullKey(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	for _, expensive := range []bool{false, true} {
		q := request(fmt.Sprint("flood ", expensive), "3/183d 3/366d 10 concurrent")
		q.Expensive = expensive
		var last signpost.Decision
		for range 4 {
			last = take(t, s, q)
		}
		server.Forget()
		began := time.Now()
		for range 3000 {
			d := take(t, s, q)
			if d.Admitted || d.Windows()[0] != last.Windows()[0] || d.Windows()[1] != last.Windows()[1] || d.RetryAfter() > last.RetryAfter() || d.At < last.At {
				t.Fatalf("a refusal in the flood:\n got %+v\nwant %+v, or a little later", d, last)
			}
		}
		if n, most := server.Calls("evalsha"), 1+int(time.Since(began)/time.Second); n > most {
			t.Errorf("3000 refusals in %v were %d commands, want at most %d", time.Since(began), n, most)
		}
	}
}

// A fact is about a count: it refuses by the cost and the limit that are asked for now.
func TestFactsAreOfCounts(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	q := request("facts", "10/366d")
	q.Cost = 8
	take(t, s, q)
	if take(t, s, q).Admitted {
		t.Fatal("16 of 10 were admitted")
	}
	q.Cost = 1
	if d := take(t, s, q); !d.Admitted || d.Windows()[0].Used != 9 {
		t.Errorf("a cost that fits: admitted=%v, %d used", d.Admitted, d.Windows()[0].Used)
	}
	q.Cost = 5
	if take(t, s, q).Admitted {
		t.Fatal("14 of 10 were admitted")
	}
	q.Bound = signpost.MustParseBound("14/366d")
	if d := take(t, s, q); !d.Admitted || d.Windows()[0].Used != 14 {
		t.Errorf("a raised limit: admitted=%v, %d used", d.Admitted, d.Windows()[0].Used)
	}
	if take(t, s, q).Admitted {
		t.Fatal("19 of 14 were admitted")
	}
	q.Bound = signpost.MustParseBound("14/90d")
	if d := take(t, s, q); !d.Admitted || d.Windows()[0].Used != 5 {
		t.Errorf("another window: admitted=%v, %d used", d.Admitted, d.Windows()[0].Used)
	}
	q.Bound = signpost.MustParseBound("14/366d")
	if take(t, s, q).Admitted {
		t.Fatal("19 of 14 were admitted")
	}
	if err := s.Reset(t.Context(), q.Key); err != nil {
		t.Fatal(err)
	}
	if d := take(t, s, q); !d.Admitted {
		t.Error("a key that this process has reset is refused")
	}
	q = request("lengths", "3/100d")
	q.Cost = 3
	take(t, s, q)
	if take(t, s, q).Admitted {
		t.Fatal("6 of 3 were admitted")
	}
	q.Bound = signpost.MustParseBound("3/366d") // which began before that
	if d := take(t, s, q); !d.Admitted || d.Windows()[0].Used != 3 {
		t.Errorf("a window of another length in the same place: admitted=%v, %d used", d.Admitted, d.Windows()[0].Used)
	}
}

// Time goes on for what a process refuses by itself.
func TestFactsTellTheTime(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	q := request("time", "1/366d")
	take(t, s, q)
	const pause = 100 * time.Millisecond
	var first, d signpost.Decision
	server.Eventually("it is refused without a question", func() bool {
		first = take(t, s, q)
		refused := false
		d, refused = redis.RefuseLate(s, q, -pause)
		return refused
	})
	if late := d.At.Sub(first.At); late < pause || first.RetryAfter()-d.RetryAfter() != late {
		t.Errorf("%v later: decided %v later, with a wait of %v after one of %v", pause, late, d.RetryAfter(), first.RetryAfter())
	}
}

// What another process resets shows soon, and so does the next window.
func TestFactsEnd(t *testing.T) {
	server := redistest.Start(t)
	s, other := open(t, redis.Options{URL: server.URL()}), open(t, redis.Options{URL: server.URL()})
	q := request("reset", "1/366d")
	take(t, s, q)
	take(t, s, q)
	if err := other.Reset(t.Context(), q.Key); err != nil {
		t.Fatal(err)
	}
	server.Eventually("the reset shows", func() bool { return take(t, s, q).Admitted })

	q = request("turns", "3/s")
	admitted := map[signpost.Instant]int{}
	server.Eventually("five windows have turned", func() bool {
		d := take(t, s, q)
		w := d.Windows()[0]
		if d.Admitted {
			admitted[w.Start]++
		} else if d.At < w.Start || d.At >= w.Reset() || d.RetryAfter() > time.Second {
			t.Errorf("refused at %d in the second of %d, with a wait of %v", d.At, w.Start, d.RetryAfter())
		}
		return len(admitted) == 6
	})
	for start, n := range admitted {
		if n > 3 {
			t.Errorf("%d were admitted in the second of %d, want at most 3", n, start)
		}
	}
}

// Answers that arrive late, after somebody asked again, are no reason to ask once more.
func TestLateAnswersDoNotAsk(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	q := request("late answers", "1/366d")
	take(t, s, q)
	d := take(t, s, q)
	began := time.Now()
	server.Forget()
	before, year := d, signpost.Instant((366 * 24 * time.Hour).Milliseconds()) // of the interval before
	before.At -= year
	before.Windows()[0].Start -= year
	for range 100 {
		redis.LearnLate(s, q, before, 1500*time.Millisecond)
		if got := take(t, s, q); got.Admitted || got.At < d.At || got.Windows()[0] != d.Windows()[0] {
			t.Fatalf("a full key: admitted=%v at %d by %+v, want a refusal at %d or later by %+v", got.Admitted, got.At, got.Windows()[0], d.At, d.Windows()[0])
		}
	}
	if n, most := server.Calls("evalsha"), 1+int(time.Since(began)/time.Second); n > most {
		t.Errorf("100 refusals between late answers were %d commands, want at most %d", n, most)
	}
}

// A caller that was held up is not refused at an instant before that of the count which refuses it.
func TestFactsOfTheFuture(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	q := request("late", "1/366d")
	take(t, s, q)
	known := take(t, s, q)
	for _, ago := range []time.Duration{time.Minute, time.Hour, 400 * 24 * time.Hour} {
		if d, refused := redis.RefuseLate(s, q, ago); !refused || d.At != known.At || d.Windows()[0] != known.Windows()[0] {
			t.Errorf("held up for %v: refused=%v at %d by %+v, want at %d by %+v", ago, refused, d.At, d.Windows()[0], known.At, known.Windows()[0])
		}
	}
}

// Concurrency is asked about each time: the moment that a lease is back, another one can have it.
func TestConcurrencyIsNoFact(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	q := request("concurrency", "100000/366d 1 concurrent")
	q.Expensive = true
	for range 5 {
		d := take(t, s, q)
		if !d.Admitted {
			t.Fatal("a free slot was refused")
		}
		server.Forget()
		for range 10 {
			if take(t, s, q).Admitted {
				t.Fatal("a slot was granted twice")
			}
		}
		if n := server.Calls("evalsha"); n != 10 {
			t.Errorf("10 takes at the concurrency were %d commands", n)
		}
		s.Release(d.Lease)
		server.Eventually("the lease is back", func() bool { return server.Calls("zrem") > 0 })
	}
}

// More full keys than are remembered, from many goroutines: what is forgotten is asked again, and refused again.
func TestManyFacts(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 1500 {
				q := request(fmt.Sprint("many ", g, " ", i), "0/366d")
				for range 2 {
					if d := take(t, s, q); d.Admitted || !d.Never {
						t.Errorf("a limit of 0: admitted=%v never=%v", d.Admitted, d.Never)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := redis.Known(s); n > 16*1024 || n == 0 {
		t.Errorf("%d facts are known, want at most 16384", n)
	}
}
