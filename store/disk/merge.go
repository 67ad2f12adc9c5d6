// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
)

const (
	// mergeLogs is how many logs there are before they are merged into the table. Of a large table it is as many as
	// have half its size, so that a merge does not write much more than the logs did.
	mergeLogs = 16
	// mergeEvery is how long what has ended stays on the disk of a store that is hardly used.
	mergeEvery = time.Hour
)

// merges is what the committer and the merging goroutine share. A merge writes a new table from the old one and from what has
// changed in memory since that was written. So the logs are read at Open only, and ended windows need no deletion.
type merges struct {
	table   atomic.Pointer[table] // nil: nothing was merged yet
	merged  atomic.Uint64         // the last batch that is wholly in the table
	wanted  atomic.Bool
	merging atomic.Bool
	cuts    chan cut
}

// cut is a place between two batches where a new log begins: the table has what lies before it.
type cut struct {
	batch uint64 // the last before it
	frame uint64 // the last before it
	log   uint64 // that begins there
}

func (m *merges) init() { m.cuts = make(chan cut, 1) }

// useTable returns the table, which the caller releases, or nil.
func (s *Store) useTable() *table {
	for {
		t := s.table.Load()
		if t == nil || t.use() {
			return t
		}
	}
}

// setTable replaces the table and returns the old one, with the use that the store made of it.
func (s *Store) setTable(t *table) *table { return s.table.Swap(t) }

// wantMerge asks for a merge.
func (s *Store) wantMerge() {
	if !s.merging.Load() && !s.wanted.Swap(true) {
		s.nudge()
	}
}

// wantsCut reports that the committer has to begin a new log for a merge.
func (c *committer) wantsCut() bool { return c.wanted.Load() && !c.merging.Load() }

// cutLocked lets what lies before the log that was just begun, after b, be merged. It needs mu: a committer that has been
// replaced must not ask for that, because others have written since.
func (c *committer) cutLocked(b *batch) {
	c.wanted.Store(false)
	c.merging.Store(true)
	c.cuts <- cut{batch: b.number, frame: c.journal.last, log: c.journal.number} // there is room: nothing is merging
}

// checkLogs wants a merge when there are many logs.
func (s *Store) checkLogs() {
	many := int64(mergeLogs)
	if t := s.useTable(); t != nil {
		many = max(many, t.bytes/2/s.dir.logSize)
		t.release()
	}
	if int64(s.dir.logCount()) > many {
		s.wantMerge()
	}
}

// mergeAll merges at each cut, until the store is closed.
func (s *Store) mergeAll() {
	regular := time.NewTicker(mergeEvery)
	defer regular.Stop()
	for {
		select {
		case c := <-s.cuts:
			if !s.mergeUntilDone(c) {
				return
			}
			s.merging.Store(false)
			s.nudge() // another may be wanted by now
		case <-regular.C:
			if s.durable.Load() > s.merged.Load() {
				s.wantMerge()
			}
		case <-s.closing:
			return
		}
	}
}

// mergeUntilDone merges as often as it takes. It returns false if the store is closed before that succeeds.
func (s *Store) mergeUntilDone(c cut) bool {
	for wait := firstTry; ; wait = min(2*wait, time.Minute) {
		err := s.merge(c)
		if err == nil {
			if wait > firstTry {
				s.log.Info("the logs of the store are merged again")
			}
			return true
		}
		s.failed("merge", err)
		s.dir.dropSpares() // if it is room that is missing
		if wait == firstTry {
			s.log.Error("the logs of the store cannot be merged, and take up more and more of the disk", "cause", err)
		}
		select {
		case <-s.closing:
			return false
		case <-time.After(wait):
		}
	}
}

// merge writes the table of a cut.
func (s *Store) merge(c cut) error {
	old := s.useTable()
	if old != nil {
		defer old.release()
	}
	name := s.dir.tableName(c.log)
	if err := s.writeTable(name+tempSuffix, old, c); err != nil {
		s.dir.files.remove(name + tempSuffix)
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := s.dir.files.rename(name+tempSuffix, name); err != nil {
		return fmt.Errorf("name table: %w", err)
	}
	if err := s.dir.files.syncDir(s.dir.path); err != nil {
		return fmt.Errorf("sync %s: %w", s.dir.path, err)
	}
	t, err := openTable(s.dir.files, name)
	if err != nil {
		return err
	}
	if old := s.setTable(t); old != nil {
		old.onUnused = func() { s.dir.files.remove(old.name) }
		old.release()
	}
	s.merged.Store(c.batch)
	s.pending.forget(c.batch)
	s.dropOver()
	if err := s.dir.dropLogs(c.log); err != nil {
		s.failed("remove logs", err) // the next Open removes them
	}
	return nil
}

// writeTable writes what the old table and the memory have, but for what has ended.
func (s *Store) writeTable(name string, old *table, c cut) error {
	f, err := s.dir.files.create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := newTableWriter(f, c.log, c.frame)
	k := s.newKeeper()
	put := func(n key, value []byte) error {
		if value = k.keep(n, value); len(value) == 0 {
			return nil
		}
		return w.add(n, value)
	}
	from := cursor{table: old}
	if err := from.advance(); err != nil {
		return err
	}
	// Where both have a record, that of the memory is newer. Counts sort before every other kind.
	for n, value := range s.changes {
		for !from.done && bytes.Compare(from.key[:], n[:]) < 0 {
			if err := put(from.key, from.value); err != nil {
				return err
			}
			if err := from.advance(); err != nil {
				return err
			}
		}
		if !from.done && from.key == n {
			if err := from.advance(); err != nil {
				return err
			}
		}
		if err := put(n, value); err != nil {
			return err
		}
	}
	for !from.done {
		if err := put(from.key, from.value); err != nil {
			return err
		}
		if err := from.advance(); err != nil {
			return err
		}
	}
	return w.finish()
}

// changes yields, in order, all records that are in no table, as they are now. That may be later than the cut;
// what was charged since is in the logs behind it as well.
func (s *Store) changes(yield func(key, []byte) bool) {
	merged := s.merged.Load()
	var entries []*entry
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, e := range sh.keys {
			if e.load == nil && e.batch > merged {
				entries = append(entries, e)
			}
		}
		sh.mu.Unlock()
	}
	slices.SortFunc(entries, func(a, b *entry) int { return bytes.Compare(a.id[:], b.id[:]) })
	var windows [state.MaxLengths]state.Window
	var value []byte
	for _, e := range entries {
		sh := s.shard(&e.id)
		sh.mu.Lock()
		value = appendWindows(value[:0], e.Windows(windows[:0], 0))
		sh.mu.Unlock()
		if !yield(countKind.of(e.id), value) {
			return
		}
	}
	var others []record
	s.pending.mu.RLock()
	for n, rec := range s.pending.records {
		others = append(others, record{n, rec.value})
	}
	s.pending.mu.RUnlock()
	slices.SortFunc(others, func(a, b record) int { return bytes.Compare(a.key[:], b.key[:]) })
	for _, r := range others {
		if !yield(r.key, r.value) {
			return
		}
	}
}

// dropOver drops the keys from memory that have ended.
func (s *Store) dropOver() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		horizon := sh.horizon(s)
		for _, e := range sh.keys {
			if s.over(e, horizon) {
				s.drop(sh, e)
			}
		}
		sh.mu.Unlock()
	}
}

// keeper says what of the records goes into a table.
type keeper struct {
	horizon signpost.Instant // what has ended by then goes
	now     time.Time
	gone    map[id]bool // links that were dropped: what else is known of them goes too
}

func (s *Store) newKeeper() *keeper {
	k := &keeper{now: time.Now(), gone: make(map[id]bool)}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		k.horizon = max(k.horizon, sh.horizon(s))
		sh.mu.Unlock()
	}
	return k
}

// keep returns the value to keep of a record, or nothing.
func (k *keeper) keep(n key, value []byte) []byte {
	switch n.kind() {
	case countKind:
		var windows [state.MaxLengths]state.Window
		ws, err := parseWindows(windows[:0], value)
		if err == nil && !slices.ContainsFunc(ws, func(w state.Window) bool { return cmp.Compare(w.End(), k.horizon) > 0 }) {
			return nil
		}
	case linkKind:
		if r, err := parseLink(n.id(), value); err == nil && endedLongAgo(&r, k.now) {
			k.gone[n.id()] = true
			return nil
		}
	case seenKind:
		if k.gone[n.id()] {
			return nil
		}
	case tryKind:
		if until, err := parseTime(value); err == nil && !k.now.Before(until) {
			return nil
		}
	}
	return value
}
