// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package storetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/memory"
	"github.com/signposthq/signpost/store/storetest"
)

// faulty are stores with one fault each, of the kinds that people write. The suite must fail each of them.
var faulty = map[string]func() signpost.Store{
	"checks, then charges":                       func() signpost.Store { return &checksThenCharges{Store: memory.New(memory.Options{})} },
	"charges what it refuses":                    func() signpost.Store { return chargesRefusals{memory.New(memory.Options{})} },
	"keeps the lease of a refusal":               func() signpost.Store { return keepsLease{memory.New(memory.Options{})} },
	"charges for a peek":                         func() signpost.Store { return peekTakes{memory.New(memory.Options{})} },
	"reads its clock for a named instant":        func() signpost.Store { return ownClock{memory.New(memory.Options{})} },
	"reads its clock twice":                      func() signpost.Store { return twoClocks{memory.New(memory.Options{})} },
	"releases any lease":                         func() signpost.Store { return releasesAny{memory.New(memory.Options{})} },
	"renews what has ended":                      func() signpost.Store { return renewsEnded{memory.New(memory.Options{})} },
	"resets nothing":                             func() signpost.Store { return resetsNothing{memory.New(memory.Options{})} },
	"settles twice":                              func() signpost.Store { return settlesTwice{memory.New(memory.Options{})} },
	"calls everything degraded":                  func() signpost.Store { return degraded{memory.New(memory.Options{})} },
	"never makes anything durable":               func() signpost.Store { return notDurable{memory.New(memory.Options{})} },
	"answers after it was closed":                func() signpost.Store { return neverClosed{memory.New(memory.Options{})} },
	"lost its methods without telling the suite": func() signpost.Store { return struct{ signpost.Store }{memory.New(memory.Options{})} },
	forgets:               func() signpost.Store { return memory.New(memory.Options{}) },
	"has one key for all": func() signpost.Store { return oneKey{memory.New(memory.Options{})} },
}

const forgets = "forgets its counts when it is opened again"

func TestSuiteFindsFaults(t *testing.T) {
	if name := os.Getenv("SIGNPOST_TEST_FAULT"); name != "" {
		o := storetest.Options{Open: func(testing.TB) signpost.Store { return faulty[name]() }}
		if name == forgets {
			o.Reopen = func(_ testing.TB, s signpost.Store) signpost.Store {
				s.Close()
				return memory.New(memory.Options{})
			}
		}
		storetest.Run(t, o)
		return
	}
	for name := range faulty {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSuiteFindsFaults$", "-test.failfast", "-rapid.nofailfile")
			cmd.Env = append(os.Environ(), "SIGNPOST_TEST_FAULT="+name)
			out, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestSuiteFindsFaults/") {
				t.Errorf("the suite passes a store that %s: %v\n%s", name, err, out)
			}
		})
	}
}

func TestSuitePassesWithWhatAStoreLacks(t *testing.T) {
	storetest.Run(t, storetest.Options{
		Open:  func(testing.TB) signpost.Store { return struct{ signpost.Store }{memory.New(memory.Options{})} },
		Lacks: []storetest.Capability{storetest.Renews, storetest.Inspects, storetest.Resets, storetest.Settles},
	})
}

type checksThenCharges struct {
	*memory.Store
	mu sync.Mutex
}

func (s *checksThenCharges) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	before, c, err := s.Peek(ctx, q)
	if err != nil || !before.Admitted || q.Cost > 1 || q.Expensive {
		return s.Store.Take(ctx, q)
	}
	var counts []signpost.Count
	for _, w := range before.Windows() {
		counts = append(counts, signpost.Count{Len: w.Len, Start: w.Start, Used: 1})
	}
	runtime.Gosched() // as if a server were asked
	s.mu.Lock()
	err = s.Settle(ctx, q.Key, q.At, counts)
	s.mu.Unlock()
	for i := range before.Windows() {
		before.Windows()[i].Used++
	}
	return before, c, err
}

type chargesRefusals struct{ *memory.Store }

func (s chargesRefusals) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	d, c, err := s.Store.Take(ctx, q)
	for _, w := range d.Windows() {
		if !d.Admitted && !w.Refused {
			s.Settle(ctx, q.Key, q.At, []signpost.Count{{Len: w.Len, Start: w.Start, Used: 1}})
		}
	}
	return d, c, err
}

type keepsLease struct{ *memory.Store }

func (s keepsLease) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	d, c, err := s.Store.Take(ctx, q)
	if err == nil && !d.Admitted && q.Expensive && !d.ConcurrencyRefused {
		wide := q
		wide.Cost = 1
		wide.Bound, _ = signpost.NewBound(q.Bound.Concurrent(), signpost.Window{Len: signpost.MaxWindowLen, Limit: signpost.MaxLimit})
		s.Store.Take(ctx, wide)
	}
	return d, c, err
}

type peekTakes struct{ *memory.Store }

func (s peekTakes) Peek(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	d, c, err := s.Store.Peek(ctx, q)
	q.Cost, q.Expensive = 1, false
	s.Take(ctx, q)
	return d, c, err
}

type ownClock struct{ *memory.Store }

func (s ownClock) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	q.At = 0
	return s.Store.Take(ctx, q)
}

type twoClocks struct{ *memory.Store }

func (s twoClocks) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	d, c, err := s.Store.Take(ctx, q)
	if q.At == 0 {
		d.At += 3
	}
	return d, c, err
}

type releasesAny struct{ *memory.Store }

func (s releasesAny) Release(l signpost.Lease) {
	if in, err := s.Inspect(context.Background(), l.Key, 1); err == nil && len(in.Leases) > 0 {
		l = in.Leases[0]
	}
	s.Store.Release(l)
}

type renewsEnded struct{ *memory.Store }

func (s renewsEnded) Renew(ctx context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	renewed, err := s.Store.Renew(ctx, l, at)
	if errors.Is(err, signpost.ErrLeaseGone) {
		l.Expires = at.Add(signpost.LeaseLife)
		return l, nil
	}
	return renewed, err
}

type resetsNothing struct{ *memory.Store }

func (s resetsNothing) Reset(context.Context, signpost.Key) error { return nil }

type settlesTwice struct{ *memory.Store }

func (s settlesTwice) Settle(ctx context.Context, k signpost.Key, at signpost.Instant, counts []signpost.Count) error {
	s.Store.Settle(ctx, k, at, counts)
	return s.Store.Settle(ctx, k, at, counts)
}

type degraded struct{ *memory.Store }

func (s degraded) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	d, c, err := s.Store.Take(ctx, q)
	d.Degraded = true
	return d, c, err
}

type notDurable struct{ *memory.Store }

func (s notDurable) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	d, _, err := s.Store.Take(ctx, q)
	return d, signpost.CommitOf(given{}), err
}

// given is a commit that the store has given up on.
type given struct{}

func (given) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
func (given) Err() error { return signpost.ErrNotDurable }

type neverClosed struct{ *memory.Store }

func (s neverClosed) Close() error { return nil }

type oneKey struct{ *memory.Store }

var theKey = signpost.KeyOf("all", time.Now().String())

func (s oneKey) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	q.Key = theKey
	return s.Store.Take(ctx, q)
}
