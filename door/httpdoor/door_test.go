// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/store/memory"
)

func TestOrder(t *testing.T) {
	s := newStore()
	tooLarge := func() *http.Request { return httptest.NewRequest("POST", "/", strings.NewReader("12345")) }
	stranger := wrap(t, s, httpdoor.Options{MaxBody: 4, Identify: func(*http.Request) (httpdoor.Caller, error) { return httpdoor.Caller{}, httpdoor.ErrNoCredential }}, hello)
	if got := record(stranger, tooLarge()).Code; got != 401 {
		t.Errorf("a stranger with too large a body: %d, want 401", got)
	}
	known := wrap(t, s, httpdoor.Options{MaxBody: 4, Identify: caller("1/min")}, hello)
	for range 3 {
		if got := record(known, tooLarge()).Code; got != 413 {
			t.Errorf("too large: %d, want 413", got)
		}
	}
	if s.takes() != 0 {
		t.Errorf("%d takes for requests that were too large", s.takes())
	}
	if got := record(known, get()).Code; got != 200 {
		t.Errorf("then: %d, want 200", got)
	}
}

func TestPreflight(t *testing.T) {
	preflight := func() *http.Request {
		r := httptest.NewRequest("OPTIONS", "/", nil)
		r.Header.Set("Origin", "https://example.com")
		r.Header.Set("Access-Control-Request-Method", "GET")
		r.Header.Set("X-Signpost-RateLimit", "degraded")
		return r
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Header["X-Signpost-Ratelimit"] != nil {
			t.Error("the marker of the client came through")
		}
		w.Header().Set("X-Signpost-RateLimit", "degraded")
		w.WriteHeader(204)
	}
	s := newStore()
	door := wrap(t, s, httpdoor.Options{Identify: caller("0/min")}, handler)
	w := record(door, preflight())
	if w.Code != 204 || s.takes() != 0 {
		t.Errorf("preflight: %d after %d takes, want 204 after 0", w.Code, s.takes())
	}
	if got := lines(w.Result().Header); got != "" {
		t.Errorf("preflight carries %s", got)
	}
	for _, name := range []string{"Origin", "Access-Control-Request-Method"} {
		r := preflight()
		r.Header.Del(name)
		if got := record(door, r).Code; got != 429 {
			t.Errorf("OPTIONS without %s: %d, want 429", name, got)
		}
	}
	counting := wrap(t, s, httpdoor.Options{Identify: caller("0/min"), CountPreflight: true}, handler)
	if got := record(counting, preflight()).Code; got != 429 {
		t.Errorf("counted preflight: %d, want 429", got)
	}
}

func TestInboundMarker(t *testing.T) {
	r := get()
	r.Header.Set("X-Signpost-RateLimit", "degraded")
	r.Header["x-signpost-ratelimit"] = []string{"degraded"}
	door := wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, in *http.Request) {
		if len(in.Header) != 0 {
			t.Errorf("the handler got %v", in.Header)
		}
	})
	if w := record(door, r); w.Header()[render.Marker] != nil {
		t.Error("the marker went back")
	}
	if len(r.Header) != 2 {
		t.Error("the caller's own request was changed")
	}
}

func TestContext(t *testing.T) {
	s := newStore()
	s.at = t0.Add(time.Second)
	door := wrap(t, s, httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		d, ok := httpdoor.FromContext(ctx)
		if !ok || !d.Admitted || d.At != t0.Add(time.Second) || d.Windows()[0].Used != 1 {
			t.Errorf("decision %+v, %v", d, ok)
		}
		if c, ok := httpdoor.CallerFromContext(ctx); !ok || c.Name != "caller" || c.Key != testKey {
			t.Errorf("caller %+v, %v", c, ok)
		}
		if r.Context().Value(http.ServerContextKey) == nil {
			t.Error("the outer values are gone")
		}
	})
	r := get()
	record(door, r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, "there")))

	if _, ok := httpdoor.FromContext(t.Context()); ok {
		t.Error("a decision from nowhere")
	}
	if _, ok := httpdoor.CallerFromContext(t.Context()); ok {
		t.Error("a caller from nowhere")
	}
}

func TestSeveralDoors(t *testing.T) {
	t.Run("one limiter, one caller: counted once", func(t *testing.T) {
		s := newStore()
		limiter := signpost.New(s, signpost.Options{})
		d, err := httpdoor.New(limiter, httpdoor.Options{Identify: caller("5/min"), OmitXRateLimit: true})
		if err != nil {
			t.Fatal(err)
		}
		other, err := httpdoor.New(signpost.New(newStore(), signpost.Options{}), httpdoor.Options{Identify: caller("100/min")})
		if err != nil {
			t.Fatal(err)
		}
		decided := false
		h := d.Wrap(other.Wrap(d.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, decided = httpdoor.FromContext(r.Context())
		}))))
		for i := range 6 {
			want := 200
			if i == 5 {
				want = 429
			}
			if got := record(h, get()).Code; got != want {
				t.Errorf("request %d: %d, want %d", i+1, got, want)
			}
		}
		if !decided {
			t.Error("no decision in the context")
		}
	})
	t.Run("one limiter, several doors of one link", func(t *testing.T) {
		s := newStore()
		limiter := signpost.New(s, signpost.Options{})
		a, _ := httpdoor.New(limiter, httpdoor.Options{Identify: caller("5/min")})
		b, _ := httpdoor.New(limiter, httpdoor.Options{Identify: caller("5/min")})
		codes := ""
		for i := range 6 {
			codes += fmt.Sprint(record([]*httpdoor.Door{a, b}[i%2].Wrap(http.HandlerFunc(hello)), get()).Code, " ")
		}
		if codes != "200 200 200 200 200 429 " {
			t.Errorf("got %s", codes)
		}
	})
	t.Run("one limiter, two callers: both are asked and counted", func(t *testing.T) {
		s := newStore()
		limiter := signpost.New(s, signpost.Options{})
		outer, _ := httpdoor.New(limiter, httpdoor.Options{Identify: caller("5/min")})
		inner, _ := httpdoor.New(limiter, httpdoor.Options{Identify: func(*http.Request) (httpdoor.Caller, error) {
			return httpdoor.Caller{Key: signpost.KeyOf("test", "other"), Bound: signpost.MustParseBound("2/min")}, nil
		}})
		h := outer.Wrap(inner.Wrap(http.HandlerFunc(hello)))
		w := record(h, get())
		if s.takes() != 2 {
			t.Errorf("%d takes, want 2", s.takes())
		}
		if got := w.Header()[render.RateLimit]; len(got) != 1 || got[0] != `"minute";r=1;t=60` {
			t.Errorf("RateLimit %q, want the inner door's", got)
		}
		record(h, get())
		w = record(h, get())
		if got := w.Header()[render.RateLimit]; w.Code != 429 || len(got) != 1 || got[0] != `"minute";r=0;t=60` {
			t.Errorf("%d with RateLimit %q, want the inner door's", w.Code, got)
		}
	})
	t.Run("an inner door still asks who it is", func(t *testing.T) {
		limiter := signpost.New(newStore(), signpost.Options{})
		outer, _ := httpdoor.New(limiter, httpdoor.Options{Identify: caller("5/min")})
		inner, _ := httpdoor.New(limiter, httpdoor.Options{Identify: func(*http.Request) (httpdoor.Caller, error) {
			return httpdoor.Caller{}, httpdoor.ErrNoCredential
		}})
		w := record(outer.Wrap(inner.Wrap(http.HandlerFunc(hello))), get())
		if w.Code != 401 || w.Header()[render.RateLimit] != nil {
			t.Errorf("%d with %v, want 401 without counters", w.Code, w.Header())
		}
	})
	t.Run("degraded further in", func(t *testing.T) {
		for _, which := range []string{"outer", "inner"} {
			stores := map[string]*store{"outer": newStore(), "inner": newStore()}
			stores[which].degraded = true
			inner := wrap(t, stores["inner"], httpdoor.Options{Identify: caller("5/min")}, hello)
			w := record(wrap(t, stores["outer"], httpdoor.Options{Identify: caller("5/min")}, inner.ServeHTTP), get())
			if got := w.Header()[render.Marker]; len(got) != 1 || got[0] != "degraded" {
				t.Errorf("the %s door is degraded, and the marker is %q", which, got)
			}
		}
	})
}

func TestObserve(t *testing.T) {
	var got []httpdoor.Event
	s := newStore()
	observe := func(e httpdoor.Event) { got = append(got, e) }
	door := wrap(t, s, httpdoor.Options{Identify: caller("2/min"), Observe: observe, MaxBody: 4}, hello)
	record(door, get())
	s.set(func(s *store) { p := newPromise(); p.settle(signpost.ErrNotDurable); s.commit = p.commit() })
	record(door, get())
	record(door, get())
	record(door, httptest.NewRequest("POST", "/", strings.NewReader("12345")))
	s.set(func(s *store) { s.err = signpost.ErrClosed })
	record(door, get())
	strangers := wrap(t, s, httpdoor.Options{Observe: observe, Identify: func(*http.Request) (httpdoor.Caller, error) { return httpdoor.Caller{}, httpdoor.ErrBadCredential }}, hello)
	record(strangers, get())

	var text strings.Builder
	for _, e := range got {
		fmt.Fprintln(&text, e.Outcome, e.Caller.Name, e.Decision.Admitted, e.Decision.Degraded, e.Err)
	}
	want := `admitted caller true false <nil>
admitted caller true true <nil>
refused caller false true <nil>
too_large caller false false <nil>
unavailable caller false false store is closed
bad_credential  false false <nil>
`
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", &text, want)
	}
}

func TestNewListsEveryFault(t *testing.T) {
	_, err := httpdoor.New(nil, httpdoor.Options{Realm: `a"b`, Terms: render.Terms{Docs: strings.Repeat("d", 501)}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"no limiter", "no Identify", `realm "a\"b"`, "longer than 500 bytes"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

func TestDeniedWithoutACountIsUnavailable(t *testing.T) {
	store, err := failopen.New(frozenStore{memory.New(memory.Options{})}, failopen.Options{Timeout: time.Millisecond, Cheap: failopen.Deny})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var event httpdoor.Event
	door, err := httpdoor.New(signpost.New(store, signpost.Options{}), httpdoor.Options{
		Identify: caller("600/min"),
		Observe:  func(e httpdoor.Event) { event = e },
	})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	door.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })).
		ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	h := w.Header()
	if w.Code != 503 || h.Get("Retry-After") != "1" || h.Get("Cache-Control") != "no-store" || len(h["X-Signpost-RateLimit"]) != 1 || h["RateLimit"] != nil {
		t.Errorf("got %d %v, want a degraded 503 with Retry-After: 1 and no counters", w.Code, h)
	}
	if event.Outcome != httpdoor.Unavailable || event.Decision.Admitted || !event.Decision.Degraded {
		t.Errorf("observed %s of %+v, want unavailable of a degraded denial", event.Outcome, event.Decision)
	}
}

// frozenStore answers no take.
type frozenStore struct{ *memory.Store }

func (frozenStore) Take(ctx context.Context, _ signpost.Request) (signpost.Decision, signpost.Commit, error) {
	<-ctx.Done()
	return signpost.Decision{}, signpost.Commit{}, ctx.Err()
}
