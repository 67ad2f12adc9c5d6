// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/door/render"
)

const batchRevision = "2025-03-26"

// behindProxy starts a server without a door, and a proxy in front of it.
func behindProxy(t *testing.T, m mode, bound string, o mcpdoor.ProxyOptions) *bench {
	t.Helper()
	b := &bench{t: t, mode: m, store: newStore(), slow: make(chan struct{}), running: make(chan struct{}, 100)}
	b.server = mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	b.addTools()
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.server },
		&mcp.StreamableHTTPOptions{Stateless: m.stateless, JSONResponse: m.json, PropagateRequestCancellation: true}))
	t.Cleanup(s.Close)
	t.Cleanup(func() {
		for ss := range b.server.Sessions() {
			ss.Close()
		}
	})
	b.url = startProxy(t, b.store, s.URL, bound, o)
	return b
}

// startProxy returns the URL of a proxy in front of another.
func startProxy(t *testing.T, s *store, upstream, bound string, o mcpdoor.ProxyOptions) string {
	t.Helper()
	front := httptest.NewServer(newProxy(t, s, upstream, bound, o))
	t.Cleanup(front.Close)
	return front.URL
}

func newProxy(t *testing.T, s signpost.Store, upstream, bound string, o mcpdoor.ProxyOptions) *mcpdoor.Proxy {
	t.Helper()
	identify := byWord(bound)
	o.Identify = func(r *http.Request) (httpdoor.Caller, error) {
		return identify(r.Context(), &mcp.RequestExtra{Header: r.Header})
	}
	var err error
	if o.Upstream, err = url.Parse(upstream); err != nil {
		t.Fatal(err)
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{}
	}
	p, err := mcpdoor.NewProxy(signpost.New(s, signpost.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func callMessage(id, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, tool)
}

func TestProxyRefusesInPlaceOfTheServer(t *testing.T) {
	each(t, overHTTP, func(t *testing.T, m mode) {
		b := behindProxy(t, m, "2/min", mcpdoor.ProxyOptions{})
		s := b.connect("alice", nil)
		for range 2 {
			if res := call(t, s, "echo"); res.IsError || text(res) != "done" {
				t.Fatalf("an admitted call answers %q", text(res))
			}
		}
		res := call(t, s, "echo")
		if !res.IsError || !strings.Contains(text(res), "Nothing was executed. Wait 60 seconds") || counters(t, res.Meta) == "" {
			t.Errorf("a refused call answers %q with counters %q", text(res), counters(t, res.Meta))
		}
		if _, err := s.ListTools(t.Context(), nil); err != nil {
			t.Errorf("the session does not go on after a refusal: %v", err)
		}
		if n := b.runs.Load(); n != 2 {
			t.Errorf("the tool has run %d times", n)
		}
	})
}

func TestProxyHoldsSlotsUntilTheAnswerHasGone(t *testing.T) {
	each(t, overHTTP, func(t *testing.T, m mode) {
		b := behindProxy(t, m, "1000/min, 10 concurrent", mcpdoor.ProxyOptions{Charges: mcpdoor.Charges{Expensive: []string{"slow"}}})
		s := b.connect("alice", nil)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if res := call(t, s, "slow"); res.IsError {
					t.Errorf("a call within the bound answers %q", text(res))
				}
			})
		}
		for range 10 {
			<-b.running
		}
		if res := call(t, s, "slow"); !res.IsError || !strings.Contains(text(res), "Concurrency limit exceeded") {
			t.Errorf("the eleventh call answers %q", text(res))
		}
		for range 10 {
			<-b.slow
		}
		all.Wait()
		eventually(t, "all slots are free", func() bool { return b.store.releases() == 10 })
	})
}

func TestProxyCountsEachCallOfABatch(t *testing.T) {
	for _, m := range overHTTP[2:] {
		t.Run(m.name, func(t *testing.T) {
			b := behindProxy(t, m, "2/min", mcpdoor.ProxyOptions{})
			res, body := b.post("alice", batchRevision, "["+callMessage("1", "echo")+","+callMessage(`"two"`, "echo")+","+callMessage("3", "echo")+"]")
			if res.StatusCode != 200 || strings.Count(body, `"jsonrpc"`) != 3 || strings.Count(body, "Nothing was executed") != 1 || !strings.Contains(body, `"id":3,"result":{"resultType"`) {
				t.Errorf("a batch of which one call is refused answers %d: %s", res.StatusCode, body)
			}
			if m.json && !json.Valid([]byte(body)) {
				t.Errorf("the merged answer is not JSON: %s", body)
			}
			if n := b.runs.Load(); n != 2 {
				t.Errorf("the tool has run %d times", n)
			}
			if res, body = b.post("alice", batchRevision, "["+callMessage("4", "echo")+"]"); !strings.HasPrefix(body, "[") || res.StatusCode != 200 {
				t.Errorf("a batch of which all are refused answers %d: %s", res.StatusCode, body)
			}
		})
	}
}

// recorder is a server that keeps what it was sent.
type recorder struct {
	mu     sync.Mutex
	bodies []string
	header http.Header
}

func (s *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.bodies, s.header = append(s.bodies, string(body)), r.Header
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Signpost-RateLimit", "degraded")
	io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
}

func (s *recorder) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies
}

func TestProxyForwardsTheBytesThatCame(t *testing.T) {
	rec := &recorder{}
	s := httptest.NewServer(rec)
	defer s.Close()
	b := &bench{t: t, store: newStore()}
	b.url = startProxy(t, b.store, s.URL, "5/min", mcpdoor.ProxyOptions{})
	body := " {\"params\" : {\"arguments\":{\"n\":1.0e2,\"a\":1,\"a\":2}, \"n\\u0061me\":\"echo\"},\n \"method\":\"tools\\/call\",\"id\":1 ,\"jsonrpc\":\"2.0\"}\n"
	res, _ := b.post("alice", "", body, "X-Signpost-Link", "forged", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?ZWNobw==?=")
	if got := rec.seen(); len(got) != 1 || got[0] != body {
		t.Errorf("the server was sent %q", got)
	}
	if h := rec.header; h.Get("Authorization") != "" || h.Get("X-Signpost-Link") != "" {
		t.Errorf("the server was sent the fields %v", h)
	}
	if res.Header.Get(render.Marker) != "" || res.Header[render.RateLimit] == nil && res.Header.Get(render.RateLimit) == "" {
		t.Errorf("the answer has the fields %v", res.Header)
	}
	if b.store.takes() != 1 {
		t.Errorf("the call was counted %d times", b.store.takes())
	}
}

func TestProxyTurnsAwayWhatCanBeReadInTwoWays(t *testing.T) {
	good := callMessage("7", "echo")
	for _, c := range []struct {
		name, body string
		fields     []string
		status     int
		code, id   string
	}{
		{"empty", "", nil, 400, "-32700", "null"},
		{"truncated", good[:len(good)-3], nil, 400, "-32700", "null"},
		{"trailing data", good + good, nil, 400, "-32700", "null"},
		{"not UTF-8", strings.Replace(good, "echo", "ec\xffho", 1), nil, 400, "-32700", "null"},
		{"a number", "7", nil, 400, "-32600", "null"},
		{"duplicate method", `{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/call"}`, nil, 400, "-32600", "7"},
		{"duplicate method, escaped", `{"jsonrpc":"2.0","id":7,"method":"ping","m\u0065thod":"tools/call"}`, nil, 400, "-32600", "7"},
		{"duplicate id", `{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}`, nil, 400, "-32600", "null"},
		{"duplicate name", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","name":"b"}}`, nil, 400, "-32600", "7"},
		{"other case of method", `{"jsonrpc":"2.0","id":7,"method":"ping","Method":"tools/call"}`, nil, 400, "-32600", "7"},
		{"other case of name", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","NAME":"b"}}`, nil, 400, "-32600", "7"},
		{"other letter of params", "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"param\u017f\":{}}", nil, 400, "-32600", "7"},
		{"half a character", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo\ud800"}}`, nil, 400, "-32602", "7"},
		{"no name", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}`, nil, 400, "-32602", "7"},
		{"name of a wrong type", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":["echo"]}}`, nil, 400, "-32602", "7"},
		{"params of a wrong type", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":["echo"]}`, nil, 400, "-32600", "7"},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, "-32600", "null"},
		{"request and response", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"},"result":{}}`, nil, 400, "-32600", "7"},
		{"too deep", `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}}`, nil, 400, "-32600", "7"},
		{"response without an id", `{"jsonrpc":"2.0","result":{}}`, nil, 400, "-32600", "null"},
		{"empty batch", "[]", nil, 400, "-32600", "null"},
		{"nested batch", "[[" + good + "]]", nil, 400, "-32600", "null"},
		{"long batch", "[" + good + strings.Repeat(`,{"jsonrpc":"2.0","method":"notifications/x"}`, 100) + "]", nil, 400, "-32600", "null"},
		{"one id twice", "[" + good + `,{"jsonrpc":"2.0","id":7,"method":"ping"}]`, nil, 400, "-32600", "null"},
		{"one id twice, as another number", `[{"jsonrpc":"2.0","id":-0,"method":"ping"},{"jsonrpc":"2.0","id":0.0e1,"method":"ping"}]`, nil, 400, "-32600", "null"},
		{"one id twice, escaped", `[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"\u0061","method":"ping"}]`, nil, 400, "-32600", "null"},
		{"a bad message in a batch", "[" + good + `,{"jsonrpc":"2.0","id":8}]`, nil, 400, "-32600", "null"},
		{"Mcp-Method", good, []string{"Mcp-Method", "ping"}, 400, "-32020", "7"},
		{"Mcp-Name", good, []string{"Mcp-Name", "other"}, 400, "-32020", "7"},
		{"Mcp-Name, encoded", good, []string{"Mcp-Name", "=?base64?b3RoZXI=?="}, 400, "-32020", "7"},
		{"Mcp-Name, as if encoded", callMessage("7", "=?base64?b3RoZXI=?="), []string{"Mcp-Name", "=?base64?b3RoZXI=?="}, 400, "-32020", "7"},
		{"Mcp-Name, badly encoded", callMessage("7", "=?base64?*?="), []string{"Mcp-Name", "=?base64?*?="}, 400, "-32020", "7"},
		{"Mcp-Method of a batch", "[" + good + "]", []string{"Mcp-Method", "tools/call"}, 400, "-32020", "null"},
		{"too large", strings.Replace(good, "{}", `{"x":"`+strings.Repeat("x", 5000)+`"}`, 1), nil, 413, "-32600", "null"},
		{"encoded", good, []string{"Content-Encoding", "gzip"}, 415, "-32600", "null"},
		{"other type", good, []string{"Content-Type", "text/plain"}, 415, "-32600", "null"},
		{"other charset", good, []string{"Content-Type", "application/json; charset=utf-16"}, 415, "-32600", "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := &recorder{}
			s := httptest.NewServer(rec)
			defer s.Close()
			b := &bench{t: t, store: newStore()}
			most := int64(4096)
			if c.name == "long batch" {
				most = 1 << 20
			}
			b.url = startProxy(t, b.store, s.URL, "5/min", mcpdoor.ProxyOptions{MaxBody: most})
			res, body := b.post("alice", "", c.body, c.fields...)
			var answer struct {
				ID    json.RawMessage
				Error struct {
					Code    json.Number
					Message string
				}
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil {
				t.Fatalf("the answer is %q: %v", body, err)
			}
			if res.StatusCode != c.status || answer.Error.Code.String() != c.code || string(answer.ID) != c.id || answer.Error.Message == "" {
				t.Errorf("answered %d %s", res.StatusCode, body)
			}
			if h := res.Header; h.Get("Cache-Control") != "no-store" || h.Get("CDN-Cache-Control") != "no-store" {
				t.Errorf("a cache may keep the answer: %v", h)
			}
			if says := res.Header.Get("Accept-Encoding"); (says == "identity") != (c.name == "encoded") {
				t.Errorf("Accept-Encoding: %q", says)
			}
			if len(rec.seen()) != 0 || b.store.takes() != 0 {
				t.Errorf("%d were forwarded and %d counted", len(rec.seen()), b.store.takes())
			}
		})
	}
}

// Which of two fields counts, readers decide differently.
func TestProxyTurnsAwayAFieldThatIsThereTwice(t *testing.T) {
	rec := &recorder{}
	s := httptest.NewServer(rec)
	defer s.Close()
	b := &bench{t: t, store: newStore()}
	b.url = startProxy(t, b.store, s.URL, "5/min", mcpdoor.ProxyOptions{})
	for name, status := range map[string]int{"Mcp-Method": 400, "Mcp-Name": 400, "Content-Type": 415} {
		r := b.request(t.Context(), callMessage("7", "echo"), "Mcp-Method", "tools/call", "Mcp-Name", "echo")
		r.Header.Add(name, "other")
		if res, body := b.do(r); res.StatusCode != status {
			t.Errorf("%s: answered %d %s", name, res.StatusCode, body)
		}
	}
	if len(rec.seen()) != 0 || b.store.takes() != 0 {
		t.Errorf("%d were forwarded and %d counted", len(rec.seen()), b.store.takes())
	}
}

func TestProxyAnswersForAServerThatDoesNot(t *testing.T) {
	b := &bench{t: t, store: newStore()}
	b.url = startProxy(t, b.store, "http://127.0.0.1:0", "5/min, 1 concurrent", mcpdoor.ProxyOptions{Charges: mcpdoor.Charges{Expensive: []string{"echo"}}})
	res, body := b.post("alice", "", callMessage("7", "echo"))
	if res.StatusCode != 200 || !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":7,"error":{"code":502,`) {
		t.Errorf("answered %d %s", res.StatusCode, body)
	}
	eventually(t, "the slot is free", func() bool { return b.store.releases() == 1 })
	if res, body := b.post("alice", "", `{"jsonrpc":"2.0","method":"notifications/progress"}`); res.StatusCode != 502 || !strings.Contains(body, `"id":null,"error":{"code":502,`) {
		t.Errorf("a notification is answered %d %s", res.StatusCode, body)
	}
}

// So is the answer for a server that died: the call counts.
func TestProxyHoldsTheAnswerUntilTheCountIsDurable(t *testing.T) {
	for _, dies := range []bool{false, true} {
		rec := &recorder{}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec.ServeHTTP(w, r)
			if dies {
				panic(http.ErrAbortHandler)
			}
		}))
		defer s.Close()
		b := &bench{t: t, store: newStore()}
		b.url = startProxy(t, b.store, s.URL, "5/min", mcpdoor.ProxyOptions{})
		p := newPromise()
		b.store.set(func(s *store) { s.commit = p.commit() })
		answered := make(chan string, 1)
		go func() {
			res, _ := b.post("alice", "", callMessage("1", "echo"))
			answered <- res.Header.Get(render.Marker)
		}()
		eventually(t, "the call has reached the server", func() bool { return len(rec.seen()) == 1 })
		select {
		case <-answered:
			t.Fatal("answered before the count was durable")
		case <-time.After(20 * time.Millisecond):
		}
		p.settle(signpost.ErrNotDurable)
		if marker := <-answered; marker != render.Degraded {
			t.Errorf("dies=%v: the marker of an answer that could not be made durable is %q", dies, marker)
		}
	}
}

// With BeforeHandler the server is not asked before.
func TestProxyForwardsWhenTheCountIsDurable(t *testing.T) {
	rec := &recorder{}
	s := httptest.NewServer(rec)
	defer s.Close()
	b := &bench{t: t, store: newStore()}
	b.url = startProxy(t, b.store, s.URL, "5/min", mcpdoor.ProxyOptions{BeforeHandler: true})
	for _, c := range []struct {
		err    error
		marker string
	}{{nil, ""}, {signpost.ErrNotDurable, render.Degraded}} {
		p, before := newPromise(), b.store.takes()
		b.store.set(func(s *store) { s.commit = p.commit() })
		answered := make(chan string, 1)
		go func() {
			res, _ := b.post("alice", "", callMessage("1", "echo"))
			answered <- res.Header.Get(render.Marker)
		}()
		eventually(t, "it is decided", func() bool { return b.store.takes() > before })
		select {
		case <-answered:
			t.Fatalf("%v: answered before the count was durable", c.err)
		case <-time.After(20 * time.Millisecond):
		}
		if n := len(rec.seen()); n != before {
			t.Fatalf("%v: the server was asked before the count was durable", c.err)
		}
		p.settle(c.err)
		if marker := <-answered; marker != c.marker || len(rec.seen()) != before+1 {
			t.Errorf("%v: the marker is %q, and the server was asked %d times", c.err, marker, len(rec.seen()))
		}
	}
}

func TestProxyIdentifies(t *testing.T) {
	b := behindProxy(t, overHTTP[3], "5/min", mcpdoor.ProxyOptions{})
	for word, status := range map[string]int{"": 401, "stranger": 401, "broken": 400, "unlucky": 503} {
		res, _ := b.post(word, "", callMessage("1", "echo"))
		if res.StatusCode != status || (status == 401) != (res.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%q is answered %d with challenge %q", word, res.StatusCode, res.Header.Get("WWW-Authenticate"))
		}
	}
	if b.store.takes() != 0 || b.runs.Load() != 0 {
		t.Errorf("%d were counted and %d ran", b.store.takes(), b.runs.Load())
	}
}

func TestProxyAnswersAsAnEventToThoseWhoReadNothingElse(t *testing.T) {
	b := behindProxy(t, overHTTP[2], "0/min", mcpdoor.ProxyOptions{})
	res, body := b.post("alice", "", callMessage(`"a"`, "echo"), "Accept", "text/event-stream")
	if h := res.Header; h.Get("Cache-Control") != "no-store" || h.Get("CDN-Cache-Control") != "no-store" {
		t.Errorf("a cache may keep the answer: %v", h)
	}
	if res.Header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":"a","result":`) || !json.Valid([]byte(body)) {
		t.Errorf("answered %q %s", res.Header.Get("Content-Type"), body)
	}
}
