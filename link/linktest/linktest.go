// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package linktest checks that a [link.Registry] keeps its contract. Anybody's registry can run it:
//
//	func TestRegistry(t *testing.T) {
//		linktest.Run(t, func(t *testing.T) link.Registry { return memory.NewLinks() })
//	}
package linktest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
)

// patience is how long something that happens by itself may take. Nothing waits this long unless it fails.
const patience = 10 * time.Second

// Run runs the suite. open is called at the start of each test and returns an empty registry that keeps time
// by the wall clock; what has to be closed it closes in a cleanup of its t.
func Run(t *testing.T, open func(t *testing.T) link.Registry) {
	tests := []struct {
		name string
		run  func(*testing.T, link.Registry)
	}{
		{"a record comes back as it was added", testRoundTrip},
		{"what was never added is unknown", testUnknown},
		{"a link is added once", testExists},
		{"a revocation holds from the next call on", testRevoke},
		{"a link expires", testExpires},
		{"pages are in order and complete", testList},
		{"so many try links and no more", testMaxTry},
		{"the last place goes to one", testMaxTryRace},
		{"last seen is kept apart from the record", testSeen},
		{"callers at the same time", testConcurrent},
		{"an ended context is never an unknown link", testContext},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// now is a whole millisecond: what a registry keeps of an instant.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// mint returns a new link's hash and the record of it, not yet added.
func mint(origin link.Origin, label string) link.Record {
	return link.NewRecord(link.Mint(), origin, label, time.Now())
}

func add(t *testing.T, r link.Registry, rec link.Record) link.Record {
	t.Helper()
	if err := r.Add(t.Context(), rec); err != nil {
		t.Fatalf("Add(%s): %v", rec.Hash.ID(), err)
	}
	return rec
}

func wantLive(t *testing.T, r link.Registry, want link.Record) {
	t.Helper()
	got, err := r.Resolve(t.Context(), want.Hash)
	if err != nil {
		t.Fatalf("Resolve(%s): %v", want.Hash.ID(), err)
	}
	wantSame(t, "Resolve", got, want)
}

func wantUnknown(t *testing.T, r link.Registry, h link.Hash) {
	t.Helper()
	if got, err := r.Resolve(t.Context(), h); !errors.Is(err, link.ErrUnknown) {
		t.Fatalf("Resolve(%s) = %+v, %v; want ErrUnknown", h.ID(), got, err)
	}
}

func wantShown(t *testing.T, r link.Registry, want link.Record) time.Time {
	t.Helper()
	got, err := r.Show(t.Context(), want.Hash.ID())
	if err != nil {
		t.Fatalf("Show(%s): %v", want.Hash.ID(), err)
	}
	wantSame(t, "Show", got.Record, want)
	return got.Seen
}

func wantSame(t *testing.T, call string, got, want link.Record) {
	t.Helper()
	if got.Hash != want.Hash || got.Label != want.Label || got.Origin != want.Origin || got.Bound != want.Bound || got.Home != want.Home ||
		!got.Created.Equal(want.Created) || !got.Expires.Equal(want.Expires) || !got.Revoked.Equal(want.Revoked) {
		t.Fatalf("%s:\n got %+v\nwant %+v", call, got, want)
	}
}

// eventually polls until ok, and fails the test if that takes more than patience.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func testRoundTrip(t *testing.T, r link.Registry) {
	plain := mint(link.Owner, "")
	full := mint(link.Owner, "Zoë's CI, \x00 and \"quotes\"")
	full.Bound = signpost.MustParseBound("0/sec 5/min 7/90s 9/366d 0 concurrent")
	full.Home, _ = signpost.ParseHome("ap-southeast-2")
	full.Expires = full.Created.Add(90 * 24 * time.Hour)
	try := mint(link.Try, "try")
	for _, rec := range []link.Record{plain, full, try} {
		add(t, r, rec)
		wantLive(t, r, rec)
		if seen := wantShown(t, r, rec); !seen.IsZero() {
			t.Errorf("last seen %v of a link that was never used", seen)
		}
	}
}

func testUnknown(t *testing.T, r link.Registry) {
	rec := add(t, r, mint(link.Owner, ""))
	wantUnknown(t, r, link.Hash{})
	wantUnknown(t, r, link.Mint().Hash())

	// Another link of the same ID would be another link.
	near := rec.Hash
	near[len(near)-1] ^= 1
	wantUnknown(t, r, near)
	r.Seen(near, now())
	r.Seen(link.Mint().Hash(), now())
	if seen := wantShown(t, r, rec); !seen.IsZero() {
		t.Errorf("last seen %v, but it was another link that was used", seen)
	}

	id := rec.Hash.ID()
	for _, id := range []string{"", link.Mint().Hash().ID(), id[:14], id + "0", id + "00", "zzzzzzzzzzzzzzzz", "../../etc/passwd"} {
		if _, err := r.Show(t.Context(), id); !errors.Is(err, link.ErrUnknown) {
			t.Errorf("Show(%q): %v, want ErrUnknown", id, err)
		}
		if _, err := r.Revoke(t.Context(), id, now()); !errors.Is(err, link.ErrUnknown) {
			t.Errorf("Revoke(%q): %v, want ErrUnknown", id, err)
		}
	}
	wantLive(t, r, rec)
}

func testExists(t *testing.T, r link.Registry) {
	rec := add(t, r, mint(link.Owner, "first"))
	again := rec
	again.Label = "second"
	if err := r.Add(t.Context(), again); !errors.Is(err, link.ErrExists) {
		t.Errorf("adding a link again: %v, want ErrExists", err)
	}
	wantLive(t, r, rec)

	revoked, err := r.Revoke(t.Context(), rec.Hash.ID(), now())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Add(t.Context(), again); !errors.Is(err, link.ErrExists) {
		t.Errorf("adding a revoked link again: %v, want ErrExists", err)
	}
	wantUnknown(t, r, rec.Hash)
	wantShown(t, r, revoked)
}

func testRevoke(t *testing.T, r link.Registry) {
	goes := mint(link.Owner, "goes")
	goes.Home, _ = signpost.ParseHome("eu") // to the end, and wherever it is shown
	rec, other := add(t, r, goes), add(t, r, mint(link.Owner, "stays"))
	wantLive(t, r, rec)

	first := now()
	want := rec
	want.Revoked = first
	for i := range 2 { // the second keeps the first instant
		got, err := r.Revoke(t.Context(), rec.Hash.ID(), first.Add(time.Duration(i)*time.Hour))
		if err != nil {
			t.Fatalf("Revoke, time %d: %v", i+1, err)
		}
		wantSame(t, "Revoke", got, want)
		wantUnknown(t, r, rec.Hash)
		wantShown(t, r, want)
	}
	wantLive(t, r, other)

	// An instant ahead of the registry's clock ends the link at once all the same.
	if _, err := r.Revoke(t.Context(), other.Hash.ID(), now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	wantUnknown(t, r, other.Hash)
}

func testExpires(t *testing.T, r link.Registry) {
	past := mint(link.Owner, "over")
	past.Created, past.Expires = now().Add(-time.Hour), now()
	add(t, r, past)
	wantUnknown(t, r, past.Hash)
	wantShown(t, r, past)

	soon := mint(link.Owner, "soon")
	soon.Expires = now().Add(50 * time.Millisecond)
	add(t, r, soon)
	eventually(t, "the link expires", func() bool {
		_, err := r.Resolve(t.Context(), soon.Hash)
		return errors.Is(err, link.ErrUnknown)
	})
	if n := now(); n.Before(soon.Expires) {
		t.Errorf("the link was over at %v, before it expires at %v", n, soon.Expires)
	}
	wantShown(t, r, soon)
}

func testList(t *testing.T, r link.Registry) {
	var want []link.Record
	for range 25 {
		want = append(want, add(t, r, mint(link.Owner, "")))
	}
	revoked, err := r.Revoke(t.Context(), want[3].Hash.ID(), now())
	if err != nil {
		t.Fatal(err)
	}
	want[3] = revoked
	used, at := want[7], now().Add(-time.Hour)
	eventually(t, "a use is noted", func() bool {
		r.Seen(used.Hash, at) // a note may be lost
		return wantShown(t, r, used).Equal(at)
	})
	slices.SortFunc(want, func(a, b link.Record) int { return slices.Compare(a.Hash[:], b.Hash[:]) })

	for _, limit := range []int{1, 7, 25, 1000} {
		var got []link.Entry
		after := ""
		for {
			page, err := r.List(t.Context(), after, limit)
			if err != nil {
				t.Fatalf("List(%q, %d): %v", after, limit, err)
			}
			if len(page) == 0 {
				break
			}
			if len(page) > limit || len(got) > len(want) {
				t.Fatalf("List(%q, %d) returned %d records, %d so far of %d", after, limit, len(page), len(got), len(want))
			}
			got = append(got, page...)
			after = page[len(page)-1].Hash.ID()
		}
		if len(got) != len(want) {
			t.Fatalf("pages of %d: %d records, want %d", limit, len(got), len(want))
		}
		for i := range got {
			wantSame(t, "List", got[i].Record, want[i])
			if wasUsed := got[i].Hash == used.Hash; !wasUsed && !got[i].Seen.IsZero() || wasUsed && !got[i].Seen.Equal(at) {
				t.Errorf("List: last seen %v; only one link was ever used, at %v", got[i].Seen, at)
			}
		}
	}

	// A page goes on after an ID that is not there.
	next := binary.BigEndian.Uint64(want[13].Hash[:8])
	page, err := r.List(t.Context(), fmt.Sprintf("%016x", next-1), 1)
	if err != nil || len(page) != 1 {
		t.Fatalf("List after an ID that is not there: %d records, %v", len(page), err)
	}
	wantSame(t, "List after an ID that is not there", page[0].Record, want[13])
}

// fill adds n links of a stranger, many at a time, so that a registry that syncs can group them.
func fill(t *testing.T, r link.Registry, n int) {
	t.Helper()
	var wg sync.WaitGroup
	work := make(chan link.Record)
	for range 64 {
		wg.Go(func() {
			for rec := range work {
				if err := r.Add(t.Context(), rec); err != nil {
					t.Errorf("Add: %v", err)
				}
			}
		})
	}
	for range n {
		work <- mint(link.Try, "")
	}
	close(work)
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func wantFull(t *testing.T, r link.Registry) {
	t.Helper()
	if err := r.Add(t.Context(), mint(link.Try, "one too many")); !errors.Is(err, link.ErrFull) {
		t.Fatalf("adding try link %d: %v, want ErrFull", link.MaxTry+1, err)
	}
}

func testMaxTry(t *testing.T, r link.Registry) {
	over := mint(link.Try, "over")
	over.Created, over.Expires = now().Add(-link.TryLife-time.Hour), now().Add(-time.Hour)
	add(t, r, over) // takes no place
	fill(t, r, link.MaxTry-1)
	last := add(t, r, mint(link.Try, "last"))
	wantFull(t, r)
	wantFull(t, r)
	add(t, r, mint(link.Owner, "owners are not counted"))

	// Each place that a revocation frees is one place, however often it is revoked.
	for range 2 {
		if _, err := r.Revoke(t.Context(), last.Hash.ID(), now()); err != nil {
			t.Fatal(err)
		}
	}
	soon := mint(link.Try, "soon")
	soon.Expires = now().Add(200 * time.Millisecond)
	add(t, r, soon)

	// So is one that time frees.
	eventually(t, "a try link that expired frees its place", func() bool {
		err := r.Add(t.Context(), mint(link.Try, "in its place"))
		if err != nil && !errors.Is(err, link.ErrFull) {
			t.Fatal(err)
		}
		return err == nil
	})
	if n := now(); n.Before(soon.Expires) {
		t.Errorf("a place was free at %v, before the link that held it expires at %v", n, soon.Expires)
	}
	wantFull(t, r)
}

func testMaxTryRace(t *testing.T, r link.Registry) {
	const places, callers = 3, 16
	fill(t, r, link.MaxTry-places)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { errs[i] = r.Add(t.Context(), mint(link.Try, "")) })
	}
	wg.Wait()
	added := 0
	for _, err := range errs {
		if err == nil {
			added++
		} else if !errors.Is(err, link.ErrFull) {
			t.Errorf("Add: %v, want ErrFull", err)
		}
	}
	if added != places {
		t.Errorf("%d of %d callers got one of %d places", added, callers, places)
	}
}

func testSeen(t *testing.T, r link.Registry) {
	rec := add(t, r, mint(link.Owner, "busy"))
	at := now().Add(-time.Hour)
	seen := func() time.Time { return wantShown(t, r, rec) }

	r.Seen(rec.Hash, at)
	eventually(t, "the first use is shown", func() bool { return seen().Equal(at) })

	// Within a minute the note may stay as it is, and it never goes back.
	r.Seen(rec.Hash, at.Add(59*time.Second))
	r.Seen(rec.Hash, at.Add(-time.Hour))
	if got := seen(); got.Before(at) || got.After(at.Add(59*time.Second)) {
		t.Errorf("last seen %v, want %v or up to 59 seconds later", got, at)
	}
	later := at.Add(2 * time.Minute)
	eventually(t, "a use two minutes later is shown", func() bool {
		r.Seen(rec.Hash, later) // a note may be lost
		return seen().Equal(later)
	})

	// A note about a link that has just been revoked does not bring it back.
	revoked, err := r.Revoke(t.Context(), rec.Hash.ID(), now())
	if err != nil {
		t.Fatal(err)
	}
	r.Seen(rec.Hash, at.Add(30*time.Minute))
	wantUnknown(t, r, rec.Hash)
	wantShown(t, r, revoked)
}

func testConcurrent(t *testing.T, r link.Registry) {
	const each = 20
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range each {
				rec := mint(link.Owner, "")
				if err := r.Add(t.Context(), rec); err != nil {
					t.Errorf("Add: %v", err)
					return
				}
				r.Seen(rec.Hash, now())
				if _, err := r.Resolve(t.Context(), rec.Hash); err != nil {
					t.Errorf("Resolve what was just added: %v", err)
				}
				if _, err := r.List(t.Context(), "", each); err != nil {
					t.Errorf("List: %v", err)
				}
				if _, err := r.Revoke(t.Context(), rec.Hash.ID(), now()); err != nil {
					t.Errorf("Revoke: %v", err)
				}
				r.Seen(rec.Hash, now())
				if _, err := r.Resolve(t.Context(), rec.Hash); !errors.Is(err, link.ErrUnknown) {
					t.Errorf("Resolve what was just revoked: %v, want ErrUnknown", err)
				}
			}
		})
	}
	wg.Wait()

	// Of many who revoke one link at different instants, all are told the same one.
	rec := add(t, r, mint(link.Owner, ""))
	base := now()
	told := make([]time.Time, 8)
	for i := range told {
		wg.Go(func() {
			got, err := r.Revoke(t.Context(), rec.Hash.ID(), base.Add(time.Duration(i)*time.Second))
			if err != nil {
				t.Errorf("Revoke: %v", err)
			}
			told[i] = got.Revoked
		})
	}
	wg.Wait()
	for _, at := range told {
		if !at.Equal(told[0]) {
			t.Errorf("one revocation was at %v and at %v", told[0], at)
		}
	}
}

func testContext(t *testing.T, r link.Registry) {
	rec := add(t, r, mint(link.Owner, ""))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := r.Resolve(ended, rec.Hash); err == nil {
		wantSame(t, "Resolve", got, rec)
	} else if !errors.Is(err, link.ErrUnavailable) {
		t.Errorf("Resolve of a live link with an ended context: %v, want the record or ErrUnavailable", err)
	}
	if _, err := r.Revoke(ended, rec.Hash.ID(), now()); err != nil && !errors.Is(err, link.ErrUnavailable) {
		t.Errorf("Revoke with an ended context: %v, want nil or ErrUnavailable", err)
	}
}
