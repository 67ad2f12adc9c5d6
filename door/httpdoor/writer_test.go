// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
)

// Files go out through ReadFrom, with the fields in place.
func TestSendfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	server := serve(t, wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if n, err := w.(io.ReaderFrom).ReadFrom(f); n != int64(len(content)) || err != nil {
			t.Errorf("sent %d, %v", n, err)
		}
	}), false)
	res, body := do(t, server, request(t, "GET", server.URL, nil))
	if body != string(content) || res.Header.Get("RateLimit") == "" || res.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("got %d bytes with %v", len(body), res.Header)
	}
}

func TestInformationalResponses(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		server := serve(t, wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.Header().Set("X-Signpost-RateLimit", "degraded")
			w.WriteHeader(103)
			w.WriteHeader(103)
			w.Header().Del("Link")
			w.WriteHeader(404)
		}), http2)
		var hints []string
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			hints = append(hints, fmt.Sprint(code, " ", h.Get("Link"), h.Get("X-Signpost-RateLimit"), h.Get("RateLimit")))
			return nil
		}}
		r := request(t, "GET", server.URL, nil)
		res, _ := do(t, server, r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
		want := "103 </style.css>; rel=preload"
		if len(hints) != 2 || hints[0] != want || hints[1] != want {
			t.Errorf("over %s: hints %q", res.Proto, hints)
		}
		if res.StatusCode != 404 || res.Header.Get("RateLimit") == "" || res.Header.Get("Link") != "" {
			t.Errorf("over %s: %d with %v", res.Proto, res.StatusCode, res.Header)
		}
	}
}

func TestTrailers(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		server := serve(t, wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			io.WriteString(w, "hello")
			w.Header().Set("X-Sum", "announced")
			w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
		}), http2)
		res, body := do(t, server, request(t, "GET", server.URL, nil))
		if body != "hello" || res.Trailer.Get("X-Sum") != "announced" || res.Trailer.Get("X-Late") != "unannounced" {
			t.Errorf("over %s: %q with trailer %v", res.Proto, body, res.Trailer)
		}
		if len(res.Trailer) != 2 {
			t.Errorf("over %s: counters in the trailer: %v", res.Proto, res.Trailer)
		}
	}
}

// Exactly one status leaves, and the server complains as it would without the door.
func TestSecondStatus(t *testing.T) {
	var logged bytes.Buffer
	door := wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
		w.WriteHeader(500)
	})
	server := httptest.NewUnstartedServer(door)
	server.Config.ErrorLog = log.New(&logged, "", 0)
	server.Start()
	res, body := do(t, server, request(t, "GET", server.URL, nil))
	server.Close()
	if res.StatusCode != 200 || body != "hello" {
		t.Errorf("%d %q", res.StatusCode, body)
	}
	if got := logged.String(); strings.Count(got, "superfluous response.WriteHeader") != 1 {
		t.Errorf("logged %q", got)
	}
}

// Server-sent events: each leaves when it is flushed, and the slot is held until the stream ends.
func TestServerSentEvents(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := newStore()
		next := make(chan string)
		server := serve(t, wrap(t, s, httpdoor.Options{Identify: caller("9/min 1 concurrent"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			for data := range next {
				fmt.Fprintf(w, "data: %s\n\n", data)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
		}), http2)
		res, err := server.Client().Do(request(t, "GET", server.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		if res.Header.Get("RateLimit") == "" || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("over %s: header %v", res.Proto, res.Header)
		}
		events := bufio.NewReader(res.Body)
		for _, data := range []string{"one", "two"} {
			next <- data
			line, err := events.ReadString('\n')
			if err != nil || line != "data: "+data+"\n" {
				t.Fatalf("over %s: %q, %v", res.Proto, line, err)
			}
			if _, err := events.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if second, _ := do(t, server, request(t, "GET", server.URL, nil)); second.StatusCode != 429 || second.Header.Get("Retry-After") != "30" {
			t.Errorf("over %s: a second stream got %d, Retry-After %q", res.Proto, second.StatusCode, second.Header.Get("Retry-After"))
		}
		close(next)
		if rest, err := io.ReadAll(events); len(rest) > 0 || err != nil {
			t.Errorf("over %s: rest %q, %v", res.Proto, rest, err)
		}
		res.Body.Close()
		eventually(t, "the lease was released", func() bool { return s.releases() == 1 })
	}
}

func TestWebSocket(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := newStore()
		door := wrap(t, s, httpdoor.Options{Identify: caller("9/min 1 concurrent"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer c.CloseNow()
			for {
				kind, b, err := c.Read(r.Context())
				if err != nil || c.Write(r.Context(), kind, append([]byte("echo "), b...)) != nil {
					return
				}
			}
		})
		server := httptest.NewUnstartedServer(door)
		if secure {
			server.StartTLS()
		} else {
			server.Start()
		}
		defer server.Close()
		options := &websocket.DialOptions{HTTPClient: server.Client()}
		c, res, err := websocket.Dial(t.Context(), server.URL, options)
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Header.Get("RateLimit"); got != `"minute";r=8;t=60, "concurrency";r=0` {
			t.Errorf("the upgrade carries RateLimit %q", got)
		}
		for _, text := range []string{"one", "two"} {
			if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
				t.Fatal(err)
			}
			if _, got, err := c.Read(t.Context()); err != nil || string(got) != "echo "+text {
				t.Fatalf("%q, %v", got, err)
			}
		}
		if _, second, err := websocket.Dial(t.Context(), server.URL, options); err == nil || second.StatusCode != 429 {
			t.Errorf("a second socket: %v", err)
		}
		if s.releases() != 0 {
			t.Error("the lease was released while the socket was open")
		}
		c.CloseNow()
		eventually(t, "the lease was released", func() bool { return s.releases() == 1 })
	}
}

// The handler returns, and the connection lives on elsewhere.
func TestHijackedConnectionHoldsTheLease(t *testing.T) {
	s := newStore()
	conns := make(chan net.Conn, 1)
	server := serve(t, wrap(t, s, httpdoor.Options{Identify: caller("9/min"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
		}
		if _, ok := conn.(interface{ CloseWrite() error }); !ok {
			t.Errorf("%T has lost CloseWrite", conn)
		}
		if _, ok := conn.(io.ReaderFrom); !ok {
			t.Errorf("%T has lost ReadFrom", conn)
		}
		if n, err := w.Write([]byte("more")); n != 0 || err != http.ErrHijacked {
			t.Errorf("a write after the hijack: %d, %v", n, err)
		}
		conns <- conn
	}), false)
	client, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	conn := <-conns
	fmt.Fprint(conn, "raw\n")
	if line, err := bufio.NewReader(client).ReadString('\n'); line != "raw\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if s.releases() != 0 {
		t.Error("the lease was released while the connection was open")
	}
	var closers sync.WaitGroup
	for range 3 {
		closers.Go(func() { conn.Close() })
	}
	closers.Wait()
	if s.releases() != 1 {
		t.Errorf("%d releases after it was closed, want 1", s.releases())
	}
}

// So it is over TLS.
func TestHijackedTLSConnection(t *testing.T) {
	s := newStore()
	server := httptest.NewTLSServer(wrap(t, s, httpdoor.Options{Identify: caller("9/min"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, ok := conn.(interface {
			CloseWrite() error
			ConnectionState() tls.ConnectionState
		}); !ok {
			t.Errorf("%T has lost methods", conn)
		}
		fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	}))
	defer server.Close()
	if res, _ := do(t, server, request(t, "GET", server.URL, nil)); res.StatusCode != 204 {
		t.Errorf("%d", res.StatusCode)
	}
	eventually(t, "the lease was released", func() bool { return s.releases() == 1 })
}

// A cheap request's connection is the server's own.
func TestCheapHijack(t *testing.T) {
	server := serve(t, wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, ok := conn.(*net.TCPConn); !ok {
			t.Errorf("it is a %T", conn)
		}
		fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	}), false)
	if res, _ := do(t, server, request(t, "GET", server.URL, nil)); res.StatusCode != 204 {
		t.Errorf("%d", res.StatusCode)
	}
}

// A writer that cannot hijack leaves the lease where it was.
func TestFailedHijack(t *testing.T) {
	s := newStore()
	var err error
	wrap(t, s, httpdoor.Options{Identify: caller("9/min"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) {
		_, _, err = http.NewResponseController(w).Hijack()
		io.WriteString(w, "so be it")
	}).ServeHTTP(httptest.NewRecorder(), get())
	if !errors.Is(err, http.ErrNotSupported) || s.releases() != 1 {
		t.Errorf("%v, %d releases", err, s.releases())
	}
}

// broken is a writer that says it can do more than it can.
type broken struct{ *httptest.ResponseRecorder }

func (broken) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("the connection is not there")
}

// notFlusher hides the Flush of a writer.
type notFlusher struct{ http.ResponseWriter }

// What failed has not begun an answer: the fields are those that the answer may carry which the handler chooses then.
func TestAnotherAnswerAfterAFailure(t *testing.T) {
	for _, c := range []struct {
		name  string
		inner func(*httptest.ResponseRecorder) http.ResponseWriter
		fails func(*http.ResponseController) error
	}{
		{
			"hijack",
			func(w *httptest.ResponseRecorder) http.ResponseWriter { return broken{w} },
			func(rc *http.ResponseController) error { _, _, err := rc.Hijack(); return err },
		},
		{
			"hijack that there is not",
			func(w *httptest.ResponseRecorder) http.ResponseWriter { return w },
			func(rc *http.ResponseController) error { _, _, err := rc.Hijack(); return err },
		},
		{
			"flush that there is not",
			func(w *httptest.ResponseRecorder) http.ResponseWriter { return notFlusher{w} },
			(*http.ResponseController).Flush,
		},
		{
			"flush that there is not, seen through",
			func(w *httptest.ResponseRecorder) http.ResponseWriter { return unwrapper{notFlusher{w}} },
			(*http.ResponseController).Flush,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, doors := range []int{1, 2} {
				var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if err := c.fails(http.NewResponseController(w)); err == nil {
						t.Error("it did not fail")
					}
					w.Header().Set("Cache-Control", "public")
					io.WriteString(w, "so be it")
				})
				for range doors {
					h = wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, h.ServeHTTP)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(c.inner(w), get())
				if got, want := lines(w.Result().Header), "Cache-Control: public\nContent-Type: text/plain; charset=utf-8\n"; got != want {
					t.Errorf("through %d doors: header\n got %s\nwant %s", doors, got, want)
				}
			}
		})
	}
}

// An aborted stream ends as it would without the door: no byte more, no line in the log.
func TestAbortedStream(t *testing.T) {
	s := newStore()
	var logged bytes.Buffer
	sent := strings.Repeat("x", 1024)
	server := httptest.NewUnstartedServer(wrap(t, s, httpdoor.Options{Identify: caller("9/min"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, sent)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	server.Config.ErrorLog = log.New(&logged, "", 0)
	server.Start()
	res, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if string(body) != sent || err == nil {
		t.Errorf("%d bytes, %v; want %d and an error", len(body), err, len(sent))
	}
	server.Close()
	if s.releases() != 1 || logged.Len() != 0 {
		t.Errorf("%d releases, logged %q", s.releases(), &logged)
	}
}

func TestPanicGoesOn(t *testing.T) {
	s := newStore()
	door := wrap(t, s, httpdoor.Options{Identify: caller("9/min"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) { panic(t) })
	if got := panicOf(func() { door.ServeHTTP(httptest.NewRecorder(), get()) }); got != t || s.releases() != 1 {
		t.Errorf("panic %v, %d releases", got, s.releases())
	}
}

// The client goes away in mid-work. The slot is free when the work ends, not before, and not never.
func TestVanishedClient(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := newStore()
		working, finish := make(chan struct{}), make(chan struct{})
		server := serve(t, wrap(t, s, httpdoor.Options{Identify: caller("9/min 1 concurrent"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) {
			close(working)
			<-r.Context().Done()
			<-finish
		}), http2)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		r := request(t, "GET", server.URL, nil).WithContext(ctx)
		go func() {
			defer close(gone)
			server.Client().Do(r)
		}()
		<-working
		cancel()
		<-gone
		if res, _ := do(t, server, request(t, "GET", server.URL, nil)); res.StatusCode != 429 {
			t.Errorf("while the work goes on: %d, want 429", res.StatusCode)
		}
		close(finish)
		eventually(t, "the lease was released", func() bool { return s.releases() == 1 })
	}
}

// HEAD, over a real server: the length is that of what was left out, or none.
func TestHead(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		server := serve(t, wrap(t, newStore(), httpdoor.Options{Identify: caller("1/min")}, hello), http2)
		for _, want := range []int{200, 429} {
			res, body := do(t, server, request(t, "HEAD", server.URL, nil))
			if res.StatusCode != want || body != "" || res.Header.Get("RateLimit") == "" {
				t.Errorf("over %s: %d %q %v", res.Proto, res.StatusCode, body, res.Header)
			}
		}
	}
}

// The writer of a server inside another's handler, as httputil.ReverseProxy and others write: the
// marker of the inner one never comes through.
func TestMarkerOfTheServerBehind(t *testing.T) {
	w := record(wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["x-signpost-ratelimit"] = []string{"degraded"}
		w.Header()[render.Marker] = []string{"degraded"}
		w.Write(nil)
	}), get())
	if got := lines(w.Result().Header); strings.Contains(strings.ToLower(got), "signpost") {
		t.Errorf("header %s", got)
	}
}
