// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/store/memory"
)

// use takes n times, of which the first leases are expensive.
func use(t *testing.T, f *fixture, k signpost.Key, b signpost.Bound, n, leases int) {
	t.Helper()
	l := signpost.New(f.store, signpost.Options{})
	for i := range n {
		d, err := l.Take(t.Context(), signpost.Request{Key: k, Bound: b, Expensive: i < leases})
		if err != nil || !d.Admitted {
			t.Fatalf("take %d: %+v, %v", i+1, d, err)
		}
	}
}

// year is a window that does not turn while a test runs, but on the turn of a year that lasts 366 days.
const year = 366 * 24 * time.Hour

func TestInspectAndResetALink(t *testing.T) {
	f := start(t)
	minted, other := mint(t, f, `{"bound":"5/366d 2 concurrent"}`), mint(t, f, `{}`)
	k, bound := parse(t, minted).Hash().Key(), signpost.MustParseBound("5/366d 2 concurrent")
	use(t, f, k, bound, 4, 1)
	use(t, f, parse(t, other).Hash().Key(), bound, 3, 0)

	for range 3 { // inspecting charges nothing
		got := ask[admin.Key](t, f, "GET", "/v1/keys/"+minted.ID, "", 200)
		if got.Key != k.String() || got.Link != minted.ID || got.Degraded || got.RetryAfterSeconds != 0 || len(got.Windows) != 1 {
			t.Fatalf("%+v", got)
		}
		w := got.Windows[0]
		reset := got.At.Truncate(0).UnixMilli()/year.Milliseconds()*year.Milliseconds() + year.Milliseconds()
		if w.Name != "31622400s" || w.Seconds != 31622400 || *w.Limit != 5 || w.Used != 4 || *w.Remaining != 1 || w.Full || w.Reset.UnixMilli() != reset {
			t.Errorf("%+v (limit %d, remaining %d), want 4 of 5 used until %v", w, *w.Limit, *w.Remaining, time.UnixMilli(reset).UTC())
		}
		if c := got.Concurrency; *c.Limit != 2 || c.InUse != 1 || c.Full {
			t.Errorf("concurrency %+v of %d, want 1 of 2 in use", c, *c.Limit)
		}
	}

	use(t, f, k, bound, 1, 1)
	if got := ask[admin.Key](t, f, "GET", "/v1/keys/"+minted.ID, "", 200); !got.Windows[0].Full || *got.Windows[0].Remaining != 0 ||
		!got.Concurrency.Full || got.RetryAfterSeconds != signpost.Seconds(got.Windows[0].Reset.Sub(got.At)) {
		t.Errorf("a full key: %+v, concurrency %+v; want both full until the window turns", got, got.Concurrency)
	}

	// What was forgotten is told, and no other key is touched.
	if was := ask[admin.Key](t, f, "POST", "/v1/keys/"+minted.ID+"/reset", "", 200); was.Windows[0].Used != 5 || was.Concurrency.InUse != 2 {
		t.Errorf("reset tells %+v, want what was there before", was)
	}
	if got := ask[admin.Key](t, f, "GET", "/v1/keys/"+minted.ID, "", 200); got.Windows[0].Used != 0 || got.Concurrency.InUse != 0 {
		t.Errorf("after a reset: %+v", got)
	}
	in, err := f.store.Inspect(t.Context(), parse(t, other).Hash().Key(), 0)
	if err != nil || len(in.Counts) != 1 || in.Counts[0].Used != 3 {
		t.Errorf("another link's counts after a reset: %+v, %v", in, err)
	}
	f.Close()
	if got := strings.Count(f.log.String(), `"key reset"`); got != 1 ||
		!strings.Contains(f.log.String(), `"key":"`+k.String()+`","link":"`+minted.ID+`"`) {
		t.Errorf("%d lines in the log for 1 reset:\n%s", got, f.log)
	}
}

func TestALinkWithoutABoundOfItsOwnIsHeldToTheOneConfiguredNow(t *testing.T) {
	bound := signpost.MustParseBound("7/366d")
	f := start(t, func(o *admin.Options) { o.Bound = func() signpost.Bound { return bound } })
	minted := mint(t, f, `{}`)
	for _, bound = range []signpost.Bound{signpost.MustParseBound("7/366d"), signpost.MustParseBound("9/366d 3 concurrent")} {
		key := ask[admin.Key](t, f, "GET", "/v1/keys/"+minted.ID, "", 200)
		shown := ask[admin.Link](t, f, "GET", "/v1/links/"+minted.ID, "", 200)
		if *key.Windows[0].Limit != bound.Windows()[0].Limit || *key.Concurrency.Limit != bound.Concurrent() || shown.HeldTo != bound || !shown.Bound.IsZero() {
			t.Errorf("with %v configured: %+v, held to %v", bound, key, shown.HeldTo)
		}
	}
}

func TestInspectAndResetANamedKey(t *testing.T) {
	f := start(t)
	k, other := signpost.KeyOf("tenant", "acme"), signpost.KeyOf("tenant", "umbrella")
	bound := signpost.MustParseBound("5/366d 2 concurrent")
	use(t, f, k, bound, 3, 1)
	use(t, f, other, bound, 1, 0)

	const body = `{"namespace":"tenant","key":"acme"}`
	got := ask[admin.Key](t, f, "POST", "/v1/keys/inspect", body, 200)
	if got.Key != k.String() || got.Link != "" || len(got.Windows) != 1 || got.Windows[0].Used != 3 || got.Windows[0].Limit != nil ||
		got.Windows[0].Remaining != nil || got.Concurrency.InUse != 1 || got.Concurrency.Limit != nil {
		t.Errorf("without a bound: %+v", got)
	}
	got = ask[admin.Key](t, f, "POST", "/v1/keys/inspect", `{"namespace":"tenant","key":"acme","bound":"3/366d 9 concurrent"}`, 200)
	if got.Windows[0].Used != 3 || *got.Windows[0].Limit != 3 || !got.Windows[0].Full || *got.Concurrency.Limit != 9 || got.Concurrency.InUse != 1 {
		t.Errorf("with a bound: %+v", got)
	}
	if was := ask[admin.Key](t, f, "POST", "/v1/keys/reset", body, 200); was.Windows[0].Used != 3 {
		t.Errorf("reset tells %+v, want what was there before", was)
	}
	if got := ask[admin.Key](t, f, "POST", "/v1/keys/inspect", body, 200); len(got.Windows) != 0 || got.Concurrency.InUse != 0 {
		t.Errorf("after a reset: %+v", got)
	}
	if got := ask[admin.Key](t, f, "POST", "/v1/keys/inspect", `{"namespace":"tenant","key":"umbrella"}`, 200); got.Windows[0].Used != 1 {
		t.Errorf("another key after a reset: %+v", got)
	}

	for _, body := range []string{`{}`, `{"namespace":"tenant"}`, `{"key":"acme"}`, `{"namespace":"tenant","key":"acme","bound":"5"}`} {
		wantProblem(t, f, "POST", "/v1/keys/inspect", body, 400, "bad_request")
		wantProblem(t, f, "POST", "/v1/keys/reset", body, 400, "bad_request")
	}
}

func TestAStoreThatDoesNotAnswer(t *testing.T) {
	s := &sickStore{Store: memory.New(memory.Options{}), err: errors.New("store does not answer")}
	f := start(t, func(o *admin.Options) { o.Store = s })
	minted := mint(t, f, `{}`)
	const named = `{"namespace":"tenant","key":"acme"}`

	// The local counts are told, and that they are local.
	if got := ask[admin.Key](t, f, "GET", "/v1/keys/"+minted.ID, "", 200); !got.Degraded {
		t.Errorf("%+v, want degraded", got)
	}
	for _, e := range []struct{ path, body string }{{"/v1/keys/" + minted.ID + "/reset", ""}, {"/v1/keys/inspect", named}, {"/v1/keys/reset", named}} {
		if p := wantProblem(t, f, "POST", e.path, e.body, 503, "unavailable"); !strings.Contains(p.Detail, "store does not answer") {
			t.Errorf("POST %s: detail %q does not name the cause", e.path, p.Detail)
		}
	}
	s.err = errors.ErrUnsupported // what a wrapper around a store that cannot do it returns
	wantProblem(t, f, "POST", "/v1/keys/inspect", named, 501, "unsupported")
	wantProblem(t, f, "POST", "/v1/keys/"+minted.ID+"/reset", "", 501, "unsupported")
}

// sickStore answers takes and peeks from its local counts, as a store that fails open does.
type sickStore struct {
	signpost.Store
	err error
}

func (s *sickStore) Peek(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	d, c, err := s.Store.Peek(ctx, q)
	d.Degraded = true
	return d, c, err
}

func (s *sickStore) Inspect(context.Context, signpost.Key, signpost.Instant) (signpost.Inspection, error) {
	return signpost.Inspection{}, s.err
}

func (s *sickStore) Reset(context.Context, signpost.Key) error { return s.err }

// aheadStore counts in a minute that is ahead of its clock, as after the clock was set back.
type aheadStore struct{ signpost.Store }

func (aheadStore) Peek(_ context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	const now = signpost.Instant(1768471230_000)
	raw := signpost.Raw{Now: now, Windows: [signpost.MaxWindows]signpost.RawWindow{{Start: now.Add(30 * time.Second), Used: 1}}}
	return signpost.JudgePeek(&raw, &q), signpost.Commit{}, nil
}

func TestNoResetIsFartherThanItsWindow(t *testing.T) {
	f := start(t, func(o *admin.Options) { o.Store = aheadStore{o.Store} })
	got := ask[admin.Key](t, f, "POST", "/v1/keys/inspect", `{"namespace":"tenant","key":"acme","bound":"1/min"}`, 200)
	if w := got.Windows[0]; !w.Full || w.Reset.Sub(got.At) != time.Minute {
		t.Errorf("at %v: %+v, want full for a minute", got.At, w)
	}
}
