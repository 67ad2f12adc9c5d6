// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
)

// maxCachedLinks is how many links are held in memory.
const maxCachedLinks = 100_000

// Links is a [link.Registry] whose records lie beside the counts. A link that was used lately is resolved from memory. It is safe
// for concurrent use.
type Links struct {
	store   *Store
	changes chan struct{} // holds a token for the one that adds or revokes; a mutex that can be given up waiting for

	mu    sync.RWMutex
	known map[id]*link.Entry // as they are: what changes a link changes it here
	tries map[id]time.Time   // try links that may be alive, and until when
}

func newLinks(s *Store) (*Links, error) {
	l := &Links{
		store:   s,
		changes: make(chan struct{}, 1),
		known:   make(map[id]*link.Entry),
		tries:   make(map[id]time.Time),
	}
	err := s.scan(tryKind, id{}, func(i id, value []byte) (bool, error) {
		until, err := parseTime(value)
		if err == nil {
			l.tries[i] = until
		}
		return true, err
	})
	return l, err
}

// Resolve implements [link.Registry].
func (l *Links) Resolve(ctx context.Context, h link.Hash) (link.Record, error) {
	k, err := l.find(ctx, linkID(h))
	if err != nil {
		return link.Record{}, err
	}
	if k.Hash != h || !k.Live(time.Now()) {
		return link.Record{}, link.ErrUnknown
	}
	return k.Record, nil
}

// Add implements [link.Registry].
func (l *Links) Add(ctx context.Context, r link.Record) error {
	rec, err := linkRecord(&r)
	if err != nil {
		return fmt.Errorf("add link: %w", err)
	}
	c, err := l.add(ctx, r, rec)
	if err != nil {
		return fmt.Errorf("add link: %w", err)
	}
	return durable(ctx, "add link", c)
}

func (l *Links) add(ctx context.Context, r link.Record, rec record) (signpost.Commit, error) {
	if err := l.begin(ctx); err != nil {
		return signpost.Commit{}, err
	}
	defer l.end()
	i := linkID(r.Hash)
	if l.store.degraded.Load() { // nobody would be told the link
		return signpost.Commit{}, fmt.Errorf("%w: the disk does not take it: %s", link.ErrUnavailable, l.store.cause())
	}
	switch _, err := l.byID(ctx, r.Hash.ID()); {
	case err == nil:
		return signpost.Commit{}, link.ErrExists
	case !errors.Is(err, link.ErrUnknown):
		return signpost.Commit{}, err
	}
	records := []record{rec}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Origin == link.Try && r.Live(now) {
		if len(l.tries) >= link.MaxTry {
			l.dropTries(now)
		}
		if len(l.tries) >= link.MaxTry {
			return signpost.Commit{}, link.ErrFull
		}
		until := r.Expires
		if until.IsZero() {
			until = time.UnixMilli(int64(signpost.MaxInstant))
		}
		l.tries[i] = until
		records = append(records, record{tryKind.of(i), appendTime(nil, until)})
	}
	l.remember(i, &link.Entry{Record: r})
	return l.store.put(records...), nil
}

// dropTries forgets the try links that have expired. It needs the lock.
func (l *Links) dropTries(now time.Time) {
	for i, until := range l.tries {
		if !now.Before(until) {
			delete(l.tries, i)
		}
	}
}

// Revoke implements [link.Registry]. If the error wraps ErrUnavailable the link may be revoked nevertheless, in memory.
func (l *Links) Revoke(ctx context.Context, id string, at time.Time) (link.Record, error) {
	r, c, err := l.revoke(ctx, id, at)
	if err != nil {
		return link.Record{}, fmt.Errorf("revoke link: %w", err)
	}
	return r, durable(ctx, "revoke link", c)
}

func (l *Links) revoke(ctx context.Context, id string, at time.Time) (link.Record, signpost.Commit, error) {
	if err := l.begin(ctx); err != nil {
		return link.Record{}, signpost.Commit{}, err
	}
	defer l.end()
	k, err := l.byID(ctx, id)
	if err != nil {
		return link.Record{}, signpost.Commit{}, err
	}
	r := k.Record
	var records []record
	if r.Revoked.IsZero() {
		r.Revoked = at
	}
	rec, err := linkRecord(&r)
	if err != nil {
		return link.Record{}, signpost.Commit{}, err
	}
	// It is written again even if it is revoked already: the first time may not be durable.
	i := linkID(r.Hash)
	records = append(records, rec)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.tries[i]; ok {
		delete(l.tries, i)
		records = append(records, record{key: tryKind.of(i)})
	}
	l.remember(i, &link.Entry{Record: r, Seen: k.Seen})
	return r, l.store.put(records...), nil
}

// durable waits for a change.
func durable(ctx context.Context, what string, c signpost.Commit) error {
	if err := c.Wait(ctx); err != nil {
		return fmt.Errorf("%s: %w: %w", what, link.ErrUnavailable, err)
	}
	return nil
}

// Show implements [link.Registry].
func (l *Links) Show(ctx context.Context, id string) (link.Entry, error) {
	k, err := l.byID(ctx, id)
	if err != nil {
		return link.Entry{}, fmt.Errorf("show link: %w", err)
	}
	return *k, nil
}

// List implements [link.Registry].
func (l *Links) List(ctx context.Context, after string, limit int) ([]link.Entry, error) {
	from, err := firstAfter(after)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	if from == nil || limit <= 0 {
		return nil, nil
	}
	all, err := bounded(ctx, l.store, func() (all []link.Entry, err error) {
		err = l.store.scan(linkKind, *from, func(i id, value []byte) (bool, error) {
			e, err := l.store.entry(i, value)
			if err == nil {
				all = append(all, *e)
			}
			return len(all) < limit, err
		})
		return all, err
	})
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	return all, nil
}

// firstAfter returns the lowest id whose public name is above a name, or nil if there is none.
func firstAfter(after string) (*id, error) {
	var from id
	if after == "" {
		return &from, nil
	}
	b, err := hex.DecodeString(after)
	if err != nil || len(b) != len(name{}) {
		return nil, fmt.Errorf("%w: the ID to go on after is not 16 hexadecimal digits", signpost.ErrUsage)
	}
	next := binary.BigEndian.Uint64(b) + 1
	if next == 0 {
		return nil, nil
	}
	binary.BigEndian.PutUint64(from[:], next)
	return &from, nil
}

// Seen implements [link.Registry]. It notes a link that is held in memory, as every link is that was resolved lately.
func (l *Links) Seen(h link.Hash, at time.Time) {
	at = at.UTC().Truncate(time.Millisecond)
	i := linkID(h)
	l.mu.RLock()
	k := l.known[i]
	due := k != nil && k.Hash == h && at.Sub(k.Seen) >= time.Minute
	l.mu.RUnlock()
	if !due {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.known[i]; k != nil && at.Sub(k.Seen) >= time.Minute {
		l.known[i] = &link.Entry{Record: k.Record, Seen: at}
		l.store.put(record{seenKind.of(i), appendTime(nil, at)})
	}
}

// begin waits for its turn to change links.
func (l *Links) begin(ctx context.Context) error {
	if l.store.closed.Load() {
		return fmt.Errorf("%w: %w", link.ErrUnavailable, signpost.ErrClosed)
	}
	select {
	case l.changes <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", link.ErrUnavailable, ctx.Err())
	}
}

func (l *Links) end() { <-l.changes }

// find returns a link from memory or from the disk.
func (l *Links) find(ctx context.Context, i id) (*link.Entry, error) {
	if l.store.closed.Load() {
		return nil, fmt.Errorf("%w: %w", link.ErrUnavailable, signpost.ErrClosed)
	}
	l.mu.RLock()
	k := l.known[i]
	l.mu.RUnlock()
	if k != nil {
		return k, nil
	}
	return l.readLink(ctx, func() (id, error) { return i, nil })
}

// byID returns the link of a public name, which is 16 hexadecimal digits.
func (l *Links) byID(ctx context.Context, text string) (*link.Entry, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(name{}) {
		return nil, link.ErrUnknown
	}
	if l.store.closed.Load() {
		return nil, fmt.Errorf("%w: %w", link.ErrUnavailable, signpost.ErrClosed)
	}
	n := name(b)
	return l.readLink(ctx, func() (i id, err error) {
		if i, ok := l.store.pending.named(n); ok {
			return i, nil
		}
		copy(i[:], n[:])
		err = l.store.engine.Load().scan(linkKind, i, func(found id, _ []byte) (bool, error) {
			i = found // or another link, whose name is not the one that was asked for
			return false, nil
		})
		return i, err
	}, n)
}

// readLink reads the link that locate finds.
func (l *Links) readLink(ctx context.Context, locate func() (id, error), names ...name) (*link.Entry, error) {
	found, err := bounded(ctx, l.store, func() (*link.Entry, error) {
		i, err := locate()
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if name(i[:len(n)]) != n {
				return nil, nil
			}
		}
		value, err := l.store.value(linkKind.of(i))
		if err != nil || len(value) == 0 {
			return nil, err
		}
		return l.store.entry(i, value)
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, link.ErrUnknown
	}
	i := linkID(found.Hash)
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.known[i]; k != nil { // it is newer, or the same
		return k, nil
	}
	l.remember(i, found)
	return found, nil
}

// remember holds a link in memory, in place of any other if there are too many: all can be read. It needs the lock.
func (l *Links) remember(i id, k *link.Entry) {
	if len(l.known) >= maxCachedLinks && l.known[i] == nil {
		for other := range l.known {
			delete(l.known, other)
			break
		}
	}
	l.known[i] = k
}

// bounded runs a read that may hang, for as long as the store and ctx allow.
func bounded[T any](ctx context.Context, s *Store, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	done := make(chan result, 1)
	t := time.NewTimer(s.timeout)
	defer t.Stop()
	select {
	case s.reading <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", link.ErrUnavailable, ctx.Err())
	case <-t.C:
		return none, fmt.Errorf("%w: the disk does not answer", link.ErrUnavailable)
	}
	go func() {
		v, err := read()
		<-s.reading
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			s.failed("read", r.err)
			return none, fmt.Errorf("%w: %w", link.ErrUnavailable, r.err)
		}
		return r.value, nil
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", link.ErrUnavailable, ctx.Err())
	case <-t.C:
		return none, fmt.Errorf("%w: the disk does not answer", link.ErrUnavailable)
	}
}

// entry reads the record of a link, and looks up when the link was last seen.
func (s *Store) entry(i id, value []byte) (*link.Entry, error) {
	r, err := parseLink(i, value)
	if err != nil {
		return nil, err
	}
	e := &link.Entry{Record: r}
	seen, err := s.value(seenKind.of(i))
	if err == nil && len(seen) > 0 {
		e.Seen, err = parseTime(seen)
	}
	return e, err
}

// value returns a record of a link from memory or from the disk.
func (s *Store) value(n key) ([]byte, error) {
	if v, ok := s.pending.get(n); ok {
		return v, nil
	}
	return s.lookup(n)
}

// scan yields the records of a kind in order, from an id on, until yield returns false. Where memory and the
// disk both have a record, that of the memory is newer.
func (s *Store) scan(k kind, from id, yield func(id, []byte) (more bool, err error)) error {
	fresh := s.pending.from(k, from)
	more := true
	give := func(i id, value []byte) (err error) {
		if len(value) > 0 {
			more, err = yield(i, value)
		}
		return err
	}
	err := s.engine.Load().scan(k, from, func(i id, value []byte) (bool, error) {
		for more && len(fresh) > 0 {
			order := bytes.Compare(fresh[0].key[1:], i[:])
			if order > 0 {
				break
			}
			if order == 0 {
				value = nil
			}
			r := fresh[0]
			fresh = fresh[1:]
			if err := give(r.key.id(), r.value); err != nil {
				return false, err
			}
		}
		if !more {
			return false, nil
		}
		return more, give(i, value)
	})
	for ; err == nil && more && len(fresh) > 0; fresh = fresh[1:] {
		err = give(fresh[0].key.id(), fresh[0].value)
	}
	return err
}

// from returns the records of a kind from an id on, in order.
func (r *recent) from(k kind, from id) (all []record) {
	first := k.of(from)
	r.mu.RLock()
	for n, rec := range r.records {
		if n.kind() == k && bytes.Compare(n[:], first[:]) >= 0 {
			all = append(all, record{n, rec.value})
		}
	}
	r.mu.RUnlock()
	slices.SortFunc(all, func(a, b record) int { return bytes.Compare(a.key[:], b.key[:]) })
	return all
}

// forget removes links from the disk and from memory.
func (l *Links) forget(gone []record) {
	if len(gone) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range gone {
		delete(l.known, r.key.id())
		delete(l.tries, r.key.id())
	}
	l.store.put(gone...)
}
