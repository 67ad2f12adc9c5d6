// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/redis"
)

// With every bound full, a session opens, lists, pings, cancels and closes.
func TestProxyFreeMessagesPassWhenAllIsFull(t *testing.T) {
	each(t, overHTTP, func(t *testing.T, m mode) {
		b := behindProxy(t, m, "0/min", mcpdoor.ProxyOptions{Guard: signpost.MustParseBound("1000/min")})
		s := b.connect("alice", nil)
		if _, err := s.ListTools(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if !m.stateless { // without sessions there are no pings any more
			if err := s.Ping(t.Context(), nil); err != nil {
				t.Error(err)
			}
		}
		if res := call(t, s, "echo"); !res.IsError {
			t.Error("a call passes a bound of 0")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		eventually(t, "the server has no session", func() bool {
			for range b.server.Sessions() {
				return false
			}
			return true
		})
		if b.store.takes() != 1 {
			t.Errorf("%d takes", b.store.takes())
		}
	})
}

// A flood of free messages is refused, and what gives work up passes.
func TestProxyFloods(t *testing.T) {
	rec := &recorder{}
	s := httptest.NewServer(rec)
	defer s.Close()
	outcomes := make(chan httpdoor.Outcome, 10)
	b := &bench{t: t, store: newStore()}
	b.url = startProxy(t, b.store, s.URL, "5/min", mcpdoor.ProxyOptions{Guard: signpost.MustParseBound("1/366d"),
		Observe: func(e mcpdoor.Event) { outcomes <- e.Outcome }})
	observed := func(want httpdoor.Outcome) {
		t.Helper()
		if got := <-outcomes; got != want {
			t.Errorf("observed %s, want %s", got, want)
		}
	}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	b.post("alice", "", ping)
	observed(httpdoor.Uncounted)
	if _, body := b.post("alice", "", ping); !strings.Contains(body, `"id":1,"error":{"code":429,`) {
		t.Errorf("a flood is answered %s", body)
	}
	observed(mcpdoor.Flooded)
	if res, body := b.post("alice", "", `{"jsonrpc":"2.0","method":"notifications/progress"}`); res.StatusCode != 202 || body != "" {
		t.Errorf("a notification too many is answered %d %s", res.StatusCode, body)
	}
	observed(mcpdoor.Flooded)
	if res, body := b.post("alice", "", `{"jsonrpc":"2.0","id":1,"result":{}}`); res.StatusCode != 202 || body != "" {
		t.Errorf("a response too many is answered %d %s", res.StatusCode, body)
	}
	observed(mcpdoor.Flooded)
	if len(rec.seen()) != 1 {
		t.Errorf("the server was sent %q", rec.seen())
	}
	for body, outcome := range map[string]httpdoor.Outcome{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`: httpdoor.Uncounted,
		callMessage("2", "echo"): httpdoor.Admitted,
	} {
		before := len(rec.seen())
		if b.post("alice", "", body); len(rec.seen()) != before+1 {
			t.Errorf("%s was not forwarded", body)
		}
		observed(outcome)
	}
	r := b.request(t.Context(), "")
	r.Method = http.MethodDelete
	if res, _ := b.do(r); res.StatusCode != 200 {
		t.Errorf("DELETE is answered %d", res.StatusCode)
	}
	r = b.request(t.Context(), "")
	r.Method = http.MethodGet
	if res, body := b.do(r); res.StatusCode != 429 || !strings.Contains(body, `"id":null`) {
		t.Errorf("GET is answered %d %s", res.StatusCode, body)
	}
	observed(mcpdoor.Flooded)
}

// Fields of sessions and of resumption pass both ways, and each event as it is said.
func TestProxyStreams(t *testing.T) {
	next := make(chan string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Mcp-Session-Id", r.Method+" "+r.Header.Get("Mcp-Session-Id")+" "+r.Header.Get("Last-Event-ID")+" "+r.URL.RawQuery)
		w.WriteHeader(http.StatusEarlyHints)
		for event := range next {
			io.WriteString(w, event)
			w.(http.Flusher).Flush()
		}
	}))
	defer s.Close()
	b := &bench{t: t, store: newStore()}
	b.url = startProxy(t, b.store, s.URL, "5/min", oneSlot) + "?a=1&b"
	for _, method := range []string{"GET", "POST"} {
		body := callMessage("1", "echo")
		if method == "GET" {
			body = ""
		}
		r := b.request(t.Context(), body, "Mcp-Session-Id", "s", "Last-Event-ID", "7_1")
		r.Method = method
		go func() { next <- ": first\n\n" }()
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got := res.Header.Get("Mcp-Session-Id"); got != method+" s 7_1 a=1&b" {
			t.Errorf("the server was asked %q", got)
		}
		if (res.Header["Ratelimit"] != nil) != (method == "POST") {
			t.Errorf("%s: counters %v", method, res.Header)
		}
		lines := bufio.NewReader(res.Body)
		for i := range 100 { // each is read before the next is said
			if line, err := lines.ReadString('\n'); err != nil || line == "" {
				t.Fatal(line, err)
			}
			if line, err := lines.ReadString('\n'); err != nil || line != "\n" {
				t.Fatal(line, err)
			}
			next <- fmt.Sprintf(": %d\n\n", i)
		}
		close(next)
		if _, err := io.ReadAll(lines); err != nil {
			t.Error(err)
		}
		next = make(chan string)
	}
}

func TestProxyBatches(t *testing.T) {
	rec := &recorder{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("X-Kind"), "202") {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		rec.ServeHTTP(w, r)
	}))
	defer s.Close()
	b := &bench{t: t, store: newStore()}
	b.url = startProxy(t, b.store, s.URL, "1/min", mcpdoor.ProxyOptions{})
	const note = `{"jsonrpc":"2.0","method":"notifications/progress"}`
	one, two := callMessage("1", "echo"), callMessage("2", "echo")

	_, body := b.post("alice", "", "[ "+one+" ,\n"+two+" ]")
	var responses []struct{ ID int }
	if err := json.Unmarshal([]byte(body), &responses); err != nil || len(responses) != 2 || responses[0].ID+responses[1].ID != 3 {
		t.Errorf("%s: %v", body, err)
	}
	if got := rec.seen(); len(got) != 1 || got[0] != "["+one+"]" {
		t.Errorf("the server was sent %q", got)
	}
	if res, body := b.post("alice", "", "["+two+","+note+"]", "X-Kind", "202"); res.StatusCode != 200 || !strings.HasPrefix(body, `[{"jsonrpc":"2.0","id":2,"result":`) {
		t.Errorf("what only notifications go with is answered %d %s", res.StatusCode, body)
	}
	if res, body := b.post("alice", "", "["+note+"]", "X-Kind", "202"); res.StatusCode != 202 || body != "" {
		t.Errorf("notifications are answered %d %s", res.StatusCode, body)
	}
	// A call that is dressed as a notification is counted, and nobody waits for an answer.
	if res, body := b.post("alice", "", strings.Replace(one, `"id":1,`, "", 1)); res.StatusCode != 202 || body != "" {
		t.Errorf("a refused call without an id is answered %d %s", res.StatusCode, body)
	}
	if b.store.takes() != 4 {
		t.Errorf("%d takes", b.store.takes())
	}
}

// What a server answers to the rest of a batch goes with the answers of the proxy, in whatever form it is. What nothing can be added to is
// lost, and its calls are told so.
func TestProxyMerges(t *testing.T) {
	const rest = `{"jsonrpc":"2.0","id":1,"result":{}}`
	const lost = `{"jsonrpc":"2.0","id":1,"error":{"code":502,"message":"The server behind this door does not answer. The call may have reached it."}}`
	const event = "data: " + rest + "\n\n"
	for _, c := range []struct {
		name, kind, encoding, body string
		status                     int
		want                       string // the answer, in which REFUSED is that to the refused call
	}{
		{"one response", "application/json", "", " " + rest, 200, "[REFUSED," + rest + "]"},
		{"some", "application/json; charset=utf-8", "", "\n[ " + rest + " ]", 200, "[REFUSED," + rest + " ]"},
		{"none", "application/json", "", "[ ]", 200, "[REFUSED]"},
		{"an event stream", "text/event-stream", "", event, 200, "event: message\ndata: REFUSED\n\n" + event},
		{"nothing", "", "", "", 202, "[REFUSED]"},
		{"nothing, otherwise", "", "", "", 204, "[REFUSED]"},
		{"an error for all", "application/json", "", rest, 400, rest},
		{"encoded", "application/json", "br", rest, 200, "[" + lost + ",REFUSED]"},
		{"a page", "text/html", "", "<p>", 200, "[" + lost + ",REFUSED]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if asked := r.Header.Get("Accept-Encoding"); asked != "identity" {
					t.Errorf("the server was asked for %q", asked)
				}
				w.Header()["Content-Type"] = []string{c.kind}
				if c.encoding != "" {
					w.Header().Set("Content-Encoding", c.encoding)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}))
			defer s.Close()
			b := &bench{t: t, store: newStore()}
			b.url = startProxy(t, b.store, s.URL, "1/min", mcpdoor.ProxyOptions{})
			res, err := http.DefaultClient.Do(b.request(t.Context(), "["+callMessage("1", "echo")+","+callMessage("2", "echo")+"]"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			all, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			refused := regexp.MustCompile(`\{"jsonrpc":"2.0","id":2,"result":\{.*\}\}\}`)
			got := refused.ReplaceAllString(string(all), "REFUSED")
			if status := map[bool]int{true: 400, false: 200}[c.status == 400]; got != c.want || res.StatusCode != status {
				t.Errorf("answered %d %s\nwant %s", res.StatusCode, got, c.want)
			}
			if strings.HasPrefix(c.want, "[") && !json.Valid(all) {
				t.Errorf("this is no JSON: %s", all)
			}
		})
	}
}

// The counters are in the header of an answer to one call, unless a cache may give it to others. Those of a batch would be of one of its calls. What the
// server says in their place does not pass, in the trailer neither.
func TestProxyCounters(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", r.Header.Get("X-Cache"))
		h["Trailer"] = []string{"X-Signpost-RateLimit, RateLimit, X-Own"}
		io.WriteString(w, `[]`)
		h["X-Signpost-Ratelimit"], h["Ratelimit"], h["X-Own"] = []string{"degraded"}, []string{"theirs"}, []string{"theirs"}
	}))
	defer s.Close()
	b := &bench{t: t, store: newStore()}
	b.url = startProxy(t, b.store, s.URL, "5/min", mcpdoor.ProxyOptions{})
	one := callMessage("1", "echo")
	for _, c := range []struct {
		name, body, cache string
		counters          bool
	}{
		{"a call", one, "no-store", true},
		{"a call, for all", one, "public, max-age=60", false},
		{"a batch", "[" + one + "]", "no-store", false},
	} {
		res, _ := b.post("alice", "", c.body, "X-Cache", c.cache)
		if got := res.Header["Ratelimit"] != nil && res.Header["Ratelimit-Policy"] != nil && res.Header.Get("X-RateLimit-Limit") != ""; got != c.counters {
			t.Errorf("%s: %v", c.name, res.Header)
		}
		if len(res.Trailer) != 1 || res.Trailer.Get("X-Own") != "theirs" {
			t.Errorf("%s: the trailer is %v", c.name, res.Trailer)
		}
	}
}

// A body that does not come is not waited for, and the connection ends. A long call that follows a quick body is not cut off.
func TestProxySlowBody(t *testing.T) {
	rec := &recorder{}
	s := httptest.NewServer(rec)
	defer s.Close()
	p := newProxy(t, newStore(), s.URL, "5/min", mcpdoor.ProxyOptions{})
	p.SetBodyTime(50 * time.Millisecond)
	front := httptest.NewServer(p)
	defer front.Close()
	for _, size := range []string{"Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "Content-Length: 1000000\r\n\r\n{"} {
		c, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice\r\nContent-Type: application/json\r\n%s", size)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 408 {
			t.Errorf("answered %d", res.StatusCode)
		}
		if _, err := io.ReadAll(res.Body); err != nil {
			t.Error(err)
		}
	}
	if len(rec.seen()) != 0 {
		t.Errorf("the server was sent %q", rec.seen())
	}
}

// A client that sends too much reads why, whatever it still has to send, and its next message is served.
func TestProxyTooLargeBody(t *testing.T) {
	up := httptest.NewServer(&recorder{})
	defer up.Close()
	for _, http2 := range []bool{false, true} {
		s := newStore()
		front := httptest.NewUnstartedServer(newProxy(t, s, up.URL, "5/min", mcpdoor.ProxyOptions{}))
		if front.EnableHTTP2 = http2; http2 {
			front.StartTLS()
		} else {
			front.Start()
		}
		defer front.Close()
		b := &bench{t: t, store: s, url: front.URL}
		post := func(body string, declared bool) (int, string) {
			r := b.request(t.Context(), body)
			if !declared {
				r.ContentLength = -1
			}
			res, err := front.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			answer, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode, string(answer)
		}
		for _, size := range []int{1<<20 + 1, 21 << 19} {
			for _, declared := range []bool{false, true} {
				message := callMessage("7", "echo")
				message += strings.Repeat(" ", size-len(message))
				if status, body := post(message, declared); status != 413 || !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`) {
					t.Errorf("HTTP/2 %v: %d bytes, declared %v: answered %d %s", http2, size, declared, status, body)
				}
				if status, body := post(message[:1<<20], declared); status != 200 {
					t.Errorf("HTTP/2 %v: the next message is answered %d %s", http2, status, body)
				}
			}
		}
		if s.takes() != 4 {
			t.Errorf("HTTP/2 %v: %d takes", http2, s.takes())
		}
	}
}

// A server of HTTP that has a time of its own for what it reads is left to it.
func TestProxyLeavesAReadTimeoutAlone(t *testing.T) {
	up := httptest.NewServer(&recorder{})
	defer up.Close()
	p := newProxy(t, newStore(), up.URL, "5/min", mcpdoor.ProxyOptions{})
	p.SetBodyTime(-time.Second) // which is over at once
	front := httptest.NewUnstartedServer(p)
	front.Config.ReadTimeout = time.Hour
	front.Start()
	defer front.Close()
	b := &bench{t: t, url: front.URL}
	r := b.request(t.Context(), "")
	body, in := io.Pipe()
	r.Body, r.ContentLength = body, -1
	go func() {
		io.WriteString(in, " ")
		time.AfterFunc(20*time.Millisecond, func() { // it is not there when it is looked for
			io.WriteString(in, callMessage("1", "echo"))
			in.Close()
		})
	}()
	if res, body := b.do(r); res.StatusCode != 200 {
		t.Errorf("answered %d %s", res.StatusCode, body)
	}
}

// pipe is a listener that accepts one connection, of the bubble that it is made in.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
}

// serveOverPipe serves the connection that it returns the other end of.
func serveOverPipe(t *testing.T, h http.Handler) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	l := &pipe{make(chan net.Conn, 1), make(chan struct{})}
	l.conns <- server
	front := &http.Server{Handler: h}
	go front.Serve(l)
	t.Cleanup(func() { client.Close(); front.Close() })
	return client
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error {
	close(p.closed)
	return nil
}

func (p *pipe) Addr() net.Addr { return &net.TCPAddr{} }

func TestProxyLongCallAfterAQuickBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, newStore(), "http://upstream", "5/min", mcpdoor.ProxyOptions{Transport: transport(func(r *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, r.Body)
			select {
			case <-time.After(time.Hour): // longer than a body may take
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, Body: io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{}}`))}, nil
		})})
		client := serveOverPipe(t, p)
		body := callMessage("1", "slow")
		fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		res, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 || !strings.Contains(string(answer), "result") {
			t.Errorf("answered %d %s, %v", res.StatusCode, answer, err)
		}
	})
}

// A server that sends clients elsewhere would have them pass the door.
func TestProxyDoesNotSendClientsAway(t *testing.T) {
	s := httptest.NewServer(http.RedirectHandler("http://elsewhere.invalid/mcp/", http.StatusTemporaryRedirect))
	defer s.Close()
	b := &bench{t: t, store: newStore()}
	b.url = startProxy(t, b.store, s.URL, "5/min", mcpdoor.ProxyOptions{})
	if res, body := b.post("alice", "", callMessage("1", "echo")); res.StatusCode != 200 || !strings.Contains(body, `"id":1,"error":{"code":502,"message":"The server behind this door redirects.`) {
		t.Errorf("answered %d %s", res.StatusCode, body)
	}
}

// staleConn is a connection that has ended unseen: from some time on nothing can be written to it.
type staleConn struct {
	net.Conn
	stale *atomic.Bool
}

func (c *staleConn) Write(p []byte) (int, error) {
	if c.stale.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// A call of which nothing could be sent is sent on another connection.
func TestProxyStaleConnection(t *testing.T) {
	rec := &recorder{}
	s := httptest.NewServer(rec)
	defer s.Close()
	var last atomic.Pointer[atomic.Bool]
	b := &bench{t: t, store: newStore()}
	b.url = startProxy(t, b.store, s.URL, "5/min", mcpdoor.ProxyOptions{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			last.Store(new(atomic.Bool))
			return &staleConn{c, last.Load()}, err
		},
	}})
	for range 3 {
		if _, body := b.post("alice", "", callMessage("1", "echo")); !strings.Contains(body, "result") {
			t.Fatalf("answered %s", body)
		}
		last.Load().Store(true)
	}
	if len(rec.seen()) != 3 || rec.seen()[2] != callMessage("1", "echo") {
		t.Errorf("the server was sent %q", rec.seen())
	}
}

func TestProxyPathsAndMethods(t *testing.T) {
	rec := &recorder{}
	s := httptest.NewServer(rec)
	defer s.Close()
	b := &bench{t: t, store: newStore()}
	front := startProxy(t, b.store, s.URL+"/inner", "5/min", mcpdoor.ProxyOptions{Path: "/mcp"})
	for path, status := range map[string]int{"/mcp": 200, "/m%63p": 200, "/inner": 404, "/mcp/": 404, "/": 404} {
		b.url = front + path
		if res, body := b.post("alice", "", callMessage("1", "echo")); res.StatusCode != status || status == 404 && !strings.Contains(body, "The server of MCP is at /mcp. Nothing was executed.") {
			t.Errorf("%s is answered %d %s", path, res.StatusCode, body)
		}
	}
	b.url = front + "/mcp"
	r := b.request(t.Context(), callMessage("1", "echo"))
	r.Method = "PUT"
	if res, _ := b.do(r); res.StatusCode != 405 || res.Header.Get("Allow") == "" {
		t.Errorf("PUT is answered %d", res.StatusCode)
	}
	b.post("alice", "", callMessage("1", "echo"), "X-HTTP-Method-Override", "DELETE", "X_Signpost_Link", "forged", "X-Forwarded-For", "192.0.2.1")
	if h := rec.header; h.Get("X-HTTP-Method-Override") != "" || h["X_signpost_link"] != nil || h.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("the server was sent %v", h)
	}
}

// marked counts the answers that are marked, before they leave.
type marked struct {
	http.ResponseWriter
	n *atomic.Int32
}

func (m *marked) WriteHeader(status int) {
	if m.Header().Get(render.Marker) == render.Degraded {
		m.n.Add(1)
	}
	m.ResponseWriter.WriteHeader(status)
}

func (m *marked) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// A server that is frozen leaves the session unharmed, and its answers degraded.
func TestProxyWhileTheStoreIsFrozen(t *testing.T) {
	server := redistest.Start(t)
	inner, err := redis.Open(t.Context(), redis.Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	store, err := failopen.New(inner, failopen.Options{Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	each(t, overHTTP, func(t *testing.T, m mode) {
		b := behindProxy(t, m, "1000000/min, 10 concurrent", oneSlot)
		p := newProxy(t, store, b.url, "1000000/min, 10 concurrent", mcpdoor.ProxyOptions{KeepAuthorization: true})
		var degraded atomic.Int32
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.ServeHTTP(&marked{w, &degraded}, r)
		}))
		defer front.Close()
		b.url = front.URL
		s := b.connect("alice", nil)
		marked := func() int32 {
			before := degraded.Load()
			for range 3 {
				if res := call(t, s, "echo"); res.IsError {
					t.Fatal(text(res))
				}
			}
			return degraded.Load() - before
		}
		for _, freeze := range []bool{false, true, false} {
			if !freeze {
				server.Thaw()
				eventually(t, "no answer is marked", func() bool { return marked() == 0 })
				continue
			}
			server.Freeze()
			defer server.Thaw()
			if n := marked(); n != 3 {
				t.Errorf("%d of 3 answers are marked", n)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
