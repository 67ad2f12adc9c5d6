// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
)

// full returns a request on a key that all processes know to be full.
func full(t testing.TB, all []*process, id, bound string) signpost.Request {
	t.Helper()
	q := signpost.Request{Key: signpost.KeyOf("fleet", id), Bound: signpost.MustParseBound(bound)}
	for range 100 {
		refused := 0
		for _, p := range all {
			d, _, err := p.Take(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if !d.Admitted {
				refused++
			}
		}
		if refused == len(all) {
			return q
		}
	}
	t.Fatalf("%v does not fill", q.Bound)
	return q
}

// Three processes that are flooded with takes of a full key cost the server one command a second each, by its own statistics.
func TestFlood(t *testing.T) {
	server := redistest.Start(t)
	all := fleet(t, server.URL(), 3)
	q := full(t, all, "flood", "3/183d 3/366d")
	server.Forget()
	began := time.Now()
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() {
			r, err := p.call(t.Context(), call{Op: "flood", Request: bytesOf(&q), For: 2500 * time.Millisecond})
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d refusals in one process", r.Calls)
		})
	}
	wg.Wait()
	// One as soon as a second has passed since the last, so one more than there are seconds.
	most := len(all) * (1 + int(time.Since(began)/time.Second))
	if n := server.Calls("evalsha") + server.Calls("eval"); n > most || n < len(all) {
		t.Errorf("the flood was %d commands, want from %d to %d", n, len(all), most)
	}
}

// What one process resets shows within a second in others that had been refusing by themselves, and a bound that is raised holds at once.
func TestResetShows(t *testing.T) {
	server := redistest.Start(t)
	all := fleet(t, server.URL(), 3)
	var shown []time.Duration
	for i := range 6 {
		q := full(t, all, fmt.Sprint("reset ", i), "5/366d")
		admitted := make(chan int64, 2)
		for _, p := range all[1:] {
			go func() {
				r, err := p.call(t.Context(), call{Op: "admitted", Request: bytesOf(&q)})
				if err != nil {
					t.Error(err)
				}
				admitted <- r.When
			}()
		}
		reset, err := all[0].call(t.Context(), call{Op: "reset", Key: bytesOf(&q.Key)})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			shown = append(shown, time.Duration(<-admitted-reset.When))
		}
	}
	slices.Sort(shown)
	t.Logf("resets showed after %v", shown)
	// Half of them have to be in time, so that a machine that is busy elsewhere fails nothing.
	if got := shown[len(shown)/2-1]; got > 2*time.Second {
		t.Errorf("half of the resets showed within %v, want a second and a round trip", got)
	}

	q := full(t, all, "raised", "5/366d")
	q.Bound = signpost.MustParseBound("8/366d")
	for i, p := range all {
		if d, _, err := p.Take(t.Context(), q); err != nil || !d.Admitted || d.Windows()[0].Used != uint32(6+i) {
			t.Errorf("the first take of a raised bound: admitted=%v with %d used, error %v", d.Admitted, d.Windows()[0].Used, err)
		}
	}
	if d, _, err := all[0].Take(t.Context(), q); err != nil || d.Admitted {
		t.Errorf("the ninth of eight: admitted=%v, error %v", d.Admitted, err)
	}
}
