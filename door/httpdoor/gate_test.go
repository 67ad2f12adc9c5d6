// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
)

// spy is a ResponseWriter that can do everything, and remembers the first thing that it was asked to do.
type spy struct {
	*httptest.ResponseRecorder
	first atomic.Pointer[string]
}

func newSpy() *spy { return &spy{ResponseRecorder: httptest.NewRecorder()} }

func (s *spy) did(what string) { s.first.CompareAndSwap(nil, &what) }

func (s *spy) seen() string {
	if p := s.first.Load(); p != nil {
		return *p
	}
	return "nothing"
}

func (s *spy) WriteHeader(status int) {
	s.did(fmt.Sprint("WriteHeader ", status))
	s.ResponseRecorder.WriteHeader(status)
}
func (s *spy) Write(b []byte) (int, error) {
	s.did("Write")
	return s.ResponseRecorder.Write(b)
}
func (s *spy) WriteString(b string) (int, error) {
	s.did("WriteString")
	return s.ResponseRecorder.WriteString(b)
}
func (s *spy) Flush() {
	s.did("Flush")
	s.ResponseRecorder.Flush()
}
func (s *spy) ReadFrom(r io.Reader) (int64, error) {
	s.did("ReadFrom")
	return io.Copy(s.ResponseRecorder, r)
}
func (s *spy) Push(string, *http.PushOptions) error {
	s.did("Push")
	return nil
}
func (s *spy) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	s.did("Hijack")
	a, b := net.Pipe()
	b.Close()
	return a, bufio.NewReadWriter(bufio.NewReader(a), bufio.NewWriter(a)), nil
}

// firstBytes are all ways in which the first byte of an answer can leave.
var firstBytes = []struct {
	name string // what the spy sees
	do   http.HandlerFunc
}{
	{"WriteHeader 103", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(103) }},
	{"WriteHeader 101", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(101) }},
	{"WriteHeader 204", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }},
	{"Write", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) }},
	{"WriteString", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }},
	{"Flush", func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush() }},
	{"Flush", func(w http.ResponseWriter, r *http.Request) { http.NewResponseController(w).Flush() }},
	{"ReadFrom", func(w http.ResponseWriter, r *http.Request) { w.(io.ReaderFrom).ReadFrom(strings.NewReader("hello")) }},
	{"Push", func(w http.ResponseWriter, r *http.Request) { w.(http.Pusher).Push("/", nil) }},
	{"Hijack", func(w http.ResponseWriter, r *http.Request) {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			c.Close()
		}
	}},
	{"Hijack", func(w http.ResponseWriter, r *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
	}},
}

// Whatever the first byte is, it waits for the commit, while the handler runs.
func TestFirstByteWaits(t *testing.T) {
	for i, c := range firstBytes {
		t.Run(fmt.Sprint(i, " ", c.name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p, w := newStore(), newPromise(), newSpy()
				s.commit = p.commit()
				begun := make(chan struct{})
				door := wrap(t, s, httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, r *http.Request) {
					close(begun)
					c.do(w, r)
				})
				go door.ServeHTTP(w, get())
				<-begun
				synctest.Wait()
				if got := w.seen(); got != "nothing" {
					t.Fatalf("%s before the commit", got)
				}
				p.settle(nil)
				synctest.Wait()
				if got := w.seen(); got != c.name {
					t.Errorf("after the commit: %s, want %s", got, c.name)
				}
			})
		})
	}
}

// If the client goes away during the wait, nothing leaves, and the connection is given up.
func TestClientGoneDuringWait(t *testing.T) {
	for i, c := range firstBytes {
		t.Run(fmt.Sprint(i, " ", c.name), func(t *testing.T) {
			w := newSpy()
			s := newStore()
			s.commit = newPromise().commit() // never kept
			ctx, cancel := context.WithCancel(t.Context())
			var event httpdoor.Event
			door := wrap(t, s, httpdoor.Options{Identify: caller("9/min"), Classify: allExpensive, Observe: func(e httpdoor.Event) { event = e }}, func(w http.ResponseWriter, r *http.Request) {
				cancel()
				c.do(w, r)
				if _, err := w.Write([]byte("more")); !errors.Is(err, context.Canceled) {
					t.Errorf("the handler's next write got %v", err)
				}
			})
			if got := panicOf(func() { door.ServeHTTP(w, get().WithContext(ctx)) }); got != http.ErrAbortHandler {
				t.Errorf("ended with %v, want ErrAbortHandler", got)
			}
			if got := w.seen(); got != "nothing" {
				t.Errorf("%s though the client had gone", got)
			}
			if s.releases() != 1 {
				t.Errorf("%d releases, want 1", s.releases())
			}
			if event.Outcome != httpdoor.Aborted || !errors.Is(event.Err, context.Canceled) {
				t.Errorf("observed %s, %v", event.Outcome, event.Err)
			}
		})
	}
}

func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// The server answers 200 by itself for a handler that writes nothing. It has to wait too.
func TestSilentHandlerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newStore(), newPromise()
		s.commit = p.commit()
		door := wrap(t, s, httpdoor.Options{Identify: caller("9/min")}, func(http.ResponseWriter, *http.Request) {})
		w, returned := newSpy(), false
		go func() {
			door.ServeHTTP(w, get())
			returned = true
		}()
		synctest.Wait()
		if returned {
			t.Fatal("it returned before the commit")
		}
		p.settle(signpost.ErrNotDurable)
		synctest.Wait()
		if !returned || w.Header()[render.Marker] == nil {
			t.Errorf("returned %v with %v, want the marker", returned, w.Header())
		}
	})
}

func TestRefusalWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, w := newStore(), newPromise(), newSpy()
		s.commit = p.commit()
		door := wrap(t, s, httpdoor.Options{Identify: caller("0/min")}, hello)
		go door.ServeHTTP(w, get())
		synctest.Wait()
		if got := w.seen(); got != "nothing" {
			t.Fatalf("%s before the commit", got)
		}
		p.settle(signpost.ErrNotDurable)
		synctest.Wait()
		if w.Code != 429 || w.Header()[render.Marker] == nil {
			t.Errorf("%d with %v, want 429 and the marker", w.Code, w.Header())
		}
	})
}

func TestRefusedClientGone(t *testing.T) {
	s, w := newStore(), newSpy()
	s.commit = newPromise().commit()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	door := wrap(t, s, httpdoor.Options{Identify: caller("0/min")}, hello)
	if got := panicOf(func() { door.ServeHTTP(w, get().WithContext(ctx)) }); got != http.ErrAbortHandler || w.seen() != "nothing" {
		t.Errorf("ended with %v after %s", got, w.seen())
	}
}

func TestBeforeHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newStore(), newPromise()
		s.commit = p.commit()
		called := false
		door := wrap(t, s, httpdoor.Options{Identify: caller("9/min"), BeforeHandler: true}, func(w http.ResponseWriter, r *http.Request) {
			called = true
			if d, _ := httpdoor.FromContext(r.Context()); !d.Degraded {
				t.Error("the handler was not told that the count is not durable")
			}
		})
		w := httptest.NewRecorder()
		go door.ServeHTTP(w, get())
		synctest.Wait()
		if called {
			t.Fatal("the handler began before the commit")
		}
		p.settle(signpost.ErrNotDurable)
		synctest.Wait()
		if !called || w.Header()[render.Marker] == nil {
			t.Errorf("called %v, header %v", called, w.Header())
		}
	})
}

func TestBeforeHandlerClientGone(t *testing.T) {
	s := newStore()
	s.commit = newPromise().commit()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	door := wrap(t, s, httpdoor.Options{Identify: caller("9/min"), BeforeHandler: true, Classify: allExpensive}, func(http.ResponseWriter, *http.Request) {
		t.Error("the handler was called")
	})
	if got := panicOf(func() { door.ServeHTTP(newSpy(), get().WithContext(ctx)) }); got != http.ErrAbortHandler || s.releases() != 1 {
		t.Errorf("ended with %v after %d releases", got, s.releases())
	}
}

// The marker is on degraded answers and on no others, though all go over one connection.
func TestMarkerComesAndGoes(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := newStore()
		server := serve(t, wrap(t, s, httpdoor.Options{Identify: caller("6/min")}, hello), http2)
		for i := range 10 {
			degraded, kept := i%3 == 1, error(nil)
			if i%3 == 2 {
				kept = signpost.ErrNotDurable
			}
			s.set(func(s *store) {
				p := newPromise()
				p.settle(kept)
				s.degraded, s.commit = degraded, p.commit()
			})
			res, _ := do(t, server, request(t, "GET", server.URL, nil))
			if want := i < 6; want != (res.StatusCode == 200) {
				t.Errorf("request %d: %d", i, res.StatusCode)
			}
			if want := degraded || kept != nil; want != (res.Header.Get("X-Signpost-RateLimit") == "degraded") {
				t.Errorf("request %d over %s: marker %q, want it %v", i, res.Proto, res.Header.Get("X-Signpost-RateLimit"), want)
			}
		}
	}
}

// A layer further out that recovers from panics answers a request that was counted, too.
func TestPanicWaitsAndMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, w := newStore(), newPromise(), newSpy()
		s.commit = p.commit()
		door := wrap(t, s, httpdoor.Options{Identify: caller("9/min"), Classify: allExpensive}, func(http.ResponseWriter, *http.Request) { panic("boom") })
		go func() {
			if got := panicOf(func() { door.ServeHTTP(w, get()) }); got != "boom" {
				t.Errorf("the panic became %v", got)
			}
			w.WriteHeader(500)
		}()
		synctest.Wait()
		if got := w.seen(); got != "nothing" || s.releases() != 1 {
			t.Fatalf("%s and %d releases before the commit", got, s.releases())
		}
		p.settle(signpost.ErrNotDurable)
		synctest.Wait()
		if w.seen() != "WriteHeader 500" || w.Header()[render.Marker] == nil || w.Header()[render.RateLimitPolicy] == nil {
			t.Errorf("%s with %v", w.seen(), w.Header())
		}
	})
}

// A client that waits for "100 Continue" is sent it when the body is read: that is a byte too.
func TestContinueWaits(t *testing.T) {
	for _, outcome := range []error{nil, signpost.ErrNotDurable} {
		synctest.Test(t, func(t *testing.T) {
			s, p := newStore(), newPromise()
			s.commit = p.commit()
			var read atomic.Bool
			r := httptest.NewRequest("POST", "/", io.TeeReader(strings.NewReader("hello"), writeFunc(func(b []byte) { read.Store(true) })))
			r.Header.Set("Expect", "100-continue")
			w := httptest.NewRecorder()
			go wrap(t, s, httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				fmt.Fprint(w, string(b), err)
			}).ServeHTTP(w, r)
			synctest.Wait()
			if read.Load() {
				t.Fatal("the body was read before the commit")
			}
			p.settle(outcome)
			synctest.Wait()
			if got := w.Body.String(); got != "hello<nil>" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestContinueClientGone(t *testing.T) {
	s := newStore()
	s.commit = newPromise().commit()
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequest("POST", "/", strings.NewReader("hello")).WithContext(ctx)
	r.Header.Set("Expect", "100-continue")
	door := wrap(t, s, httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, r *http.Request) {
		cancel()
		for range 2 {
			if b, err := io.ReadAll(r.Body); len(b) > 0 || !errors.Is(err, context.Canceled) {
				t.Errorf("read %q, %v", b, err)
			}
		}
	})
	if got := panicOf(func() { door.ServeHTTP(newSpy(), r) }); got != http.ErrAbortHandler {
		t.Errorf("ended with %v", got)
	}
}

type writeFunc func([]byte)

func (f writeFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }
