// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"context"
	"sync"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
)

const (
	// maxReads is how many reads run at once. A read that hangs holds a thread.
	maxReads = 64
	// readAgain is how long after a read that failed the key is read again, if it is asked for.
	readAgain = time.Second
)

// load is the first read of a key. The lock of the key's shard guards it.
type load struct {
	running bool
	done    chan struct{} // closed when a read that runs has ended
	after   time.Time     // no read begins before
}

// fetch returns the entry of a key that is not in memory, or not wholly, after one read of it that many can wait for. The read
// takes no longer than the commit timeout and the caller's deadline allow; then the entry has its load still.
// fetch needs the shard's lock, and gives it up while it waits.
func (s *Store) fetch(ctx context.Context, sh *shard, i id) *entry {
	var end time.Time
	for gaveUp := false; ; {
		e := sh.keys[i]
		if e == nil {
			e = s.insert(sh, i)
			e.load = &load{}
		}
		l := e.load
		if l == nil {
			return e
		}
		if !l.running && !time.Now().Before(l.after) && !s.closed.Load() {
			l.running, l.done = true, make(chan struct{})
			s.work.Go(func() { s.read(sh, e, l) })
		}
		if gaveUp || !l.running || s.slowReads.Load() {
			return e
		}
		done := l.done
		sh.mu.Unlock()
		if end.IsZero() {
			end = time.Now().Add(s.timeout)
		}
		gaveUp = !s.wait(ctx, done, end)
		sh.mu.Lock() // by now the key may have been read, and dropped again
	}
}

// wait waits for a read, and reports false if it has not ended when it is given up.
func (s *Store) wait(ctx context.Context, done chan struct{}, end time.Time) bool {
	t := time.NewTimer(time.Until(end))
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		s.slowReads.Store(true)
	case <-ctx.Done():
	case <-s.closing:
	}
	return false
}

// read reads what is stored of a key, and puts it together with what was charged meanwhile.
func (s *Store) read(sh *shard, e *entry, l *load) {
	s.reading <- struct{}{}
	value, err := s.lookup(countKind.of(e.id))
	<-s.reading
	var buf [state.MaxLengths]state.Window
	var windows []state.Window
	if err == nil {
		windows, err = parseWindows(buf[:0], value)
	}
	s.slowReads.Store(err != nil)

	sh.mu.Lock()
	defer sh.mu.Unlock()
	l.running = false
	close(l.done)
	switch {
	case e.load != l: // the key was reset
	case err != nil:
		l.after = time.Now().Add(readAgain)
	case e.State == state.State{}:
		e.load = nil
		e.Load(windows, 0)
	default:
		e.load = nil
		e.Settle(sh.latest, counts(windows))
		s.changed(e)
	}
}

func counts(windows []state.Window) (cs []signpost.Count) {
	for _, w := range windows {
		cs = append(cs, signpost.Count{Len: time.Duration(w.Seconds) * time.Second, Start: w.Start, Used: w.Used})
	}
	return cs
}

// lookup reads a record from the disk. A record that is not there is nil.
func (s *Store) lookup(n key) ([]byte, error) {
	value, err := s.engine.Load().get(n)
	if err != nil {
		s.failed("read", err)
	}
	return value, err
}

// recent holds the records of links that are not durable yet.
type recent struct {
	mu      sync.RWMutex
	records map[key]recentRecord
	names   map[name]id // of the links
}

// name is the part of a link's hash that is its public name.
type name [8]byte

type recentRecord struct {
	value []byte // is not written to
	batch uint64 // the batch that makes it durable
}

func (r *recent) init() {
	r.records = make(map[key]recentRecord)
	r.names = make(map[name]id)
}

func (r *recent) put(n key, value []byte, batch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records[n] = recentRecord{value, batch}
	if n.kind() == linkKind {
		i := n.id()
		r.names[name(i[:8])] = i
	}
}

func (r *recent) get(n key) ([]byte, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	rec, ok := r.records[n]
	return rec.value, ok
}

func (r *recent) named(n name) (id, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	i, ok := r.names[n]
	return i, ok
}

// forget drops what is durable.
func (r *recent) forget(durable uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, rec := range r.records {
		if rec.batch <= durable {
			delete(r.records, n)
			if i := n.id(); n.kind() == linkKind {
				delete(r.names, name(i[:8]))
			}
		}
	}
}
