// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Engines compares what could stand behind the one committer of store/disk: callers each change a
// random key and wait until that is durable; one committer takes what has gathered, writes it as one
// batch, and syncs once.
//
//	go run ./engines -dir /var/tmp/engines -for 2s
//
// The bare logs are the floor: 64 bytes a change, no index, nothing to read back.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// keys is how many keys the callers choose from.
const keys = 100_000

// record is one change: a digest of a key and the state of two windows.
type record struct {
	key   [32]byte
	value [32]byte
}

// engine makes a batch durable. It is called by one goroutine at a time.
type engine interface {
	commit(batch []record) error
	close() error
}

// subject is what is measured. change is called by many, returns when its change is durable, and is given
// which key to change and a number that is new each time.
type subject interface {
	change(key, number uint64) error
	batches() uint64
	close() error
}

var subjects = map[string]func(dir string) (subject, error){
	"log-append":   behindCommitter(func(dir string) (engine, error) { return openLog(dir, 0) }),
	"log-prealloc": behindCommitter(func(dir string) (engine, error) { return openLog(dir, 256<<20) }),
	"pebble":       behindCommitter(func(dir string) (engine, error) { return openPebble(dir, false) }),
	"pebble-ready": behindCommitter(func(dir string) (engine, error) { return openPebble(dir, true) }),
	"bbolt":        behindCommitter(openBolt),
	"sqlite":       behindCommitter(openSQLite),
	"signpost":     openStore,
}

func main() {
	dir := flag.String("dir", os.TempDir(), "where the engines keep their files; use the disk in question")
	span := flag.Duration("for", 2*time.Second, "how long each measurement lasts")
	only := flag.String("engines", "log-append,log-prealloc,signpost,pebble,pebble-ready,bbolt,sqlite", "which to measure")
	callers := flag.String("callers", "1,16,256", "how many callers at once")
	reps := flag.Int("reps", 3, "measurements of each; the median is printed")
	flag.Parse()

	fmt.Println("| engine | callers | changes/s | range | changes a batch | p50 | p99 | CPU a change |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for name := range strings.SplitSeq(*only, ",") {
		for n := range strings.SplitSeq(*callers, ",") {
			count, err := strconv.Atoi(n)
			if err != nil {
				log.Fatal(err)
			}
			if err := report(*dir, name, count, *reps, *span); err != nil {
				log.Fatalf("measure %s: %v", name, err)
			}
		}
	}
}

func report(dir, name string, callers, reps int, span time.Duration) error {
	open, ok := subjects[name]
	if !ok {
		return fmt.Errorf("unknown engine")
	}
	var all []result
	for range reps {
		r, err := measure(dir, open, callers, span)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b result) int { return cmp.Compare(a.rate, b.rate) })
	m := all[len(all)/2]
	fmt.Printf("| %s | %d | %.0f | %.0f..%.0f | %.1f | %v | %v | %v |\n", name, callers, m.rate,
		all[0].rate, all[len(all)-1].rate, m.batch, m.p50.Round(time.Microsecond), m.p99.Round(time.Microsecond), m.cpu.Round(10*time.Nanosecond))
	return nil
}

type result struct {
	rate, batch float64
	p50, p99    time.Duration
	cpu         time.Duration // a change, of all processors
}

// measure runs callers against a new subject for a while.
func measure(dir string, open func(string) (subject, error), callers int, span time.Duration) (result, error) {
	sub, err := os.MkdirTemp(dir, "engine-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(sub)
	s, err := open(sub)
	if err != nil {
		return result{}, err
	}
	var (
		stop  atomic.Bool
		group sync.WaitGroup
		times = make([][]time.Duration, callers) // of one change in eight
		ops   = make([]int, callers)
		errs  = make([]error, callers)
	)
	begin, spent := time.Now(), cpu()
	for c := range callers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 1))
			for !stop.Load() && errs[c] == nil {
				ops[c]++
				if ops[c]%8 != 0 {
					errs[c] = s.change(r.Uint64N(keys), r.Uint64())
					continue
				}
				t := time.Now()
				errs[c] = s.change(r.Uint64N(keys), r.Uint64())
				times[c] = append(times[c], time.Since(t))
			}
		})
	}
	time.Sleep(span)
	stop.Store(true)
	group.Wait()
	took := time.Since(begin)
	spent = cpu() - spent
	batches := s.batches()
	if err := errors.Join(append(errs, s.close())...); err != nil {
		return result{}, err
	}
	total := 0
	for _, n := range ops {
		total += n
	}
	sorted := slices.Concat(times...)
	slices.Sort(sorted)
	return result{
		rate:  float64(total) / took.Seconds(),
		batch: float64(total) / float64(batches),
		p50:   sorted[len(sorted)/2],
		p99:   sorted[len(sorted)*99/100],
		cpu:   spent / time.Duration(total),
	}, nil
}
