// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/store/disk"
	"github.com/signposthq/signpost/store/memory"
	"github.com/signposthq/signpost/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Options{
		Open: func(t testing.TB) signpost.Store { return around(t, memory.New(memory.Options{})) },
	})
}

// The inner store's commits and what it keeps come through.
func TestStoreAroundADisk(t *testing.T) {
	dirs := map[signpost.Store]string{}
	open := func(t testing.TB, dir string) signpost.Store {
		in, err := disk.Open(dir, disk.Options{CommitTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		s := around(t, in)
		dirs[s] = dir
		return s
	}
	storetest.Run(t, storetest.Options{
		Open: func(t testing.TB) signpost.Store { return open(t, t.TempDir()) },
		Reopen: func(t testing.TB, s signpost.Store) signpost.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, dirs[s])
		},
	})
}

// around returns a Store that fails the test if the store inside fails.
func around(t testing.TB, in signpost.Store) signpost.Store {
	s, err := failopen.New(in, failopen.Options{
		Timeout: time.Minute, // a slow machine is no outage
		Hooks: failopen.Hooks{
			Failed: func(_ string, _ failopen.Kind, err error) { t.Errorf("the store inside failed: %v", err) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A healthy store, a degraded one, and the rules say the same of the same stream.
func TestDegradedByTheSameRules(t *testing.T) {
	storetest.Same(t, map[string]func(testing.TB) signpost.Store{
		"healthy": func(t testing.TB) signpost.Store { return around(t, memory.New(memory.Options{})) },
		"degraded": func(t testing.TB) signpost.Store {
			in := newInner()
			in.breaks(dead)
			s, err := failopen.New(in, failopen.Options{FallbackKeys: 100_000})
			if err != nil {
				t.Fatal(err)
			}
			return degraded{t, s}
		},
	})
}

// degraded is a Store that no answer comes from but the fallback's.
type degraded struct {
	t testing.TB
	*failopen.Store
}

func (d degraded) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	decision, c, err := d.Store.Take(ctx, q)
	if !decision.Degraded || !decision.Lease.IsZero() && !decision.Lease.Fallback {
		d.t.Errorf("not marked as the fallback's: %+v", decision)
	}
	return decision, c, err
}

func (d degraded) Renew(ctx context.Context, l signpost.Lease, at signpost.Instant) (signpost.Lease, error) {
	l.Fallback = true // the stream of the test does not carry it
	return d.Store.Renew(ctx, l, at)
}

func (d degraded) Inspect(ctx context.Context, k signpost.Key, at signpost.Instant) (signpost.Inspection, error) {
	in, err := d.Store.Inspect(ctx, k, at)
	return in, d.unknown(err)
}

func (d degraded) Reset(ctx context.Context, k signpost.Key) error {
	return d.unknown(d.Store.Reset(ctx, k))
}

// unknown wants the error that says so.
func (d degraded) unknown(err error) error {
	if !errors.Is(err, failopen.ErrDegraded) {
		d.t.Errorf("error %v, want ErrDegraded", err)
	}
	return nil
}
