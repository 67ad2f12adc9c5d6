// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	core "github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/memory"
	"github.com/signposthq/signpost/store/redis"
)

// reply is what a program sees of a call, whatever its SDK.
type reply struct {
	Result struct {
		IsError           bool
		Content           []struct{ Text string }
		StructuredContent *render.Problem
		Meta              struct {
			Counters *counted `json:"dev.signpost/ratelimit"`
		} `json:"_meta"`
	}
	Error *struct { // in place of a result
		Code    int64
		Message string
	}
	Marker string // X-Signpost-RateLimit of the last response
	Form   string // its Content-Type
}

// counted are the counters of a result.
type counted struct {
	Policies []struct {
		Name string
		Q, R int
	}
	Degraded bool
}

// text is what the model reads.
func (r *reply) text() string {
	if r.Error != nil {
		return "error: " + r.Error.Message
	}
	var all []string
	for _, c := range r.Result.Content {
		all = append(all, c.Text)
	}
	return strings.Join(all, "\n")
}

// done reports whether a tool has answered.
func (r *reply) done() bool { return r.Error == nil && !r.Result.IsError && r.text() == "done" }

// peer is a client of MCP.
type peer interface {
	connect(t testing.TB, url, link string)
	begin(t testing.TB, tool string) running
	list(t testing.TB)  // the tools
	close(t testing.TB) // the session
	trouble() []string  // that it told of, besides what it answered
}

// running is a call that has been sent.
type running struct {
	answer <-chan reply
	cancel func()
}

// bearing sends every request of a client of MCP with a link.
type bearing struct {
	*http.Transport
	link string
	last atomic.Value // the http.Header of the last response to a POST
}

// RoundTrip implements http.RoundTripper.
func (b *bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.link)
	resp, err := b.Transport.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost {
		b.last.Store(resp.Header)
	}
	return resp, err
}

// goClient is the client of the SDK in Go.
type goClient struct {
	transport *bearing
	session   *mcp.ClientSession
}

func (g *goClient) connect(t testing.TB, url, link string) {
	t.Helper()
	g.transport = &bearing{Transport: &http.Transport{}, link: link}
	t.Cleanup(g.transport.CloseIdleConnections)
	var err error
	g.session, err = mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: g.transport}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	session := g.session
	t.Cleanup(func() { session.Close() })
}

func (g *goClient) begin(t testing.TB, tool string) running {
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan reply, 1)
	go func() { answer <- g.call(ctx, tool) }()
	return running{answer, cancel}
}

func (g *goClient) call(ctx context.Context, tool string) (r reply) {
	res, err := g.session.CallTool(ctx, &mcp.CallToolParams{Name: tool})
	if last, ok := g.transport.last.Load().(http.Header); ok {
		r.Marker, r.Form = last.Get(render.Marker), last.Get("Content-Type")
	}
	if err == nil {
		var text []byte
		if text, err = json.Marshal(res); err == nil {
			err = json.Unmarshal(text, &r.Result)
		}
	}
	if err != nil {
		r.Error = &struct {
			Code    int64
			Message string
		}{Message: err.Error()}
		if wire := (*jsonrpc.Error)(nil); errors.As(err, &wire) {
			r.Error.Code = wire.Code
		}
	}
	return r
}

func (g *goClient) list(t testing.TB) {
	t.Helper()
	if _, err := g.session.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

func (g *goClient) close(t testing.TB) {
	t.Helper()
	if err := g.session.Close(); err != nil {
		t.Error(err)
	}
}

func (g *goClient) trouble() []string { return nil }

// pair is a client and a server of MCP with a door between them: one in TypeScript, or else in Go.
type pair struct {
	scriptedClient, scriptedServer bool
	middleware                     bool // in the server; else it is the door of a daemon
	json                           bool // that is how the server answers; else in event streams
}

// String is the name of a test.
func (p pair) String() string {
	language := func(scripted bool) string {
		return map[bool]string{true: "TypeScript", false: "Go"}[scripted]
	}
	name := language(p.scriptedClient) + " to " + language(p.scriptedServer)
	if p.middleware {
		name += " with middleware"
	}
	return name + map[bool]string{true: ", JSON", false: ", event streams"}[p.json]
}

func (p pair) behindDoor() bool   { return !p.middleware } // of a daemon
func (p pair) inTypeScript() bool { return p.scriptedClient && p.scriptedServer }

// eachPair runs a test for every pair that is wanted; nil: all are.
func eachPair(t *testing.T, wanted func(pair) bool, f func(*testing.T, pair)) {
	t.Helper()
	t.Parallel()
	for _, kind := range []pair{
		{scriptedClient: true, scriptedServer: true},
		{scriptedClient: true},
		{scriptedClient: true, middleware: true},
		{scriptedServer: true},
		{},
	} {
		for _, json := range []bool{false, true} {
			p := kind
			p.json = json
			if wanted != nil && !wanted(p) {
				continue
			}
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				f(t, p)
			})
		}
	}
}

// toolServer has the tools quick and hang.
type toolServer interface {
	hanging(t testing.TB) int
	letGo(t testing.TB)
}

// within is a server in this process.
type within struct{ *upstream }

func (w within) hanging(testing.TB) int { return w.waiting() }
func (w within) letGo(testing.TB)       { w.letThemGo() }

// scene is a pair at work.
type scene struct {
	pair
	t      *testing.T
	url    string // of the door
	link   string // that the client has
	client peer
	server toolServer
	daemon *daemon               // nil with middleware
	peek   func() *core.Decision // with middleware: on another call of hang
}

// play connects a pair. The client is held to a bound; the door counts in a store, or in memory.
func (p pair) play(t *testing.T, bound string, store *redistest.Server) *scene {
	t.Helper()
	s := &scene{pair: p, t: t, client: p.newClient(t)}
	if p.middleware {
		s.serveWithMiddleware(bound, store)
	} else {
		up := p.startServer(t)
		s.server = up
		s.serveBehindDoor(up.URL, bound, store)
	}
	s.client.connect(t, s.url, s.link)
	return s
}

func (p pair) newClient(t *testing.T) peer {
	t.Helper()
	if p.scriptedClient {
		return startScripted(t)
	}
	return &goClient{}
}

func (p pair) startServer(t *testing.T) *served {
	t.Helper()
	var env []string
	if p.json {
		env = append(env, inJSON)
	}
	if p.scriptedServer {
		return serveFrom(t, node(t, "server.js", env...))
	}
	return startUpstream(t, env...)
}

func (s *scene) serveBehindDoor(upstream, bound string, store *redistest.Server) {
	s.t.Helper()
	settings := []string{"MCP=" + upstream + "/mcp", "MCP_EXPENSIVE=hang", "BOUNDS_LINKS=" + bound}
	if store != nil {
		settings = append(settings, "STORE="+store.URL())
	}
	s.daemon = serve(s.t, settings...)
	s.url, s.link = s.daemon.Door+"/mcp", s.daemon.Link
}

func (s *scene) serveWithMiddleware(bound string, server *redistest.Server) {
	s.t.Helper()
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	var store core.Store = memory.New(memory.Options{})
	if server != nil {
		inner, err := redis.Open(s.t.Context(), redis.Options{URL: server.URL()})
		must(err)
		store, err = failopen.New(inner, failopen.Options{Timeout: storeTimeout})
		must(err)
	}
	limiter := core.New(store, core.Options{})
	minted, registry := link.Mint(), memory.NewLinks()
	must(registry.Add(s.t.Context(), link.NewRecord(minted, link.Owner, "", time.Now())))
	owners := core.MustParseBound(bound)
	door, err := mcpdoor.New(limiter, mcpdoor.Options{Identify: mcpdoor.Links(registry, owners), Charges: mcpdoor.Charges{Expensive: []string{"hang"}}})
	must(err)
	u := newUpstream()
	tools := u.tools()
	door.AddTo(tools)
	front := httptest.NewServer(door.Wrap(overHTTP(tools, s.json)))
	s.t.Cleanup(func() {
		for session := range tools.Sessions() {
			session.Close()
		}
		front.CloseClientConnections()
		front.Close()
		if err := store.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.url, s.link, s.server = front.URL, minted.Reveal(), within{u}
	s.peek = func() *core.Decision {
		d, err := limiter.Peek(s.t.Context(), core.Request{Key: minted.Hash().Key(), Bound: owners, Expensive: true})
		must(err)
		return &d
	}
}

// call calls a tool and waits for what comes of it.
func (s *scene) call(tool string) reply {
	s.t.Helper()
	return await(s.t, s.client.begin(s.t, tool).answer)
}

// hang begins calls of the tool hang, and returns when all of them, and no others, have reached it.
func (s *scene) hang(n int) (calls []running) {
	s.t.Helper()
	for range n {
		calls = append(calls, s.client.begin(s.t, "hang"))
	}
	eventually(s.t, "the calls have reached the tool", func() bool { return s.server.hanging(s.t) == n })
	return calls
}

// letGo lets all calls go, and wants each to be done.
func (s *scene) letGo(calls []running) {
	s.t.Helper()
	s.server.letGo(s.t)
	for _, c := range calls {
		if r := await(s.t, c.answer); !r.done() {
			s.t.Errorf("a call that was let go: %s", r.text())
		}
	}
}

// end ends the session, which is to have had no trouble.
func (s *scene) end() {
	s.t.Helper()
	s.client.close(s.t)
	if all := s.client.trouble(); len(all) > 0 {
		s.t.Errorf("the client had troubles: %q", all)
	}
}

// wantFree waits until every slot of the client is free.
func (s *scene) wantFree(slots int) {
	s.t.Helper()
	if s.middleware {
		eventually(s.t, "every slot is free", func() bool { return s.peek().InUse == 0 })
	} else {
		wantFreeSlots(s.t, s.daemon, s.link, slots)
	}
}

// used returns how many calls of the client are counted in the first window.
func (s *scene) used() uint64 {
	s.t.Helper()
	if s.middleware {
		return uint64(s.peek().Windows()[0].Used)
	}
	return uint64(s.daemon.inspect(s.t, linkID(s.t, s.link)).Windows[0].Used)
}

// healed reports whether the store decides again.
func (s *scene) healed() bool {
	s.t.Helper()
	if s.middleware {
		return !s.peek().Degraded
	}
	return strings.Contains(s.daemon.metrics(s.t), "signpost_degraded 0\n")
}
