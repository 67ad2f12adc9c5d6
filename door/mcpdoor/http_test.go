// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/memory"
)

const callEcho = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{}}}`

// Who is not known is turned away by the transport, with nothing counted and the server not asked.
func TestTurnedAway(t *testing.T) {
	each(t, overHTTP, func(t *testing.T, m mode) {
		var seen []mcpdoor.Event
		b := newBench(t, m, "5/min", mcpdoor.Options{Observe: func(e mcpdoor.Event) { seen = append(seen, e) }})
		for _, c := range []struct {
			word      string
			status    int
			challenge string
			retry     string
			code      string
			outcome   httpdoor.Outcome
		}{
			{"", 401, `Bearer realm="mcp"`, "", "missing_credential", httpdoor.NoCredential},
			{"stranger", 401, `Bearer realm="mcp", error="invalid_token"`, "", "unknown_credential", httpdoor.UnknownCredential},
			{"broken", 400, "", "", "malformed_credential", httpdoor.BadCredential},
			{"unlucky", 503, "", "1", "temporarily_unavailable", httpdoor.Unavailable},
		} {
			for _, method := range []string{"POST", "GET", "DELETE"} {
				seen = nil
				r, err := http.NewRequestWithContext(t.Context(), method, b.url, strings.NewReader(callEcho))
				if err != nil {
					t.Fatal(err)
				}
				if c.word != "" {
					r.Header.Set("Authorization", "Bearer "+c.word)
				}
				res, body := b.do(r)
				h := res.Header
				if res.StatusCode != c.status || h.Get("WWW-Authenticate") != c.challenge || h.Get("Retry-After") != c.retry || !strings.Contains(body, `"error":"`+c.code+`"`) {
					t.Errorf("%s %q: %d %v\n%s", method, c.word, res.StatusCode, h, body)
				}
				if h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" || h.Get("RateLimit-Policy") != "" {
					t.Errorf("%s %q: %v", method, c.word, h)
				}
				if len(seen) != 1 || seen[0].Outcome != c.outcome || (seen[0].Err != nil) != (c.status == 503) {
					t.Errorf("%s %q: observed %+v", method, c.word, seen)
				}
			}
		}
		if b.store.takes() != 0 || b.runs.Load() != 0 {
			t.Errorf("%d takes, %d runs", b.store.takes(), b.runs.Load())
		}
	})
}

// Real links, in every spelling of the field, are one caller. A revoked one is nobody.
func TestLinks(t *testing.T) {
	each(t, overHTTP[2:], func(t *testing.T, m mode) {
		reg := memory.NewLinks()
		l := link.Mint()
		rec := link.NewRecord(l, link.Owner, "test", t0.Time())
		if err := reg.Add(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		b := newBench(t, m, "", mcpdoor.Options{Identify: mcpdoor.Links(reg, signpost.MustParseBound("3/min"))})
		ask := func(fields ...string) (int, string) {
			r, err := http.NewRequestWithContext(t.Context(), "POST", b.url, strings.NewReader(callEcho))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": fields}
			res, body := b.do(r)
			return res.StatusCode, body
		}
		for i, field := range []string{"Bearer " + l.Reveal(), "bearer " + l.Reveal(), "BEARER   " + l.Reveal(), "Bearer " + l.Reveal() + " "} {
			status, body := ask(field)
			if refused := strings.Contains(body, `"isError":true`); status != 200 || refused != (i == 3) {
				t.Errorf("%d %s", status, body)
			}
		}
		for want, fields := range map[int][]string{
			400: {"Bearer " + l.Reveal(), "Bearer " + l.Reveal()},
			401: {"Bearer " + link.Mint().Reveal()},
		} {
			if status, _ := ask(fields...); status != want {
				t.Errorf("%d fields: %d, want %d", len(fields), status, want)
			}
		}
		if status, _ := ask("xBearer " + l.Reveal()); status != 400 {
			t.Errorf("junk before the scheme: %d", status)
		}
		if b.store.takes() != 4 {
			t.Errorf("%d takes", b.store.takes())
		}
		if shown, err := reg.Show(t.Context(), rec.Hash.ID()); err != nil || shown.Seen.IsZero() {
			t.Errorf("last seen %v, %v", shown.Seen, err)
		}
		if _, err := reg.Revoke(t.Context(), rec.Hash.ID(), t0.Time()); err != nil {
			t.Fatal(err)
		}
		if status, _ := ask("Bearer " + l.Reveal()); status != 401 {
			t.Errorf("a revoked link: %d", status)
		}
	})
}

// A session belongs to nobody: each message is counted for the credential that it carries.
func TestAnotherCredentialInTheSameSession(t *testing.T) {
	each(t, overHTTP, func(t *testing.T, m mode) {
		b := newBench(t, m, "2/min", mcpdoor.Options{})
		a := newAs("alice")
		s := b.connectAs(a, nil)
		for range 2 {
			if res := call(t, s, "echo"); res.IsError {
				t.Fatal(text(res))
			}
		}
		if res := call(t, s, "echo"); !res.IsError {
			t.Error("alice has more than her two")
		}
		a.set("bob")
		for range 2 {
			if res := call(t, s, "echo"); res.IsError {
				t.Errorf("bob pays for alice: %s", text(res))
			}
		}
		if res := call(t, s, "echo"); !res.IsError {
			t.Error("bob has more than his two")
		}
		a.set("alice")
		if res := call(t, s, "echo"); !res.IsError {
			t.Error("alice has got quota back")
		}
		// The credential is taken away in the middle of the session.
		before := b.store.takes()
		a.set("stranger")
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo"}); err == nil {
			t.Error("a stranger has a result")
		}
		if b.store.takes() != before {
			t.Error("a stranger was counted")
		}
	})
}

// Without Wrap around the handler, the messages themselves are turned away.
func TestMiddlewareAlone(t *testing.T) {
	b := newBench(t, overHTTP[3], "1/min", mcpdoor.Options{})
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	defer s.Close()
	b.url = s.URL
	for word, want := range map[string]string{
		"alice":    `"text":"done"`,
		"stranger": `"error":{"code":401,"message":"This credential is not known here.`,
		"":         `"error":{"code":401,"message":"This request carries no credential.`,
		"broken":   `"error":{"code":400,`,
		"unlucky":  `"text":"The rate limit of this call could not be checked. Nothing was executed. Wait 1 second, then call the tool again with the same arguments."`,
	} {
		if res, body := b.post(word, "", callEcho); res.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("%q: %d %s", word, res.StatusCode, body)
		}
	}
	if res, body := b.post("alice", "", callEcho); res.StatusCode != 200 || !strings.Contains(body, `"isError":true`) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if b.store.takes() != 2 {
		t.Errorf("%d takes", b.store.takes())
	}
}

func TestNoCredentialWithoutHTTP(t *testing.T) {
	b := newBench(t, inMemory, "", mcpdoor.Options{Identify: mcpdoor.Links(memory.NewLinks(), signpost.Bound{})})
	mine, its := mcp.NewInMemoryTransports()
	if _, err := b.server.Connect(t.Context(), its, nil); err != nil {
		t.Fatal(err)
	}
	_, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), mine, nil)
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != 401 {
		t.Errorf("the handshake ends with %v", err)
	}
}

// The token that a layer of the SDK has verified says who it is.
func TestTokenInfo(t *testing.T) {
	each(t, overHTTP, func(t *testing.T, m mode) {
		b := newBench(t, m, "", mcpdoor.Options{Identify: func(_ context.Context, extra *mcp.RequestExtra) (httpdoor.Caller, error) {
			if extra.TokenInfo == nil {
				return httpdoor.Caller{}, httpdoor.ErrNoCredential
			}
			return callerOf(extra.TokenInfo.Extra["user"].(string), "1/min"), nil
		}})
		verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
			return &auth.TokenInfo{Extra: map[string]any{"user": token}}, nil
		}
		inner := b.door.Wrap(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.server }, &mcp.StreamableHTTPOptions{Stateless: m.stateless, JSONResponse: m.json}))
		s := httptest.NewServer(auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(inner))
		t.Cleanup(s.Close)
		b.url = s.URL
		a := newAs("alice")
		session := b.connectAs(a, nil)
		for _, word := range []string{"alice", "bob"} {
			a.set(word)
			if res := call(t, session, "echo"); res.IsError {
				t.Errorf("%s: %s", word, text(res))
			}
			if res := call(t, session, "echo"); !res.IsError {
				t.Errorf("%s has more than one", word)
			}
		}
		session.Close()
	})
}

// The transport of 2024-11-05: the answers come on a stream that was opened before.
func TestOlderTransport(t *testing.T) {
	b := newBench(t, overHTTP[0], "2/min", mcpdoor.Options{Charges: slowIsExpensive})
	srv := httptest.NewServer(b.door.Wrap(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return b.server }, nil)))
	t.Cleanup(srv.Close)
	for _, word := range []string{"alice", "bob"} {
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		s, err := client.Connect(context.Background(), &mcp.SSEClientTransport{Endpoint: srv.URL, HTTPClient: &http.Client{Transport: newAs(word)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		for i := range 3 {
			if res := call(t, s, "echo"); res.IsError != (i == 2) {
				t.Errorf("%s, call %d: %s", word, i+1, text(res))
			}
		}
	}
	_, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: srv.URL, HTTPClient: &http.Client{Transport: newAs("stranger")}}, nil)
	if err == nil {
		t.Error("a stranger has a session")
	}
}

func TestPreflightPasses(t *testing.T) {
	b := newBench(t, overHTTP[0], "1/min", mcpdoor.Options{})
	r, err := http.NewRequestWithContext(t.Context(), "OPTIONS", b.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://example.com")
	r.Header.Set("Access-Control-Request-Method", "POST")
	if res, _ := b.do(r); res.StatusCode != http.StatusMethodNotAllowed { // what the SDK says to OPTIONS
		t.Errorf("%d", res.StatusCode)
	}
}

// A degraded answer says so in its _meta and in the header, and no other does: admitted or refused, by turns, on one connection.
func TestDegraded(t *testing.T) {
	each(t, overHTTP, func(t *testing.T, m mode) {
		b := newBench(t, m, "6/min", mcpdoor.Options{})
		var inbound string
		see := func(_ context.Context, r *mcp.CallToolRequest) {
			inbound += strings.Join(r.Extra.Header[render.Marker], "") + r.Extra.Header.Get(render.Marker)
		}
		b.tool.Store(&see)
		session := ""
		if !m.stateless {
			res, body := b.post("alice", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
			session = res.Header.Get("Mcp-Session-Id")
			if session == "" {
				t.Fatal(body)
			}
		}
		for i := range 10 {
			degraded := i%2 == 1
			b.store.set(func(s *store) { s.degraded = degraded })
			res, body := b.post("alice", "2025-03-26", callEcho, "Mcp-Session-Id", session, render.Marker, "degraded")
			if refused := strings.Contains(body, `"isError":true`); refused != (i >= 6) {
				t.Fatalf("call %d: %s", i, body)
			}
			marked := strings.Join(res.Header.Values(render.Marker), ",")
			if want := map[bool]string{true: "degraded"}[degraded]; marked != want || strings.Contains(body, `"degraded":true`) != degraded {
				t.Errorf("call %d: header %q, want %q: %s", i, marked, want, body)
			}
		}
		if inbound != "" {
			t.Errorf("the tool sees the client's marker %q", inbound)
		}
	})
}

// The marker is the door's: what another says with it does not leave.
func TestMarkerOfAnother(t *testing.T) {
	d, err := mcpdoor.New(signpost.New(newStore(), signpost.Options{}), mcpdoor.Options{Identify: byWord("5/min")})
	if err != nil {
		t.Fatal(err)
	}
	h := d.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(render.Marker, "degraded")
		w.Header().Set("RateLimit", "theirs")
	}))
	w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Authorization", "Bearer alice")
	if h.ServeHTTP(w, r); w.Header().Get(render.Marker) != "" || w.Header().Get("RateLimit") != "theirs" {
		t.Errorf("answered with %v", w.Header())
	}
}

// The fields leave with the first that a tool says, and what was known by then is in them.
func TestDegradedBeforeTheResult(t *testing.T) {
	b := newBench(t, overHTTP[2], "6/min", mcpdoor.Options{})
	b.store.set(func(s *store) { s.degraded = true })
	say := func(ctx context.Context, r *mcp.CallToolRequest) {
		if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "token"}); err != nil {
			t.Error(err)
		}
	}
	b.tool.Store(&say)
	res, body := b.post("alice", "", callEcho)
	if res.Header.Get(render.Marker) != "degraded" || !strings.Contains(body, "notifications/progress") || !strings.Contains(body, `"degraded":true`) {
		t.Errorf("%v\n%s", res.Header, body)
	}
}

// A store that does not answer harms no session: the model is told that nothing was executed.
func TestStoreThatFails(t *testing.T) {
	each(t, everyMode, func(t *testing.T, m mode) {
		b := newBench(t, m, "5/min", mcpdoor.Options{Charges: mcpdoor.Charges{Methods: []string{"resources/read"}}})
		s := b.connect("alice", nil)
		for _, deny := range []bool{false, true} {
			b.store.set(func(s *store) {
				if s.err, s.deny = errors.New("gone"), false; deny {
					s.err, s.deny = nil, true
				}
			})
			res := call(t, s, "echo")
			if !res.IsError || !strings.HasPrefix(text(res), "The rate limit of this call could not be checked. Nothing was executed. Wait 1 second") {
				t.Errorf("%v %s", res.IsError, text(res))
			}
			if problem := res.StructuredContent.(map[string]any); problem["status"] != 503.0 || problem["retryAfterSeconds"] != 1.0 {
				t.Errorf("problem %v", problem)
			}
			if got := counters(t, res.Meta); got != map[bool]string{true: `{"degraded":true,"policies":[]}`}[deny] {
				t.Errorf("deny %v: counters %s", deny, got)
			}
			_, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://a"})
			var e *jsonrpc.Error
			if !errors.As(err, &e) || e.Code != 503 || e.Message != "Rate limit could not be checked: retry after 1 second" {
				t.Errorf("%v", err)
			}
		}
		if b.runs.Load() != 0 {
			t.Errorf("%d runs", b.runs.Load())
		}
		b.store.set(func(s *store) { s.err, s.deny = nil, false })
		if res := call(t, s, "echo"); res.IsError {
			t.Error(text(res))
		}
	})
}

func TestObserve(t *testing.T) {
	events := make(chan mcpdoor.Event, 100)
	b := newBench(t, inMemory, "1/min", mcpdoor.Options{Guard: signpost.MustParseBound("4/366d"), Observe: func(e mcpdoor.Event) { events <- e }})
	s := b.connect("alice", nil)
	for range 4 {
		s.ListTools(t.Context(), nil)
	}
	call(t, s, "echo")
	call(t, s, "echo")
	b.store.set(func(s *store) { s.err = errors.New("gone") })
	call(t, s, "echo")
	seen := map[httpdoor.Outcome]mcpdoor.Event{}
	for len(events) > 0 {
		e := <-events
		seen[e.Outcome] = e
	}
	for outcome, want := range map[httpdoor.Outcome]string{
		httpdoor.Uncounted: "tools/list ", mcpdoor.Flooded: "tools/list ", httpdoor.Admitted: "tools/call echo", httpdoor.Refused: "tools/call echo", httpdoor.Unavailable: "tools/call echo",
	} {
		e := seen[outcome]
		if got := e.Method + " " + e.Tool; got != want || e.Caller.Name != "alice" {
			t.Errorf("%s: %q of %q", outcome, got, e.Caller.Name)
		}
		if decided := len(e.Decision.Windows()) > 0; decided != (outcome == httpdoor.Admitted || outcome == httpdoor.Refused) || (e.Err != nil) != (outcome == httpdoor.Unavailable) {
			t.Errorf("%s: %+v", outcome, e)
		}
	}
}
