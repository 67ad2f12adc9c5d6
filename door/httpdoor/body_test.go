// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signposthq/signpost/door/httpdoor"
)

// chunked is a body whose length nobody knows.
type chunked struct{ io.Reader }

// unread hides a reader's other methods, so that no length is found.
func unread(s string) io.Reader { return chunked{strings.NewReader(s)} }

func TestBodyLimit(t *testing.T) {
	read := func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		fmt.Fprint(w, len(b))
	}
	for _, http2 := range []bool{false, true} {
		s := newStore()
		server := serve(t, wrap(t, s, httpdoor.Options{Identify: caller("1000/min"), MaxBody: 1 << 20}, read), http2)
		full := strings.Repeat("x", 1<<20)
		for _, c := range []struct {
			name  string
			body  io.Reader
			want  int
			taken int
		}{
			{"none", nil, 200, 1},
			{"exactly the limit, declared", strings.NewReader(full), 200, 1},
			{"exactly the limit, chunked", unread(full), 200, 1},
			{"one more, declared", strings.NewReader(full + "x"), 413, 0},
			{"one more, chunked", unread(full + "x"), 413, 1},
			{"ten times more, declared", strings.NewReader(strings.Repeat(full, 10)), 413, 0},
			{"ten times more, chunked", unread(strings.Repeat(full, 10)), 413, 1},
		} {
			before := s.takes()
			res, body := do(t, server, request(t, "POST", server.URL, c.body))
			if res.StatusCode != c.want || s.takes()-before != c.taken {
				t.Errorf("%s over %s: %d after %d takes, want %d after %d", c.name, res.Proto, res.StatusCode, s.takes()-before, c.want, c.taken)
			}
			if c.want == 413 && (!strings.Contains(body, `"maxInputBytes":1048576`) || res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("RateLimit") != "") {
				t.Errorf("%s over %s: %v %s", c.name, res.Proto, res.Header, body)
			}
			if next, _ := do(t, server, request(t, "GET", server.URL, nil)); next.StatusCode != 200 {
				t.Errorf("%s over %s: the request after it got %d", c.name, res.Proto, next.StatusCode)
			}
		}
	}
}

// What handlers make of a read that fails, and what leaves.
func TestTooLargeIsNotMalformed(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    int
		body    string
	}{
		{"answers 400", func(w http.ResponseWriter, r *http.Request) {
			var v any
			if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
				w.Header().Set("Content-Length", "3")
				w.Header().Set("Content-Encoding", "gzip")
				w.Header().Set("ETag", `"1"`)
				w.WriteHeader(400)
				io.WriteString(w, "bad")
				w.Write([]byte("bad"))
				w.(http.Flusher).Flush()
			}
		}, 413, `"error":"content_too_large"`},
		{"answers 500 by ReadFrom", func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(500)
			io.Copy(w, unread("failed"))
			if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrHijacked) && !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("hijacked after the answer: %v", err)
			}
		}, 413, `"error":"content_too_large"`},
		{"answers nothing", func(w http.ResponseWriter, r *http.Request) { io.ReadAll(r.Body) }, 413, `"error":"content_too_large"`},
		{"is content with less", func(w http.ResponseWriter, r *http.Request) { b, _ := io.ReadAll(r.Body); w.Write(b) }, 200, "12"},
		{"has begun to answer", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(404)
			io.ReadAll(r.Body)
			io.WriteString(w, "gone")
		}, 404, "gone"},
		{"knows what it read", func(w http.ResponseWriter, r *http.Request) {
			for range 2 { // the error stays
				_, err := io.ReadAll(r.Body)
				var tooLarge *http.MaxBytesError
				if !errors.As(err, &tooLarge) || tooLarge.Limit != 2 {
					t.Errorf("read error %v", err)
				}
			}
		}, 413, ""},
	} {
		for _, http2 := range []bool{false, true} {
			var logged bytes.Buffer
			server := httptest.NewUnstartedServer(wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min"), MaxBody: 2}, c.handler))
			server.Config.ErrorLog = log.New(&logged, "", 0)
			if server.EnableHTTP2 = http2; http2 {
				server.StartTLS()
			} else {
				server.Start()
			}
			res, body := do(t, server, request(t, "POST", server.URL, unread("123")))
			server.Close()
			if logged.Len() > 0 {
				t.Errorf("%s over %s: logged %q", c.name, res.Proto, &logged)
			}
			if res.StatusCode != c.want || !strings.Contains(body, c.body) || strings.Contains(body, "bad") {
				t.Errorf("%s over %s: %d %s", c.name, res.Proto, res.StatusCode, body)
			}
			if c.want == 413 && (res.Header.Get("Content-Encoding") != "" || res.Header.Get("ETag") != "" || res.Header.Get("Content-Type") != "application/problem+json") {
				t.Errorf("%s over %s: header %v", c.name, res.Proto, res.Header)
			}
		}
	}
}

// Nothing that the handler still writes gets between.
func TestReplacedAnswerIsWhole(t *testing.T) {
	w := newSpy()
	wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min"), MaxBody: 2}, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(500)
		a, errA := w.Write([]byte("failed"))
		b, errB := io.WriteString(w, "failed")
		c, errC := w.(io.ReaderFrom).ReadFrom(strings.NewReader("failed"))
		if err := errors.Join(errA, errB, errC); a != 6 || b != 6 || c != 6 || err != nil {
			t.Errorf("the handler wrote %d, %d and %d bytes, %v", a, b, c, err)
		}
		if _, _, err := w.(http.Hijacker).Hijack(); err == nil {
			t.Error("hijacked after the answer")
		}
	}).ServeHTTP(w, httptest.NewRequest("POST", "/", unread("123")))
	var v struct{ Status int }
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || v.Status != 413 || w.Code != 413 {
		t.Errorf("%d, %v: %s", w.Code, err, w.Body)
	}
}

// A proxy reads the body on another goroutine, and makes a 502 of what it gets.
func TestTooLargeThroughProxy(t *testing.T) {
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }), false)
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { w.WriteHeader(502) }}
	server := serve(t, wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min"), MaxBody: 1 << 10}, proxy.ServeHTTP), false)
	if res, _ := do(t, server, request(t, "POST", server.URL, unread(strings.Repeat("x", 1<<16)))); res.StatusCode != 413 {
		t.Errorf("%d, want 413", res.StatusCode)
	}
	if res, _ := do(t, server, request(t, "POST", server.URL, unread("small"))); res.StatusCode != 200 {
		t.Errorf("a small one: %d, want 200", res.StatusCode)
	}
}

// A client that sends all it has before it reads gets the answer, not a reset. It writes more than the buffers of
// two sockets hold, so it can only end if somebody reads.
func TestAnswerReachesClientThatIsStillSending(t *testing.T) {
	for name, bound := range map[string]string{"413": "9/min", "429": "0/min"} {
		for _, declared := range []bool{true, false} {
			server := serve(t, wrap(t, newStore(), httpdoor.Options{Identify: caller(bound), MaxBody: 1 << 20}, func(w http.ResponseWriter, r *http.Request) { io.ReadAll(r.Body) }), false)
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			const size = 21 << 19 // 10.5 MiB
			body := bytes.Repeat([]byte("x"), size)
			if declared {
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size)
			} else {
				fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", size)
			}
			if _, err := conn.Write(body); err != nil {
				t.Errorf("%s, declared %v: sending: %v", name, declared, err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%s, declared %v: %v", name, declared, err)
				continue
			}
			if fmt.Sprint(res.StatusCode) != name && !(name == "429" && declared && res.StatusCode == 413) || !res.Close {
				t.Errorf("%s, declared %v: %s, close %v", name, declared, res.Status, res.Close)
			}
		}
	}
}

// The client can read the whole answer while it is still sending, and the door still reading.
func TestAnswerIsWholeWhileTheClientSends(t *testing.T) {
	var done atomic.Bool
	server := serve(t, wrap(t, newStore(), httpdoor.Options{Identify: caller("0/min"), Observe: func(httpdoor.Event) { done.Store(true) }}, hello), false)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); !strings.HasSuffix(string(body), "}") || err != nil || !res.Close {
		t.Errorf("%s, %v, close %v", body, err, res.Close)
	}
	if done.Load() {
		t.Error("the answer ended only with the connection")
	}
	conn.Close()
	eventually(t, "the door was done with it", done.Load)
}

// lingerer is a writer that can do what lingering needs.
type lingerer struct {
	*httptest.ResponseRecorder
	cannot error
}

func (l lingerer) EnableFullDuplex() error { return l.cannot }

func (l lingerer) SetReadDeadline(time.Time) error { return nil }

// A refused body is read only where that helps the client to see the refusal.
func TestWhatIsReadOfRefusedBodies(t *testing.T) {
	for _, c := range []struct {
		name   string
		length int64
		change func(*http.Request)
		cannot error
		want   bool
	}{
		{"declared, large", 300 << 10, nil, nil, true},
		{"not declared", -1, nil, nil, true},
		{"declared, small: the server reads it", 200 << 10, nil, nil, false},
		{"HTTP/2", -1, func(r *http.Request) { r.ProtoMajor = 2 }, nil, false},
		{"waiting to be told to go on", 300 << 10, func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, nil, false},
		{"no body", -1, func(r *http.Request) { r.Body = http.NoBody }, nil, false},
		{"another writer", -1, nil, http.ErrNotSupported, false},
	} {
		read := false
		r := httptest.NewRequest("POST", "/", io.TeeReader(strings.NewReader("hello"), writeFunc(func([]byte) { read = true })))
		r.ContentLength = c.length
		if c.change != nil {
			c.change(r)
		}
		w := lingerer{httptest.NewRecorder(), c.cannot}
		wrap(t, newStore(), httpdoor.Options{Identify: caller("0/min")}, hello).ServeHTTP(w, r)
		if w.Code != 429 || read != c.want || (w.Header().Get("Connection") == "close") != c.want {
			t.Errorf("%s: %d, read %v, Connection %q", c.name, w.Code, read, w.Header().Get("Connection"))
		}
	}
}

// Who waits for "100 Continue" is not asked to send what will be refused, and a small body costs no connection.
func TestRefusalKeepsTheConnection(t *testing.T) {
	server := serve(t, wrap(t, newStore(), httpdoor.Options{Identify: caller("0/min")}, hello), false)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, next := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\nExpect: 100-continue\r\n\r\n",
	} {
		fmt.Fprint(conn, next)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 429 {
			t.Errorf("%q: %d, %v", next, res.StatusCode, err)
		}
	}
}

func TestNoBodyLimit(t *testing.T) {
	server := serve(t, wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min"), MaxBody: -1}, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}), false)
	r := request(t, "POST", server.URL, unread(strings.Repeat("x", httpdoor.DefaultMaxBody+1)))
	r.Header.Set("Content-Encoding", "br")
	if res, body := do(t, server, r); res.StatusCode != 200 || body != fmt.Sprint(httpdoor.DefaultMaxBody+1, nil) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

func TestDefaultBodyLimit(t *testing.T) {
	door := wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, hello)
	for size, want := range map[int64]int{httpdoor.DefaultMaxBody: 200, httpdoor.DefaultMaxBody + 1: 413} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("")), size
		if got := record(door, r).Code; got != want {
			t.Errorf("%d bytes: %d, want %d", size, got, want)
		}
	}
}
