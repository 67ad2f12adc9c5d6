// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"runtime"
	"sync"
	"time"
)

// Run is one measurement of takes in memory.
type Run struct {
	Limiter  string
	Windows  int // 1 or 2
	Refuse   bool
	Keys     int
	Parallel bool          // one goroutine per processor, else one
	For      time.Duration // after a warm-up of a quarter of it
}

// Figures is what a run found.
type Figures struct {
	Ops    int
	Ns     float64 // wall time per take, over all goroutines
	Allocs float64 // heap allocations per take
	// Wrong is how many takes were answered otherwise than the run is about.
	Wrong int
}

const (
	admitLimit  = 1_000_000_000 // no run reaches it
	refuseLimit = 1             // used up before the run
)

// Do measures. Every key is created before, and taken in each goroutine at least once while the clock
// runs. A process should do it once: some rivals leave goroutines behind that would burn the next one's time.
func (r Run) Do(l Limiter) Figures {
	f, _ := withinOneHour(func() (Figures, error) { return r.once(l), nil })
	return f
}

// withinOneHour does again what the turn of an hour has disturbed: refusals that would be admitted, and the other way
// round. Every limiter here reads the real clock.
func withinOneHour[T any](once func() (T, error)) (T, error) {
	for {
		hour := time.Now().Truncate(time.Hour)
		if found, err := once(); time.Now().Truncate(time.Hour).Equal(hour) {
			return found, err
		}
	}
}

func (r Run) once(l Limiter) Figures {
	limit := uint32(admitLimit)
	if r.Refuse {
		limit = refuseLimit
	}
	take := l.New(Windows(r.Windows, limit))
	// Created in order and under strings of their own: a request, too, brings a string that no map has seen.
	created := Callers(r.Keys)
	for i := range created {
		take(&created[i])
	}
	callers := Shuffled(r.Keys)
	goroutines := 1
	if r.Parallel {
		goroutines = runtime.GOMAXPROCS(0)
	}
	return figures(take, callers, goroutines, !r.Refuse, r.For)
}

// figures warms up for a quarter of the time, and measures.
func figures[T any](ask func(*T) bool, all []T, goroutines int, want bool, d time.Duration) Figures {
	walk(ask, all, goroutines, want, d/4)
	runtime.GC()

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f := walk(ask, all, goroutines, want, d)
	runtime.ReadMemStats(&after)
	f.Allocs = float64(after.Mallocs-before.Mallocs) / float64(f.Ops)
	return f
}

// walk asks for one after the other, round and round, in each goroutine from another place, until the time is over and
// each goroutine has been at every one of them.
func walk[T any](ask func(*T) bool, all []T, goroutines int, want bool, d time.Duration) Figures {
	const chunk = 1024 // asked between two looks at the clock
	found := make([]Figures, goroutines)
	start := make(chan struct{})
	var begin time.Time
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			<-start
			i, ops, wrong := g*len(all)/goroutines, 0, 0
			for ops < len(all) || time.Since(begin) < d {
				for range chunk {
					if ask(&all[i]) != want {
						wrong++
					}
					if i++; i == len(all) {
						i = 0
					}
				}
				ops += chunk
			}
			found[g] = Figures{Ops: ops, Wrong: wrong}
		})
	}
	begin = time.Now()
	close(start)
	wg.Wait()
	elapsed := time.Since(begin)

	var f Figures
	for _, g := range found {
		f.Ops += g.Ops
		f.Wrong += g.Wrong
	}
	f.Ns = float64(elapsed.Nanoseconds()) / float64(f.Ops)
	return f
}

// Heap is what a limiter keeps of its keys.
type Heap struct {
	BytesPerKey float64
	FirstTakeNs float64 // of the take that makes a key
}

// HeapOf makes n keys of two windows. All that a limiter keeps of a caller is counted, the string as well.
func HeapOf(l Limiter, n int) Heap {
	take := l.New(Windows(2, admitLimit))
	before := liveHeap()
	var elapsed time.Duration
	for made := 0; made < n; {
		batch := make([]Caller, min(heapBatch, n-made))
		for i := range batch {
			batch[i] = callerOf(made + i)
		}
		made += len(batch)
		begin := time.Now()
		for i := range batch {
			take(&batch[i])
		}
		elapsed += time.Since(begin)
	}
	after := liveHeap()
	runtime.KeepAlive(take)
	return Heap{
		BytesPerKey: float64(after-before) / float64(n),
		FirstTakeNs: float64(elapsed.Nanoseconds()) / float64(n),
	}
}

const heapBatch = 10_000

// liveHeap returns the bytes in use after a collection. Twice, because what a finalizer held goes with the second.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
