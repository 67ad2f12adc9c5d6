// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/store/memory"
)

// t0 is the start of a minute and of an hour.
var t0 = signpost.InstantOf(time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC))

// store is a memory whose clock and whose faults are the test's.
type store struct {
	*memory.Store

	mu       sync.Mutex
	at       signpost.Instant // of every take and renewal; 0: the clock's
	commit   signpost.Commit  // of every decision
	err      error            // of every take
	degraded bool             // every decision
	taken    []signpost.Request
	released []signpost.LeaseID
	renewed  int
	renew    func(signpost.Lease) (signpost.Lease, error) // instead of the memory's
	release  func()                                       // before every release
}

func newStore() *store { return &store{Store: memory.New(memory.Options{}), at: t0} }

func (s *store) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	s.mu.Lock()
	s.taken = append(s.taken, q)
	q.At = s.at
	err, commit, degraded := s.err, s.commit, s.degraded
	s.mu.Unlock()
	if err != nil {
		return signpost.Decision{}, signpost.Commit{}, err
	}
	d, _, err := s.Store.Take(ctx, q)
	d.Degraded = degraded
	return d, commit, err
}

func (s *store) Release(l signpost.Lease) {
	s.mu.Lock()
	s.released = append(s.released, l.ID)
	release := s.release
	s.mu.Unlock()
	if release != nil {
		release()
	}
	s.Store.Release(l)
}

func (s *store) Renew(ctx context.Context, l signpost.Lease, _ signpost.Instant) (signpost.Lease, error) {
	s.mu.Lock()
	s.renewed++
	renew, at := s.renew, s.at
	s.mu.Unlock()
	if renew != nil {
		return renew(l)
	}
	return s.Store.Renew(ctx, l, at)
}

func (s *store) set(f func(*store)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *store) takes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken)
}

func (s *store) releases() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.released)
}

// promise is a commit that is kept when the test says so.
type promise struct {
	done chan struct{}
	err  error
}

func newPromise() *promise                 { return &promise{done: make(chan struct{})} }
func (p *promise) Done() <-chan struct{}   { return p.done }
func (p *promise) Err() error              { return p.err }
func (p *promise) settle(err error)        { p.err = err; close(p.done) }
func (p *promise) commit() signpost.Commit { return signpost.CommitOf(p) }

var testKey = signpost.KeyOf("test", "caller")

// caller identifies every request as the same caller, held to this bound.
func caller(bound string) func(*http.Request) (httpdoor.Caller, error) {
	c := httpdoor.Caller{Key: testKey, Bound: signpost.MustParseBound(bound), Name: "caller"}
	return func(*http.Request) (httpdoor.Caller, error) { return c, nil }
}

func allExpensive(*http.Request) httpdoor.Work { return httpdoor.Work{Expensive: true} }

// wrap puts a door over a store around a handler.
func wrap(t testing.TB, s signpost.Store, o httpdoor.Options, h http.HandlerFunc) http.Handler {
	t.Helper()
	d, err := httpdoor.New(signpost.New(s, signpost.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	return d.Wrap(h)
}

func record(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get() *http.Request { return httptest.NewRequest("GET", "/", nil) }

// serve starts a server for a handler, HTTP/2 over TLS or HTTP/1.1.
func serve(t testing.TB, h http.Handler, http2 bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func do(t testing.TB, s *httptest.Server, r *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eventually waits until a condition holds, and fails if it never does.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}

// lines returns a header as sorted "name: value" lines, in the spelling of the map.
func lines(h http.Header) string {
	var b strings.Builder
	h.Write(&b)
	return strings.ReplaceAll(b.String(), "\r\n", "\n")
}
