// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"math"
	"net/http"
	"runtime"
	"testing"

	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/store/memory"
)

// discard is a ResponseWriter with the faces of net/http's, at no cost of its own.
type discard struct {
	*spy
	h http.Header
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

func overMemory(t testing.TB, o httpdoor.Options, bound string) http.Handler {
	o.Identify = caller(bound)
	return wrap(t, memory.New(memory.Options{}), o, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
}

// What a cheap request costs over the bare handler is five allocations: the pass, the copy of the request, two for
// the counters, and the writer's faces.
func TestAllocations(t *testing.T) {
	door := overMemory(t, httpdoor.Options{}, "4294967294/hour")
	r, w := get(), &discard{newSpy(), http.Header{}}
	if got := testing.AllocsPerRun(1000, func() {
		clear(w.h)
		door.ServeHTTP(w, r)
	}); got > 5 {
		t.Errorf("%v allocations, want at most 5", got)
	}
}

func TestNoGoroutineForCheapWork(t *testing.T) {
	before, least := runtime.NumGoroutine(), math.MaxInt
	door := wrap(t, memory.New(memory.Options{}), httpdoor.Options{Identify: caller("1000/min")}, func(http.ResponseWriter, *http.Request) {
		least = min(least, runtime.NumGoroutine())
	})
	for range 100 { // what an earlier test has left may have one for a moment
		record(door, get())
	}
	if least > before {
		t.Errorf("%d goroutines during the work each time, %d before", least, before)
	}
}

func BenchmarkDoor(b *testing.B) {
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{
		{"bare", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })},
		{"cheap", overMemory(b, httpdoor.Options{}, "4294967294/hour")},
		{"expensive", overMemory(b, httpdoor.Options{Classify: allExpensive}, "4294967294/hour 1000 concurrent")},
		{"refused", overMemory(b, httpdoor.Options{}, "0/hour")},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			r, w := get(), &discard{newSpy(), http.Header{}}
			for b.Loop() {
				clear(w.h)
				c.handler.ServeHTTP(w, r)
			}
		})
	}
}
