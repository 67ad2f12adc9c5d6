// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// Durable is one subject of the measurement on disk.
type Durable struct {
	Name string
	How  string
	// Hot says that all callers share one key, else each has a share of the keys of its own.
	Hot bool
	// Open makes the subject in an empty directory. One call of do is one durable operation; its error says that it
	// was not that.
	Open func(dir string) (do func(c *Caller) error, closeIt func() error, err error)
}

// The names of the rows that the report compares.
const (
	LogGrowing      = "bare log, growing file"
	LogPreallocated = "bare log, preallocated file"
	DiskExpensive   = "signpost, expensive + release"
)

// preallocation holds what a run of a few seconds appends on a fast disk.
const preallocation = 256 << 20

// Durables returns every subject, the logs first.
func Durables() []Durable {
	return []Durable{
		{Name: LogGrowing, How: "append 64 bytes, fdatasync, group commit; decides nothing", Open: openLog(0)},
		{Name: LogPreallocated, How: "the same into 256 MiB written before", Open: openLog(preallocation)},
		{Name: "signpost", How: "a take of two windows, durable", Open: openSignpost(false)},
		{Name: DiskExpensive, How: "the same with the concurrency bound, a lease and its release", Open: openSignpost(true)},
		{Name: "signpost, one hot key", How: "a take of two windows, all callers on one key", Hot: true, Open: openSignpost(false)},
	}
}

// FindDurable returns the subject of that name.
func FindDurable(name string) (Durable, error) {
	for _, d := range Durables() {
		if d.Name == name {
			return d, nil
		}
	}
	return Durable{}, fmt.Errorf("find durable subject: there is none called %q", name)
}

func openLog(preallocate int64) func(dir string) (func(*Caller) error, func() error, error) {
	return func(dir string) (func(*Caller) error, func() error, error) {
		log, err := CreateLog(filepath.Join(dir, "log"), preallocate, fdatasync)
		if err != nil {
			return nil, nil, err
		}
		do := func(c *Caller) error {
			var record [recordSize]byte
			copy(record[:], c.ID)
			return log.Append(&record)
		}
		return do, log.Close, nil
	}
}

// DurableRun is one measurement on disk: so many callers, each of whom waits for its answer before it asks again.
type DurableRun struct {
	Subject string
	Callers int
	Keys    int
	For     time.Duration // after a warm-up of a quarter of it
	Dir     string        // empty, on the disk to measure
}

// DurableFigures is what a run found.
type DurableFigures struct {
	PerSecond float64
	Wrong     int // operations that failed, those that made the keys included
}

// Do measures. Every key is there before the clock runs.
func (r DurableRun) Do(d Durable) (DurableFigures, error) {
	do, closeIt, err := d.Open(r.Dir)
	if err != nil {
		return DurableFigures{}, fmt.Errorf("open %s: %w", d.Name, err)
	}
	keys := r.Keys
	if d.Hot {
		keys = 1
	}
	callers := Shuffled(keys)
	const creators = 256 // so that the creating shares syncs
	made := spread(min(creators, keys), callers, 0, do)
	warm := spread(r.Callers, callers, r.For/4, do)
	f := spread(r.Callers, callers, r.For, do)
	f.Wrong += made.Wrong + warm.Wrong
	if err := closeIt(); err != nil {
		return DurableFigures{}, fmt.Errorf("close %s: %w", d.Name, err)
	}
	return f, nil
}

// spread runs n goroutines over the callers, each on a share of its own, or all on the one caller that there is, until
// the time is over, and each at least once; with no time, once over every caller.
func spread(n int, callers []Caller, d time.Duration, do func(*Caller) error) DurableFigures {
	var (
		mu    sync.Mutex
		total int
		wrong int
		wg    sync.WaitGroup
		begin = time.Now()
	)
	over := func(done, share int) bool {
		if d == 0 {
			return done == share
		}
		return done > 0 && time.Since(begin) >= d
	}
	for g := range n {
		wg.Go(func() {
			mine := callers[g*len(callers)/n : (g+1)*len(callers)/n]
			if len(mine) == 0 {
				mine = callers
			}
			done, failed := 0, 0
			for ; !over(done, len(mine)); done++ {
				if do(&mine[done%len(mine)]) != nil {
					failed++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total += done
			wrong += failed
		})
	}
	wg.Wait()
	return DurableFigures{PerSecond: float64(total) / time.Since(begin).Seconds(), Wrong: wrong}
}
