// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signposthq/signpost/link"
)

const (
	// keepEnded is how long a record is kept after its link was revoked or expired.
	keepEnded = 25 * time.Hour
	// linksTag keeps all records in one slot, so that what is counted over all of them is exact.
	linksTag = "links"
	// idsAtOnce is how many records are read in one step at most.
	idsAtOnce = 500
)

var (
	//go:embed lua/links/add.lua
	addSource string
	//go:embed lua/links/revoke.lua
	revokeSource string
	//go:embed lua/links/records.lua
	recordsSource string
	//go:embed lua/links/ids.lua
	idsSource string
	//go:embed lua/links/seen.lua
	seenSource string
	//go:embed lua/links/uses.lua
	usesSource string
	//go:embed lua/links/check.lua
	checkLinksSource string

	addScript     = newScript(addSource)
	revokeScript  = newScript(revokeSource)
	recordsScript = newScript(recordsSource)
	idsScript     = newScript(idsSource)
	seenScript    = newScript(seenSource)
	usesScript    = newScript(usesSource)

	checkLinksScript = newCheck(checkLinksSource)
)

var _ link.Registry = (*Links)(nil)

// Links is a [link.Registry] on a server that others share. Each process remembers what it has resolved, and the
// server pushes what changes: a link that is in use costs no round trip, and a revocation holds everywhere within
// milliseconds. It is safe for concurrent use.
//
// While the server cannot be read, a record serves for [link.Stale] after it was read last, and one that was not
// read before is link.ErrUnavailable. Nobody waits for the server then: it is asked in the background whether it answers.
type Links struct {
	connection
	prefix string
	within time.Duration // how long a call waits for the server
	closed atomic.Bool
	known  known
	notes  notes

	ctx   context.Context // ends at Close
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// OpenLinks returns a registry. It returns errors as [Open] does.
func OpenLinks(ctx context.Context, o Options) (*Links, error) {
	option, err := o.client()
	if err != nil {
		return nil, err
	}
	l := &Links{prefix: o.prefix(), within: answerTimeout}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.known.init()
	l.notes.init()
	option.DisableCache = false
	// By prefix, so that the server need not remember who has read what.
	option.ClientTrackingOptions = []string{"BCAST", "PREFIX", l.recordKey("")}
	option.OnInvalidations = func(names []rueidis.RedisMessage) {
		if names == nil { // the connection is lost, or everything was deleted
			l.known.doubt()
		}
		for _, m := range names {
			if name, err := m.ToString(); err == nil && len(name) > len(l.recordKey("")) {
				l.known.forget(name[len(l.recordKey("")):])
			}
		}
	}
	l.connection.init(option, l.prefix)
	l.ended.Go(l.wake)
	l.ended.Go(l.note)
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	check := []string{l.setKey("check:hash"), l.setKey("check:set"), l.setKey("check:string")}
	_, err = l.call(ctx, checkLinksScript, check)
	if err == nil {
		_, _, err = l.read(ctx, []string{"check"})
	}
	if err != nil && lasting(err) {
		l.Close()
		return nil, fmt.Errorf("open links on redis server %s: %w", l.nodes.alone.name, err)
	}
	return l, nil
}

// Watch has outages of the registry told from now on, for logs and health: lost when it does not answer, found when it does again. They
// alternate, must not block, and must not call the Links.
func (l *Links) Watch(lost func(cause error), found func(after time.Duration)) {
	l.known.telling.Lock()
	defer l.known.telling.Unlock()
	l.known.lost, l.known.found = lost, found
}

// Close ends the registry: every call is link.ErrUnavailable from then on.
func (l *Links) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	l.stop()
	l.ended.Wait()
	l.connection.close()
	return nil
}

func (l *Links) recordKey(id string) string { return l.prefix + "{" + linksTag + "}:record:" + id }
func (l *Links) seenKey(id string) string   { return l.prefix + "{" + linksTag + "}:seen:" + id }
func (l *Links) setKey(name string) string  { return l.prefix + "{" + linksTag + "}:" + name }

var linksSlot = slotOfTag([]byte(linksTag))

// call runs a script. It waits at most a second.
func (l *Links) call(ctx context.Context, sc *script, keys []string, args ...string) (rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	return l.run(ctx, l.nodes.of(linksSlot), sc, keys, args)
}

func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, link.ErrUnavailable, err)
}

// answer is what became of a question for a record.
type answer struct {
	remembered
	err error
}

var errSilent = errors.New("the server does not answer")

// Resolve implements [link.Registry].
func (l *Links) Resolve(ctx context.Context, h link.Hash) (link.Record, error) {
	id := h.ID()
	now := l.known.now()
	have, ok := l.known.get(id)
	if ok && have.sure(&l.known, now) {
		return have.live(h, now)
	}
	if l.closed.Load() || l.known.asleep.Load() {
		return l.stale(have, ok, h, errSilent)
	}
	// What is there serves, so it need not be long: the take may still have to find out by itself that the server is away.
	var over <-chan time.Time
	if ok && now-have.read <= link.Stale {
		wait, ask := l.known.again(id)
		if !ask {
			return l.stale(have, ok, h, errSilent)
		}
		timer := time.NewTimer(wait)
		defer timer.Stop()
		over = timer.C
	}
	// The question outlives a caller that goes away: that one says nothing of the server.
	found := make(chan answer, 1)
	go func() {
		r, err := l.find(context.WithoutCancel(ctx), id)
		found <- answer{r, err}
	}()
	select {
	case a := <-found:
		switch {
		case a.err == nil:
			return a.live(h, l.known.now())
		case errors.Is(a.err, link.ErrUnknown):
			return link.Record{}, a.err
		}
		return l.stale(have, ok, h, a.err)
	case <-over:
		l.known.isLate(id, found)
		return l.stale(have, ok, h, errSilent)
	case <-ctx.Done():
		return l.stale(have, ok, h, ctx.Err())
	}
}

// find reads a record and remembers it. A link is often used in the moment after it was minted, while that is still being pushed. It is
// read again then, so that it is remembered: who has seen a link goes on with it when the server fails.
func (l *Links) find(ctx context.Context, id string) (r remembered, _ error) {
	for try := 1; ; try++ {
		lookup, asked := l.known.look(id), l.known.now()
		at, records, err := l.read(ctx, []string{id})
		switch {
		case err != nil:
			l.known.end(lookup)
			if !ofRecord(err) && !l.closed.Load() {
				l.known.rest(err)
			}
			return r, err
		case len(records) == 0:
			l.known.gone(lookup, asked)
			return r, link.ErrUnknown
		}
		// The server looked at its clock at some instant since it was asked. Were that taken for the first of them, links would end early.
		r = remembered{record: records[0], at: at.Add(asked - l.known.now()), read: asked}
		if l.known.put(lookup, r) || try == readTries {
			return r, nil
		}
	}
}

// ofRecord reports whether an error is about the record that was read, and so says nothing of others.
func ofRecord(err error) bool {
	var refused *rueidis.RedisError
	return errors.Is(err, errMalformed) || errors.As(err, &refused) && codeOf(refused) == "WRONGTYPE"
}

// stale answers from memory when the server cannot be read.
func (l *Links) stale(have remembered, ok bool, h link.Hash, cause error) (link.Record, error) {
	if now := l.known.now(); ok && now-have.read <= link.Stale {
		return have.live(h, now)
	}
	return link.Record{}, unavailable("resolve link", cause)
}

// Add implements [link.Registry].
func (l *Links) Add(ctx context.Context, r link.Record) error {
	value, err := encodeLink(&r)
	if err != nil {
		return fmt.Errorf("add link: %w", err)
	}
	id, most := r.Hash.ID(), ""
	if r.Origin == link.Try {
		most = strconv.Itoa(link.MaxTry)
	}
	keys := []string{l.recordKey(id), l.setKey("ids"), l.setKey("ends"), l.setKey("tries")}
	m, err := l.call(ctx, addScript, keys, id, string(r.Hash[:]), value, millis(r.Expires), millis(r.Revoked), most, keepMillis)
	l.known.forget(id)
	if err != nil {
		return unavailable("add link", err)
	}
	switch answer, _ := m.ToString(); answer {
	case "added":
		return nil
	case "exists":
		return link.ErrExists
	case "full":
		return link.ErrFull
	default:
		return unavailable("add link", fmt.Errorf("answer %q is none", answer))
	}
}

// Revoke implements [link.Registry].
func (l *Links) Revoke(ctx context.Context, id string, at time.Time) (link.Record, error) {
	keys := []string{l.recordKey(id), l.setKey("ends"), l.setKey("tries"), l.seenKey(id)}
	m, err := l.call(ctx, revokeScript, keys, id, millis(at), keepMillis)
	l.known.forget(id)
	if err != nil {
		return link.Record{}, unavailable("revoke link", err)
	}
	r, found, err := decodeLink(&m)
	switch {
	case err != nil:
		return link.Record{}, unavailable("revoke link", err)
	case !found:
		return link.Record{}, link.ErrUnknown
	}
	return r, nil
}

// Show implements [link.Registry].
func (l *Links) Show(ctx context.Context, id string) (link.Entry, error) {
	entries, err := l.entries(ctx, []string{id})
	switch {
	case err != nil:
		return link.Entry{}, unavailable("show link", err)
	case len(entries) == 0:
		return link.Entry{}, link.ErrUnknown
	}
	return entries[0], nil
}

// List implements [link.Registry].
func (l *Links) List(ctx context.Context, after string, limit int) (all []link.Entry, _ error) {
	from := "-"
	if after != "" {
		from = "(" + after
	}
	for len(all) < limit {
		most := min(limit-len(all), idsAtOnce)
		m, err := l.call(ctx, idsScript, []string{l.setKey("ids")}, from, strconv.Itoa(most))
		if err != nil {
			return nil, unavailable("list links", err)
		}
		ids, err := m.AsStrSlice()
		if err != nil {
			return nil, unavailable("list links", err)
		}
		if len(ids) == 0 {
			break
		}
		page, err := l.entries(ctx, ids)
		if err != nil {
			return nil, unavailable("list links", err)
		}
		all = append(all, page...)
		from = "(" + ids[len(ids)-1]
	}
	slices.SortFunc(all, func(a, b link.Entry) int { return slices.Compare(a.Hash[:], b.Hash[:]) })
	return all, nil
}

// entries returns those of the entries that are there.
func (l *Links) entries(ctx context.Context, ids []string) ([]link.Entry, error) {
	_, records, err := l.read(ctx, ids)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	keys := make([]string, len(records))
	for i := range records {
		keys[i] = l.seenKey(records[i].Hash.ID())
	}
	m, err := l.call(ctx, usesScript, keys)
	if err != nil {
		return nil, err
	}
	uses, err := m.AsStrSlice()
	if err != nil || len(uses) != len(records) {
		return nil, fmt.Errorf("the last uses of %d links are %d: %w", len(records), len(uses), errMalformed)
	}
	entries := make([]link.Entry, len(records))
	for i, r := range records {
		ms, _ := strconv.ParseInt(uses[i], 10, 64)
		entries[i] = link.Entry{Record: r, Seen: instantOf(ms)}
	}
	return entries, nil
}

// read returns those of the records that are there, and the server's time.
func (l *Links) read(ctx context.Context, ids []string) (at time.Time, records []link.Record, _ error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = l.recordKey(id)
	}
	m, err := l.call(ctx, recordsScript, keys)
	if err != nil {
		return at, nil, err
	}
	fields, err := m.ToArray()
	if err != nil || len(fields) != 1+len(ids) {
		return at, nil, fmt.Errorf("%d records are %d fields: %w", len(ids), len(fields), errMalformed)
	}
	ms, err := fields[0].AsInt64()
	if err != nil {
		return at, nil, fmt.Errorf("the time of records: %w", errMalformed)
	}
	at = instantOf(ms)
	for i := range ids {
		r, found, err := decodeLink(&fields[1+i])
		if err != nil {
			return at, nil, fmt.Errorf("record of link %s: %w", ids[i], err)
		}
		if found {
			records = append(records, r)
		}
	}
	return at, records, nil
}
