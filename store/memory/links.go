// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"context"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signposthq/signpost/link"
)

// keepEnded is how long a record is kept, at least, after its link was revoked or expired.
const keepEnded = 24 * time.Hour

// Links is a [link.Registry] in the memory of one process: the links end with it. Make one with
// NewLinks. It has no goroutine of its own: adding a link drops the records that ended long ago.
type Links struct {
	mu    sync.RWMutex
	links map[[8]byte]*entry // by the part of the hash that is its ID
	tries int                // try links alive, exact until next
	next  time.Time          // when the records have to be looked through again; past: at the next Add
}

type entry struct {
	record link.Record
	seen   atomic.Int64 // Unix milliseconds; 0: never. Written under the read lock
}

// NewLinks returns an empty registry.
func NewLinks() *Links { return &Links{links: make(map[[8]byte]*entry)} }

// Resolve implements [link.Registry]. It never returns ErrUnavailable.
func (l *Links) Resolve(_ context.Context, h link.Hash) (link.Record, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	e := l.links[[8]byte(h[:8])]
	if e == nil || e.record.Hash != h || !e.record.Live(time.Now()) {
		return link.Record{}, link.ErrUnknown
	}
	return e.record, nil
}

// Add implements [link.Registry].
func (l *Links) Add(_ context.Context, r link.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !now.Before(l.next) {
		l.sweep(now)
	}
	id := [8]byte(r.Hash[:8])
	if l.links[id] != nil {
		return link.ErrExists
	}
	if r.Live(now) {
		if r.Origin == link.Try {
			if l.tries >= link.MaxTry {
				return link.ErrFull
			}
			l.tries++
		}
		if !r.Expires.IsZero() && r.Expires.Before(l.next) {
			l.next = r.Expires
		}
	}
	l.links[id] = &entry{record: r}
	return nil
}

// sweep drops the records that ended long ago, counts the try links alive, and finds when that
// count changes by itself. It needs the lock.
func (l *Links) sweep(now time.Time) {
	l.tries, l.next = 0, now.Add(keepEnded)
	for id, e := range l.links {
		r := &e.record
		if !r.Live(now) {
			if now.Sub(ended(r)) >= keepEnded {
				delete(l.links, id)
			}
			continue
		}
		if r.Origin == link.Try {
			l.tries++
		}
		if !r.Expires.IsZero() && r.Expires.Before(l.next) {
			l.next = r.Expires
		}
	}
}

// ended returns when a link that is not live stopped being so.
func ended(r *link.Record) time.Time {
	if r.Revoked.IsZero() || !r.Expires.IsZero() && r.Expires.Before(r.Revoked) {
		return r.Expires
	}
	return r.Revoked
}

// Revoke implements [link.Registry].
func (l *Links) Revoke(_ context.Context, id string, at time.Time) (link.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.find(id)
	if e == nil {
		return link.Record{}, link.ErrUnknown
	}
	if e.record.Revoked.IsZero() {
		e.record.Revoked = at
		l.next = time.Time{} // a place may be free
	}
	return e.record, nil
}

// Show implements [link.Registry].
func (l *Links) Show(_ context.Context, id string) (link.Entry, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	e := l.find(id)
	if e == nil {
		return link.Entry{}, link.ErrUnknown
	}
	return e.show(), nil
}

func (e *entry) show() link.Entry {
	shown := link.Entry{Record: e.record}
	if ms := e.seen.Load(); ms != 0 {
		shown.Seen = time.UnixMilli(ms).UTC()
	}
	return shown
}

// List implements [link.Registry]. It looks at all records, whatever the limit.
func (l *Links) List(_ context.Context, after string, limit int) ([]link.Entry, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var entries []*entry
	for _, e := range l.links {
		if e.record.Hash.ID() > after {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b *entry) int { return bytes.Compare(a.record.Hash[:], b.record.Hash[:]) })
	entries = entries[:min(len(entries), max(limit, 0))]
	shown := make([]link.Entry, len(entries))
	for i, e := range entries {
		shown[i] = e.show()
	}
	return shown, nil
}

// Seen implements [link.Registry].
func (l *Links) Seen(h link.Hash, at time.Time) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	e := l.links[[8]byte(h[:8])]
	if e == nil || e.record.Hash != h {
		return
	}
	// Of several callers in one minute, one writes.
	if last, ms := e.seen.Load(), at.UnixMilli(); ms-last >= time.Minute.Milliseconds() {
		e.seen.CompareAndSwap(last, ms)
	}
}

// find returns the entry of an ID, or nil. It needs the lock, for reading at least.
func (l *Links) find(id string) *entry {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != 8 {
		return nil
	}
	return l.links[[8]byte(b)]
}
