// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
)

const (
	// FlushTime is how long the injected sync takes, and WorkTime how long the handler works.
	FlushTime = 5 * time.Millisecond
	WorkTime  = 10 * time.Millisecond
)

// The subjects of the flush measurement.
const (
	NoLimiter    = "no limiter"
	FlushOverlap = "door over disk"
	FlushBefore  = "door over disk, BeforeHandler"
)

// Flushes returns them, the one without a limiter first.
func Flushes() []string { return []string{NoLimiter, FlushOverlap, FlushBefore} }

// FlushRun is one measurement of what a slow flush costs a response: a server on the loopback interface whose handler
// works for WorkTime, over a disk store whose sync takes FlushTime.
type FlushRun struct {
	Subject string
	Callers int           // connections, each of which asks again when it has its answer
	For     time.Duration // after a warm-up of a quarter of it
	Dir     string        // empty
}

// FlushFigures is what a run found.
type FlushFigures struct {
	MedianMs float64 // of the time from the request to the whole response
	Ops      int
	Wrong    int // other than 200, or degraded
}

// slowSync is a disk store that keeps a Commit only when a sync that takes FlushTime has begun and ended since: as on
// a slow disk, who comes during one waits for the next.
type slowSync struct {
	signpost.Store
	log *Log
}

func openSlowSync(dir string) (slowSync, error) {
	store, err := openDisk(dir)
	if err != nil {
		return slowSync{}, err
	}
	log, err := CreateLog(filepath.Join(dir, "slow"), 0, func(*os.File) error {
		time.Sleep(FlushTime)
		return nil
	})
	if err != nil {
		return slowSync{}, errors.Join(err, store.Close())
	}
	return slowSync{store, log}, nil
}

// Take implements signpost.Store.
func (s slowSync) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	d, c, err := s.Store.Take(ctx, q)
	if err != nil {
		return d, c, err
	}
	p := &slowPending{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = errors.Join(s.log.Append(&[recordSize]byte{}), c.Wait(context.Background()))
	}()
	return d, signpost.CommitOf(p), nil
}

// Close implements signpost.Store.
func (s slowSync) Close() error { return errors.Join(s.Store.Close(), s.log.Close()) }

type slowPending struct {
	done chan struct{}
	err  error // after done
}

func (p *slowPending) Done() <-chan struct{} { return p.done }
func (p *slowPending) Err() error            { return p.err }

// Do measures.
func (r FlushRun) Do() (f FlushFigures, err error) {
	handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		time.Sleep(WorkTime)
		answer(w, request)
	}))
	requests := make([]*http.Request, r.Callers)
	switch r.Subject {
	case NoLimiter:
		for i := range requests {
			requests[i] = must(http.NewRequest(http.MethodGet, "/", nil))
		}
	case FlushOverlap, FlushBefore:
		store, err := openSlowSync(r.Dir)
		if err != nil {
			return f, err
		}
		defer store.Close()
		var door *httpdoor.Door
		requests, door, err = newDoor(store, doorSetup{links: r.Callers, limit: admitLimit, before: r.Subject == FlushBefore})
		if err != nil {
			return f, err
		}
		handler = door.Wrap(handler)
	default:
		return f, fmt.Errorf("find flush subject: there is none called %q", r.Subject)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return f, fmt.Errorf("listen for the flush measurement: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
	go server.Serve(listener)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: r.Callers}}
	for _, request := range requests {
		request.URL.Scheme, request.URL.Host = "http", listener.Addr().String()
	}
	askAll(client, requests, r.For/4)
	return askAll(client, requests, r.For), nil
}

// askAll sends each request again and again from a goroutine of its own, until the time is over, at least once.
func askAll(client *http.Client, requests []*http.Request, d time.Duration) FlushFigures {
	var (
		mu    sync.Mutex
		all   []time.Duration
		wrong int
		wg    sync.WaitGroup
		begin = time.Now()
	)
	for _, request := range requests {
		wg.Go(func() {
			var mine []time.Duration
			failed := 0
			for len(mine) == 0 || time.Since(begin) < d {
				sent := time.Now()
				if !askOnce(client, request) {
					failed++
				}
				mine = append(mine, time.Since(sent))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			wrong += failed
		})
	}
	wg.Wait()
	slices.Sort(all)
	return FlushFigures{MedianMs: all[len(all)/2].Seconds() * 1000, Ops: len(all), Wrong: wrong}
}

// askOnce reports whether the answer was 200 and whole, and not degraded.
func askOnce(client *http.Client, request *http.Request) bool {
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK && answer.Header.Get("X-Signpost-RateLimit") == ""
}
