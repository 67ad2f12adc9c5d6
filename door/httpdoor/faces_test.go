// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost/door/httpdoor"
)

// abilities says what a handler finds when it asks a ResponseWriter what it can do.
func abilities(w http.ResponseWriter) string {
	var b strings.Builder
	for _, c := range []struct {
		name string
		has  bool
	}{
		{"Flusher", is[http.Flusher](w)},
		{"FlushError", is[interface{ FlushError() error }](w)},
		{"Hijacker", is[http.Hijacker](w)},
		{"ReaderFrom", is[io.ReaderFrom](w)},
		{"Pusher", is[http.Pusher](w)},
		{"StringWriter", is[io.StringWriter](w)},
	} {
		if c.has {
			b.WriteString(c.name + " ")
		}
	}
	rc := http.NewResponseController(w)
	for _, c := range []struct {
		name string
		err  error
	}{
		{"SetReadDeadline", rc.SetReadDeadline(time.Time{})},
		{"SetWriteDeadline", rc.SetWriteDeadline(time.Time{})},
		{"EnableFullDuplex", rc.EnableFullDuplex()},
		{"Flush", rc.Flush()},
	} {
		fmt.Fprintf(&b, "%s:%v ", c.name, c.err)
	}
	return b.String()
}

func is[T any](v any) bool { _, ok := v.(T); return ok }

// Behind a door a handler can do on a real server what it can do without.
func TestAbilitiesOnRealServers(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		var got string
		ask := func(w http.ResponseWriter, r *http.Request) { got = abilities(w) }
		plain, wrapped := serve(t, http.HandlerFunc(ask), http2), serve(t, wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, ask), http2)
		res, _ := do(t, plain, request(t, "GET", plain.URL, nil))
		want := got
		do(t, wrapped, request(t, "GET", wrapped.URL, nil))
		if got != want || !strings.Contains(want, "Flusher") {
			t.Errorf("over %s\n got %s\nwant %s", res.Proto, got, want)
		}
	}
}

// The sixteen combinations, one by one.
func TestAbilitiesOfAnyWriter(t *testing.T) {
	type none struct{ http.ResponseWriter }
	s := newSpy()
	hidden := none{s}
	type (
		f = http.Flusher
		h = http.Hijacker
		r = io.ReaderFrom
		p = http.Pusher
	)
	for i, inner := range []http.ResponseWriter{
		hidden,
		struct {
			none
			f
		}{hidden, s},
		struct {
			none
			h
		}{hidden, s},
		struct {
			none
			f
			h
		}{hidden, s, s},
		struct {
			none
			r
		}{hidden, s},
		struct {
			none
			f
			r
		}{hidden, s, s},
		struct {
			none
			h
			r
		}{hidden, s, s},
		struct {
			none
			f
			h
			r
		}{hidden, s, s, s},
		struct {
			none
			p
		}{hidden, s},
		struct {
			none
			f
			p
		}{hidden, s, s},
		struct {
			none
			h
			p
		}{hidden, s, s},
		struct {
			none
			f
			h
			p
		}{hidden, s, s, s},
		struct {
			none
			r
			p
		}{hidden, s, s},
		struct {
			none
			f
			r
			p
		}{hidden, s, s, s},
		struct {
			none
			h
			r
			p
		}{hidden, s, s, s},
		struct {
			none
			f
			h
			r
			p
		}{hidden, s, s, s, s},
	} {
		has := func(w http.ResponseWriter) (bits int) {
			for i, b := range []bool{is[f](w), is[h](w), is[r](w), is[p](w)} {
				if b {
					bits |= 1 << i
				}
			}
			return bits
		}
		if has(inner) != i {
			t.Fatalf("the test itself is wrong: %d is %04b", i, has(inner))
		}
		wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, _ *http.Request) {
			if got := has(w); got != i {
				t.Errorf("inside %04b, seen %04b", i, got)
			}
			if is[interface{ FlushError() error }](w) != is[f](w) {
				t.Errorf("inside %04b: FlushError and Flush do not go together", i)
			}
		}).ServeHTTP(inner, get())
	}
}

// unwrapper is a writer of another layer that only http.ResponseController can see through.
type unwrapper struct{ inner http.ResponseWriter }

func (u unwrapper) Header() http.Header { return u.inner.Header() }

func (u unwrapper) Write(b []byte) (int, error) { return u.inner.Write(b) }

func (u unwrapper) WriteHeader(status int) { u.inner.WriteHeader(status) }

func (u unwrapper) Unwrap() http.ResponseWriter { return u.inner }

func TestThroughOtherLayers(t *testing.T) {
	s := newStore()
	released := func() bool { return s.releases() == 2 }
	door := wrap(t, s, httpdoor.Options{Identify: caller("9/min"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(unwrapper{w})
		if err := errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{}), rc.EnableFullDuplex()); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/flush" {
			fmt.Fprint(w, "hello")
			if err := rc.Flush(); err != nil {
				t.Error(err)
			}
			return
		}
		conn, rw, err := rc.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(rw, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
		rw.Flush()
		conn.Close()
	})
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { door.ServeHTTP(unwrapper{w}, r) }), false)
	for _, path := range []string{"/", "/flush"} {
		if _, body := do(t, server, request(t, "GET", server.URL+path, nil)); body != "hello" {
			t.Errorf("%s: got %q", path, body)
		}
	}
	eventually(t, "the leases were released", released)
}
