// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/redis"
)

// workerArg makes the test binary a worker.
const workerArg = "worker"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == workerArg {
		if err := work(); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// elapsed reads the clock that all processes of a machine share, and that nobody sets.
func elapsed() int64 {
	const monotonic = 1
	var ts syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&ts)), 0); err != 0 {
		panic(err)
	}
	return ts.Nano()
}

// store is what a worker has open: a redis.Store, alone or guarded.
type store interface {
	signpost.Store
	signpost.Renewer
	signpost.Inspector
	signpost.Resetter
	signpost.Settler
	signpost.Slicer
}

type worker struct {
	store
	links func() (*redis.Links, error)

	mu      sync.Mutex
	watched map[link.Hash]chan reply
}

// work does what it is told on its standard input, until that ends.
func work() error {
	calls := gob.NewDecoder(os.Stdin)
	var o setup
	if err := calls.Decode(&o); err != nil {
		return err
	}
	options := redis.Options{URL: o.URL}
	inner, err := redis.Open(context.Background(), options)
	if err != nil {
		return err
	}
	w := &worker{store: inner, watched: map[link.Hash]chan reply{}}
	w.links = sync.OnceValues(func() (*redis.Links, error) { return redis.OpenLinks(context.Background(), options) })
	if o.Guard {
		// A machine that is merely slow is no outage.
		if w.store, err = failopen.New(inner, failopen.Options{Timeout: liveness, Hooks: failopen.Hooks{
			Degraded: func(slice string, _ failopen.Kind, cause error) {
				fmt.Fprintf(os.Stderr, "worker: server %s has failed: %v\n", slice, cause)
			},
		}}); err != nil {
			return err
		}
	}
	var mu sync.Mutex
	replies := gob.NewEncoder(os.Stdout)
	for {
		var c call
		if err := calls.Decode(&c); err != nil {
			return nil // the test has ended
		}
		go func() {
			r, err := w.answer(&c)
			r.ID, r.Err = c.ID, failureOf(err)
			mu.Lock()
			defer mu.Unlock()
			if err := replies.Encode(r); err != nil {
				os.Exit(1)
			}
		}()
	}
}

func (w *worker) answer(c *call) (r reply, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch {
	case c.Timeout > 0:
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	case c.Timeout < 0:
		cancel()
	}
	switch c.Op {
	case "clock":
		r.Wall = time.Now()
	case "take", "peek":
		var d signpost.Decision
		do := w.Take
		if c.Op == "peek" {
			do = w.Peek
		}
		d, _, err = do(ctx, valueOf[signpost.Request](c.Request))
		r.Decision = bytesOf(&d)
	case "release":
		w.Release(valueOf[signpost.Lease](c.Lease))
	case "renew":
		var l signpost.Lease
		l, err = w.Renew(ctx, valueOf[signpost.Lease](c.Lease), c.At)
		r.Lease = bytesOf(&l)
	case "inspect":
		var in signpost.Inspection
		in, err = w.Inspect(ctx, valueOf[signpost.Key](c.Key), c.At)
		r.At, r.Counts = in.At, in.Counts
		for _, l := range in.Leases {
			r.Leases = append(r.Leases, bytesOf(&l))
		}
	case "reset":
		err = w.Reset(ctx, valueOf[signpost.Key](c.Key))
		r.When = elapsed()
	case "settle":
		err = w.Settle(ctx, valueOf[signpost.Key](c.Key), c.At, c.Counts)
	case "slice":
		r.Text = w.Slice(valueOf[signpost.Key](c.Key))
	case "close":
		err = w.Close()
	case "load":
		r.Seen = c.Load.run(ctx, w)
	case "flood":
		r.Calls, err = w.flood(ctx, valueOf[signpost.Request](c.Request), c.For)
	case "admitted":
		r.When, err = w.admitted(ctx, valueOf[signpost.Request](c.Request))
	default:
		return w.answerLinks(ctx, c)
	}
	return r, err
}

// answerLinks is answer for the registry.
func (w *worker) answerLinks(ctx context.Context, c *call) (r reply, err error) {
	links, err := w.links()
	if err != nil {
		return r, err
	}
	switch c.Op {
	case "resolve":
		_, err = links.Resolve(ctx, c.Hash)
	case "revoke":
		_, err = links.Revoke(ctx, c.Hash.ID(), time.Now())
		r.When = elapsed()
	case "watch":
		if _, err = links.Resolve(ctx, c.Hash); err != nil {
			break
		}
		unknown := make(chan reply, 1)
		w.mu.Lock()
		w.watched[c.Hash] = unknown
		w.mu.Unlock()
		go func() { unknown <- untilUnknown(links, c.Hash) }()
	case "unknown":
		w.mu.Lock()
		unknown := w.watched[c.Hash]
		delete(w.watched, c.Hash)
		w.mu.Unlock()
		return <-unknown, nil
	default:
		err = fmt.Errorf("worker cannot %s", c.Op)
	}
	return r, err
}

// untilUnknown resolves a link until that fails, and says when it did.
func untilUnknown(links *redis.Links, h link.Hash) (r reply) {
	for end := time.Now().Add(liveness); time.Now().Before(end); time.Sleep(200 * time.Microsecond) {
		if _, err := links.Resolve(context.Background(), h); errors.Is(err, link.ErrUnknown) {
			r.When = elapsed()
			return r
		}
	}
	return r
}

// flood takes without a pause for a while, and returns how often. Each take has to be refused.
func (w *worker) flood(ctx context.Context, q signpost.Request, d time.Duration) (n int, _ error) {
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
		q.LeaseID = signpost.NewLeaseID()
		switch d, _, err := w.Take(ctx, q); {
		case err != nil:
			return n, err
		case d.Admitted:
			return n, fmt.Errorf("take %d on a full key was admitted", n)
		}
	}
	return n, nil
}

// admitted takes until it is admitted, and says when that was.
func (w *worker) admitted(ctx context.Context, q signpost.Request) (when int64, _ error) {
	for end := time.Now().Add(liveness); time.Now().Before(end); time.Sleep(200 * time.Microsecond) {
		switch d, _, err := w.Take(ctx, q); {
		case err != nil:
			return 0, err
		case d.Admitted:
			return elapsed(), nil
		}
	}
	return 0, errors.New("never admitted")
}
