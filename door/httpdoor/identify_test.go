// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/link"
)

// registry is one of a few links.
type registry struct {
	link.Registry // the rest is not called

	mu      sync.Mutex
	records map[link.Hash]link.Record
	err     error
	asked   int
	seen    []time.Time
}

func (r *registry) Resolve(_ context.Context, h link.Hash) (link.Record, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.err != nil {
		return link.Record{}, r.err
	}
	record, ok := r.records[h]
	if !ok {
		return link.Record{}, link.ErrUnknown
	}
	return record, nil
}

func (r *registry) Seen(_ link.Hash, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, at)
}

// hanging is a registry that answers nothing by itself.
type hanging struct{ link.Registry }

func (hanging) Resolve(ctx context.Context, _ link.Hash) (link.Record, error) {
	<-ctx.Done()
	return link.Record{}, ctx.Err()
}

func newRegistry(links ...link.Link) *registry {
	r := &registry{records: map[link.Hash]link.Record{}}
	for _, l := range links {
		r.records[l.Hash()] = link.NewRecord(l, link.Owner, "", t0.Time())
	}
	return r
}

// Every spelling of one credential is one caller, and what is malformed is nobody.
func TestAuthorization(t *testing.T) {
	l, other := link.Mint(), link.Mint()
	k := l.Reveal()
	for _, c := range []struct {
		fields []string
		want   int
	}{
		{nil, 401},
		{[]string{""}, 401},
		{[]string{" \t"}, 401},
		{[]string{"Bearer " + k}, 200},
		{[]string{"bearer " + k}, 200},
		{[]string{"BEARER  " + k}, 200},
		{[]string{" bEaReR    " + k + " \t"}, 200},
		{[]string{"Bearer"}, 400},
		{[]string{"Bearer    "}, 400},
		{[]string{"Bearer\t" + k}, 400},
		{[]string{"Bearer \t" + k}, 400},
		{[]string{"xBearer " + k}, 400},
		{[]string{"Bearer" + k}, 400},
		{[]string{"Basic " + k}, 400},
		{[]string{k}, 400},
		{[]string{"Bearer " + k + " " + k}, 400},
		{[]string{"Bearer " + k + ", Bearer " + other.Reveal()}, 400},
		{[]string{"Bearer " + k, "Bearer " + k}, 400},
		{[]string{"Bearer " + k, "Bearer " + other.Reveal()}, 400},
		{[]string{"Bearer \"" + k + "\""}, 400},
		{[]string{"Bearer " + k + "\x00"}, 400},
		{[]string{"Bearer " + k + "é"}, 400},
		{[]string{"Bearer ="}, 400},
		{[]string{"Bearer token"}, 401},
		{[]string{"Bearer " + k[:len(k)-1]}, 401},
		{[]string{"Bearer " + k + "a"}, 401},
		{[]string{"Bearer " + k + "="}, 401},
		{[]string{"Bearer " + strings.ToUpper(k)}, 401},
		{[]string{"Bearer " + other.Reveal()}, 401},
	} {
		s, reg := newStore(), newRegistry(l)
		door := wrap(t, s, httpdoor.Options{Identify: httpdoor.Links(reg, signpost.Bound{})}, hello)
		r := get()
		r.Header["Authorization"] = c.fields
		r.Header.Set("X-API-Key", other.Reveal()) // no source
		w := record(door, r)
		if w.Code != c.want {
			t.Errorf("%q: %d, want %d", c.fields, w.Code, c.want)
		}
		if strings.Contains(fmt.Sprint(w.Header(), w.Body), k[3:]) {
			t.Errorf("%q: the answer shows the link", c.fields)
		}
		if want := c.want == 200; want != (s.takes() == 1) || want && s.taken[0].Key != l.Hash().Key() {
			t.Errorf("%q: %d takes", c.fields, s.takes())
		}
	}
}

func TestLinks(t *testing.T) {
	owned, bounded, try := link.Mint(), link.Mint(), link.Mint()
	reg := newRegistry(owned)
	r := link.NewRecord(bounded, link.Owner, "", t0.Time())
	r.Bound = signpost.MustParseBound("7/min")
	reg.records[r.Hash] = r
	reg.records[try.Hash()] = link.NewRecord(try, link.Try, "", t0.Time())

	bearing := func(l link.Link) *http.Request {
		r := get()
		r.Header.Set("Authorization", "Bearer "+l.Reveal())
		return r
	}
	for _, c := range []struct {
		owners signpost.Bound
		l      link.Link
		want   signpost.Bound
	}{
		{signpost.Bound{}, owned, signpost.DefaultBound()},
		{signpost.MustParseBound("5/min"), owned, signpost.MustParseBound("5/min")},
		{signpost.MustParseBound("5/min"), bounded, signpost.MustParseBound("7/min")},
		{signpost.Bound{}, try, signpost.StrangerBound()},
	} {
		got, err := httpdoor.Links(reg, c.owners)(bearing(c.l))
		if err != nil || got.Bound != c.want || got.Key != c.l.Hash().Key() || got.Name != c.l.Hash().ID() {
			t.Errorf("%+v, %v", got, err)
		}
	}

	t.Run("seen at the instant of the decision, also when refused", func(t *testing.T) {
		reg, s := newRegistry(owned), newStore()
		s.at = t0.Add(1500 * time.Millisecond)
		door := wrap(t, s, httpdoor.Options{Identify: httpdoor.Links(reg, signpost.MustParseBound("1/min"))}, hello)
		for range 2 {
			record(door, bearing(owned))
		}
		if len(reg.seen) != 2 || reg.seen[0] != s.at.Time() || reg.seen[1] != s.at.Time() {
			t.Errorf("seen %v", reg.seen)
		}
	})
	t.Run("unavailable", func(t *testing.T) {
		for _, err := range []error{link.ErrUnavailable, fmt.Errorf("read: %w", link.ErrUnavailable), errors.New("other")} {
			reg := newRegistry(owned)
			reg.err = err
			_, got := httpdoor.Links(reg, signpost.Bound{})(bearing(owned))
			if !errors.Is(got, httpdoor.ErrUnavailable) || !errors.Is(got, err) {
				t.Errorf("%v became %v", err, got)
			}
			if w := record(wrap(t, newStore(), httpdoor.Options{Identify: httpdoor.Links(reg, signpost.Bound{})}, hello), bearing(owned)); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
				t.Errorf("%v: %d with %v", err, w.Code, w.Header())
			}
		}
	})
	t.Run("a registry that hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			door := wrap(t, newStore(), httpdoor.Options{Identify: httpdoor.Links(hanging{}, signpost.Bound{})}, hello)
			if w := record(door, bearing(owned)); w.Code != 503 || w.Header().Get("Retry-After") != "1" {
				t.Errorf("%d with %v", w.Code, w.Header())
			}
			if waited := time.Since(begun); waited != httpdoor.ResolveTimeout {
				t.Errorf("it was waited for %v, want %v", waited, httpdoor.ResolveTimeout)
			}
		})
	})
	t.Run("a flood of guesses charges nobody", func(t *testing.T) {
		reg, s := newRegistry(owned), newStore()
		door := wrap(t, s, httpdoor.Options{Identify: httpdoor.Links(reg, signpost.Bound{})}, hello)
		for range 100 {
			record(door, bearing(link.Mint()))
		}
		if s.takes() != 0 || s.Len() != 0 || reg.asked != 100 {
			t.Errorf("%d takes, %d keys", s.takes(), s.Len())
		}
	})
}

// Whatever the field says: only a request that has the whole link in it, as a word of its own, is let in.
func FuzzAuthorization(f *testing.F) {
	l := link.Mint()
	for _, s := range []string{"", "Bearer %s", "bearer  %s ", "Basic %s", "Bearer %s,%s", "Bearer\x00%s", "%s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		field := strings.ReplaceAll(s, "%s", l.Reveal())
		got, err := httpdoor.Bearer(http.Header{"Authorization": {field}})
		words := strings.FieldsFunc(field, func(r rune) bool { return r == ' ' || r == '\t' })
		well := len(words) == 2 && strings.EqualFold(words[0], "bearer")
		switch {
		case err == nil:
			if !well || got.Reveal() != words[1] {
				t.Errorf("%q was read as a link", s)
			}
		case errors.Is(err, httpdoor.ErrNoCredential):
			if len(words) != 0 {
				t.Errorf("%q was read as none", s)
			}
		case errors.Is(err, httpdoor.ErrUnknownCredential):
			if !well {
				t.Errorf("%q was read as a token", s)
			}
		case !errors.Is(err, httpdoor.ErrBadCredential):
			t.Errorf("%q: %v", s, err)
		}
		if err != nil && strings.Contains(err.Error(), l.Reveal()[3:]) {
			t.Errorf("the error shows the link: %v", err)
		}
	})
}
