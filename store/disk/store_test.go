// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
	"github.com/signposthq/signpost/link"
)

// whileSyncing runs f while no sync ends.
func whileSyncing(disk *faulty, f func()) {
	release := make(chan struct{})
	defer close(release)
	disk.set(func(op, _ string) error {
		if op == "sync" {
			<-release
		}
		return nil
	})
	f()
}

// TestOneFlushForMany wants callers who wait at the same time to share a flush.
func TestOneFlushForMany(t *testing.T) {
	disk := newFaulty()
	s := mustOpen(t, t.TempDir(), Options{files: disk})
	const callers = 256
	var group sync.WaitGroup
	whileSyncing(disk, func() {
		for i := range callers {
			group.Go(func() { take(t, s, request(i)) })
		}
		eventually(t, "all are waiting", func() bool { return s.Stats().Queue == callers })
	})
	group.Wait()
	if st := s.Stats(); st.Flushes > 2 || st.Records != callers {
		t.Errorf("%d flushes and %d records for %d takes at once", st.Flushes, st.Records, callers)
	}
}

// TestHotKeyOnceAFlush wants one record for all that happened to a key since the last flush.
func TestHotKeyOnceAFlush(t *testing.T) {
	disk := newFaulty()
	s := mustOpen(t, t.TempDir(), Options{files: disk})
	var last [64]signpost.Commit
	whileSyncing(disk, func() {
		var group sync.WaitGroup
		for i := range last {
			group.Go(func() {
				for range 20 {
					_, last[i], _ = s.Take(t.Context(), signpost.Request{Key: keyOf(1), Bound: signpost.MustParseBound("100000/min"), At: t0})
				}
			})
		}
		group.Wait()
	})
	for _, c := range last {
		if err := c.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if st := s.Stats(); st.Flushes > 2 || st.Records != st.Flushes {
		t.Errorf("%d flushes and %d records of one key for %d takes", st.Flushes, st.Records, 20*len(last))
	}
	wantUsed(t, s, 1, uint32(20*len(last)))
}

// TestRefusalsWriteNothing wants refusals and peeks to leave the disk and the memory alone.
func TestRefusalsWriteNothing(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	none := signpost.MustParseBound("0/min")
	for i := range 1000 {
		if d := take(t, s, signpost.Request{Key: keyOf(i), Bound: none, At: t0}); d.Admitted {
			t.Fatal("admitted above a limit of 0")
		}
		used(t, s, i)
	}
	if st := s.Stats(); st.Records != 0 || st.Keys != 0 {
		t.Errorf("%d records and %d keys in memory after refusals", st.Records, st.Keys)
	}
}

// TestRefusalWaitsForTheCount has a refusal and a peek wait for the count that they saw.
func TestRefusalWaitsForTheCount(t *testing.T) {
	disk := newFaulty()
	s := mustOpen(t, t.TempDir(), Options{files: disk})
	release := make(chan struct{})
	disk.set(func(op, _ string) error {
		if op == "sync" {
			<-release
		}
		return nil
	})
	q := signpost.Request{Key: keyOf(1), Bound: signpost.MustParseBound("1/min"), At: t0}
	_, first, err := s.Take(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	d, refused, err := s.Take(t.Context(), q)
	if err != nil || d.Admitted {
		t.Fatalf("second take: admitted=%v error=%v", d.Admitted, err)
	}
	_, peeked, err := s.Peek(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]signpost.Commit{"take": first, "refusal": refused, "peek": peeked} {
		select {
		case <-c.Done():
			t.Errorf("the commit of the %s is kept before the sync has ended", name)
		default:
		}
		if c.Done() == nil {
			t.Errorf("the %s has nothing to wait for", name)
		}
	}
	close(release)
	for _, c := range []signpost.Commit{first, refused, peeked} {
		if err := c.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, c, _ := s.Peek(t.Context(), q); c != (signpost.Commit{}) {
		t.Error("a peek at a durable count has something to wait for")
	}
}

// TestAllocations guards the path of a take of a key that is in memory.
func TestAllocations(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	big := signpost.MustParseBound("1000000000/min 1000000000/hour 10 concurrent")
	q := signpost.Request{Key: keyOf(1), Bound: big, Expensive: true, LeaseID: signpost.NewLeaseID(), At: t0}
	take(t, s, q)

	// With one caller each take has a flush of its own: a batch, its channel, and its list of one.
	ctx := context.Background()
	if n := testing.AllocsPerRun(200, func() {
		d, c, _ := s.Take(ctx, q)
		c.Wait(ctx)
		s.Release(d.Lease)
	}); n > 4 {
		t.Errorf("%v allocations for a take and its flush", n)
	}
	// What is told apart from a flush allocates nothing.
	full := signpost.Request{Key: keyOf(1), Bound: signpost.MustParseBound("1/min"), At: t0}
	if n := testing.AllocsPerRun(200, func() {
		d, c, _ := s.Take(ctx, full)
		if c.Wait(ctx); d.Admitted {
			t.Fatal("admitted above the limit")
		}
	}); n > 0 {
		t.Errorf("%v allocations for a refusal", n)
	}
}

// TestManyKeys opens a store of many keys. Opening it reads none of them, and each of them is there.
func TestManyKeys(t *testing.T) {
	const n = 200_000
	dir, disk := t.TempDir(), newFaulty()
	e := mustOpenEngine(t, dir, disk)
	w := e.write()
	for i := range n {
		var at id
		binary.BigEndian.PutUint64(at[:], uint64(i)<<40)
		value := appendWindows(nil, []state.Window{{Start: t0, Seconds: 60, Used: uint32(i%7 + 1)}, {Start: t0, Seconds: 3600, Used: 9}})
		if err := w.put(countKind.of(at), value); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.commit(), e.close()); err != nil {
		t.Fatal(err)
	}

	var reads atomic.Int32
	disk.set(func(op, _ string) error {
		if op == "read" {
			reads.Add(1)
		}
		return nil
	})
	s := mustOpen(t, dir, Options{files: disk})
	if st := s.Stats(); st.Keys != 0 {
		t.Errorf("%d in memory, want none", st.Keys)
	}
	if r := reads.Load(); r > 200 { // of each table its end, not its keys
		t.Errorf("%d reads to open", r)
	}
	for i := 0; i < n; i += n / 100 {
		var digest [32]byte
		binary.BigEndian.PutUint64(digest[:], uint64(i)<<40)
		d := take(t, s, signpost.Request{Key: signpost.RestoreKey(digest, [8]byte{1}), Bound: bound, At: t0})
		if want := uint32(i%7 + 2); d.Windows()[0].Used != want || d.Degraded {
			t.Fatalf("key %d: %d used, degraded=%v; want %d", i, d.Windows()[0].Used, d.Degraded, want)
		}
	}
}

// TestEviction holds fewer keys in memory than there are. All of them are counted exactly.
func TestEviction(t *testing.T) {
	const keys, most = 1000, 100
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{MaxKeys: most})
	var group sync.WaitGroup
	for caller := range 8 {
		group.Go(func() {
			for round := range 3 {
				for i := caller; i < keys; i += 8 {
					if d := take(t, s, request(i)); d.Degraded || d.Windows()[0].Used != uint32(round+1) {
						t.Errorf("key %d: %d used, degraded=%v; want %d", i, d.Windows()[0].Used, d.Degraded, round+1)
						return
					}
				}
			}
		})
	}
	group.Wait()
	if st := s.Stats(); st.Forgotten != 0 || st.Keys > most*5/4+64 {
		t.Errorf("%d keys in memory, %d forgotten", st.Keys, st.Forgotten)
	}
}

// TestMemoryIsBoundedWhileTheDiskFails takes from ever new keys. Memory holds no more than a quarter above the
// maximum of them, and what is forgotten is counted.
func TestMemoryIsBoundedWhileTheDiskFails(t *testing.T) {
	const most = 1000
	disk := newFaulty()
	s := mustOpen(t, t.TempDir(), Options{files: disk, MaxKeys: most})
	disk.set(failing("write"))
	take(t, s, request(0))
	eventually(t, "the store is degraded", func() bool { return s.Stats().Degraded })
	for i := range 5 * most {
		if d := take(t, s, request(i)); !d.Admitted {
			t.Fatalf("take %d refused", i)
		}
	}
	// A shard that is empty when the others are full has nothing to forget.
	if st := s.Stats(); st.Keys > most*5/4+shardCount || st.Forgotten < 3*most {
		t.Errorf("%d keys in memory, %d forgotten", st.Keys, st.Forgotten)
	}
	disk.set(nil)
	wantHealthy(t, s)
}

// TestResetIsDurable resets keys that are in memory, in a table, and being read.
func TestResetIsDurable(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	for i := range 4 {
		take(t, s, request(i))
	}
	flushNow(t, s)
	take(t, s, request(1))
	mustClose(t, s)
	s = mustOpen(t, dir, Options{})
	for i := range 3 {
		if i == 2 {
			take(t, s, request(i))
		}
		if err := s.Reset(t.Context(), keyOf(i)); err != nil {
			t.Fatal(err)
		}
		wantUsed(t, s, i, 0)
	}
	crashed := copyDir(t, dir)
	for _, when := range []string{"before", "after"} {
		c := mustOpen(t, crashed, Options{})
		for i, want := range []uint32{0, 0, 0, 1} {
			if got := used(t, c, i); got != want {
				t.Errorf("%s the merge: key %d: %d are used, want %d", when, i, got, want)
			}
		}
		flushNow(t, c)
		mustClose(t, c)
	}
}

// TestLinksAreDurable closes, crashes and merges under links.
func TestLinksAreDurable(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	now := time.Now().UTC().Truncate(time.Millisecond)
	var records []link.Record
	for i, origin := range []link.Origin{link.Owner, link.Owner, link.Try, link.Try} {
		r := link.NewRecord(link.Mint(), origin, fmt.Sprint(i), now)
		if err := s.Links().Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	for _, i := range []int{1, 3} {
		if _, err := s.Links().Revoke(t.Context(), records[i].Hash.ID(), now); err != nil {
			t.Fatal(err)
		}
	}
	old := link.NewRecord(link.Mint(), link.Try, "ended long ago", now.Add(-100*time.Hour))
	if err := s.Links().Add(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	s.Links().Seen(records[0].Hash, now)
	take(t, s, request(1)) // what was noted before it is durable too
	check := func(s *Store) {
		t.Helper()
		l := s.Links()
		for i, r := range records {
			_, err := l.Resolve(t.Context(), r.Hash)
			if live := i%2 == 0; (err == nil) != live {
				t.Errorf("link %d: %v, want live=%v", i, err, live)
			}
		}
		if shown, err := l.Show(t.Context(), records[0].Hash.ID()); err != nil || !shown.Seen.Equal(now) {
			t.Errorf("last seen %v, error %v; want %v", shown.Seen, err, now)
		}
		if len(l.tries) != 1 {
			t.Errorf("%d try links alive, want 1", len(l.tries))
		}
	}
	check(mustOpen(t, copyDir(t, dir), Options{}))
	s.sweep()
	flushNow(t, s)
	check(s)
	check(mustOpen(t, copyDir(t, dir), Options{}))
	mustClose(t, s)
	s = mustOpen(t, dir, Options{})
	check(s)
	list, err := s.Links().List(t.Context(), "", 100)
	if err != nil || len(list) != 4 {
		t.Errorf("%d links are listed, error %v; want 4 and not the one that ended long ago", len(list), err)
	}
}

// TestLinksOnABrokenDisk never takes a link for unknown that cannot be read, and never mints one that is not durable.
func TestLinksOnABrokenDisk(t *testing.T) {
	t.Parallel()
	dir, disk := t.TempDir(), newFaulty()
	s := mustOpen(t, dir, Options{})
	var records []link.Record
	for range 200 { // so many that they do not lie in one block
		r := link.NewRecord(link.Mint(), link.Owner, "", time.Now())
		if err := s.Links().Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b link.Record) int { return bytes.Compare(a.Hash[:], b.Hash[:]) })
	records[1] = records[100]
	mustClose(t, s)

	s = mustOpen(t, dir, Options{files: disk, CommitTimeout: soon})
	l := s.Links()
	if _, err := l.Resolve(t.Context(), records[0].Hash); err != nil {
		t.Fatal(err)
	}
	for name, fault := range map[string]func(release chan struct{}) error{
		"error": func(chan struct{}) error { return errInjected },
		"hang": func(release chan struct{}) error {
			<-release
			return errInjected
		},
	} {
		release := make(chan struct{})
		disk.set(func(string, string) error { return fault(release) })
		if _, err := l.Resolve(t.Context(), records[1].Hash); !isUnavailable(err) {
			t.Errorf("%s: resolve what is not in memory: %v, want ErrUnavailable", name, err)
		}
		if _, err := l.Resolve(t.Context(), records[0].Hash); err != nil {
			t.Errorf("%s: resolve what is in memory: %v", name, err)
		}
		if _, err := l.List(t.Context(), "", 1000); !isUnavailable(err) {
			t.Errorf("%s: list: %v, want ErrUnavailable", name, err)
		}
		fresh := link.NewRecord(link.Mint(), link.Owner, "", time.Now())
		if err := l.Add(t.Context(), fresh); !isUnavailable(err) {
			t.Errorf("%s: add: %v, want ErrUnavailable", name, err)
		}
		close(release)
		disk.set(nil)
		wantHealthy(t, s)
	}
	if _, err := l.Resolve(t.Context(), records[1].Hash); err != nil {
		t.Errorf("resolve on a disk that works again: %v", err)
	}
}
