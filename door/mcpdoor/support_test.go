// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
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
	deny     bool             // without a look, as a store that does not answer
	degraded bool             // every decision
	hang     bool             // every take, until its context ends
	taken    []signpost.Request
	released int
	renewed  int
}

func newStore() *store { return &store{Store: memory.New(memory.Options{}), at: t0} }

func (s *store) Take(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	s.mu.Lock()
	s.taken = append(s.taken, q)
	q.At = s.at
	err, commit, degraded, deny, hang := s.err, s.commit, s.degraded, s.deny, s.hang
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return signpost.Decision{}, signpost.Commit{}, ctx.Err()
	}
	if err != nil {
		return signpost.Decision{}, signpost.Commit{}, err
	}
	if deny {
		return signpost.Denied(&q, t0, time.Second), signpost.Commit{}, nil
	}
	d, _, err := s.Store.Take(ctx, q)
	d.Degraded = degraded
	return d, commit, err
}

func (s *store) Peek(ctx context.Context, q signpost.Request) (signpost.Decision, signpost.Commit, error) {
	s.mu.Lock()
	q.At = s.at
	err, degraded := s.err, s.degraded
	s.mu.Unlock()
	if err != nil {
		return signpost.Decision{}, signpost.Commit{}, err
	}
	d, c, err := s.Store.Peek(ctx, q)
	d.Degraded = degraded
	return d, c, err
}

func (s *store) Release(l signpost.Lease) {
	s.Store.Release(l)
	s.set(func(s *store) { s.released++ })
}

func (s *store) Renew(ctx context.Context, l signpost.Lease, _ signpost.Instant) (signpost.Lease, error) {
	s.mu.Lock()
	s.renewed++
	at := s.at
	s.mu.Unlock()
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
	return s.released
}

func (s *store) renewals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewed
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

// mode is a way to reach a server.
type mode struct {
	name      string
	memory    bool
	stateless bool
	json      bool
}

func (m mode) String() string { return m.name }

var (
	inMemory = mode{name: "in memory", memory: true}
	overHTTP = []mode{
		{name: "sessions, event streams"},
		{name: "sessions, JSON", json: true},
		{name: "stateless, event streams", stateless: true},
		{name: "stateless, JSON", stateless: true, json: true},
	}
	everyMode = append([]mode{inMemory}, overHTTP...)
)

// bench is a server behind a door, and how to reach it.
type bench struct {
	t      testing.TB
	mode   mode
	store  *store
	door   *mcpdoor.Door
	server *mcp.Server
	url    string

	runs    atomic.Int32                                                // of the tools
	slow    chan struct{}                                               // the tool slow ends when it can receive, or when its call is cancelled
	running chan struct{}                                               // the tool slow says when it has begun
	tool    atomic.Pointer[func(context.Context, *mcp.CallToolRequest)] // what the tool echo does besides
}

// newBench starts a server. In HTTP modes the callers are the words alice, bob and so on in place of a link, each held to
// the bound; in memory there is one.
func newBench(t testing.TB, m mode, bound string, o mcpdoor.Options) *bench {
	t.Helper()
	b := &bench{t: t, mode: m, store: newStore(), slow: make(chan struct{}), running: make(chan struct{}, 100)}
	if o.Identify == nil {
		o.Identify = byWord(bound)
		if m.memory {
			o.Identify = mcpdoor.Fixed(callerOf("alice", bound))
		}
	}
	var err error
	if b.door, err = mcpdoor.New(signpost.New(b.store, signpost.Options{}), o); err != nil {
		t.Fatal(err)
	}
	b.server = mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"a"}}}, nil
		},
	})
	b.addTools()
	b.door.AddTo(b.server)
	if m.memory {
		return b
	}
	h := b.door.Wrap(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.server },
		&mcp.StreamableHTTPOptions{Stateless: m.stateless, JSONResponse: m.json, PropagateRequestCancellation: true}))
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	t.Cleanup(func() {
		for ss := range b.server.Sessions() {
			ss.Close()
		}
	})
	b.url = s.URL
	return b
}

func (b *bench) addTools() {
	object := json.RawMessage(`{"type":"object"}`)
	done := func() *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}, Meta: mcp.Meta{"test/own": true}}
	}
	b.server.AddTool(&mcp.Tool{Name: "echo", InputSchema: object}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		b.runs.Add(1)
		if f := b.tool.Load(); f != nil {
			(*f)(ctx, r)
		}
		return done(), nil
	})
	b.server.AddTool(&mcp.Tool{Name: "slow", InputSchema: object}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		b.runs.Add(1)
		b.running <- struct{}{}
		select {
		case b.slow <- struct{}{}:
			return done(), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	b.server.AddResource(&mcp.Resource{URI: "test://a", Name: "a"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		b.runs.Add(1)
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://a", Text: "a"}}}, nil
	})
	b.server.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		b.runs.Add(1)
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
	})
}

func callerOf(word, bound string) httpdoor.Caller {
	return httpdoor.Caller{Key: signpost.KeyOf("test", word), Bound: signpost.MustParseBound(bound), Name: word}
}

// byWord is an Identify that believes what it is told, but for strangers.
func byWord(bound string) func(context.Context, *mcp.RequestExtra) (httpdoor.Caller, error) {
	return func(_ context.Context, extra *mcp.RequestExtra) (httpdoor.Caller, error) {
		word := strings.TrimPrefix(extra.Header.Get("Authorization"), "Bearer ")
		switch word {
		case "":
			return httpdoor.Caller{}, httpdoor.ErrNoCredential
		case "stranger":
			return httpdoor.Caller{}, httpdoor.ErrUnknownCredential
		case "broken":
			return httpdoor.Caller{}, httpdoor.ErrBadCredential
		case "unlucky":
			return httpdoor.Caller{}, fmt.Errorf("%w: the registry is away", httpdoor.ErrUnavailable)
		}
		return callerOf(word, bound), nil
	}
}

// as sends every request of a client as a caller, whose word can change.
type as struct{ word atomic.Pointer[string] }

func newAs(word string) *as {
	a := &as{}
	a.set(word)
	return a
}

func (a *as) set(word string) { a.word.Store(&word) }

func (a *as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+*a.word.Load())
	return http.DefaultTransport.RoundTrip(r)
}

// connect returns a session of the SDK's own client as a caller.
func (b *bench) connect(word string, o *mcp.ClientOptions) *mcp.ClientSession {
	b.t.Helper()
	return b.connectAs(newAs(word), o)
}

func (b *bench) connectAs(a *as, o *mcp.ClientOptions) *mcp.ClientSession {
	b.t.Helper()
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: b.url, HTTPClient: &http.Client{Transport: a}}
	if b.mode.memory {
		mine, its := mcp.NewInMemoryTransports()
		if _, err := b.server.Connect(ctx, its, nil); err != nil {
			b.t.Fatal(err)
		}
		transport = mine
	}
	s, err := client.Connect(ctx, transport, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { s.Close() })
	return s
}

// call calls a tool, and fails if there is no result.
func call(t testing.TB, s *mcp.ClientSession, tool string) *mcp.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
	if err != nil {
		t.Fatalf("call %s: %v", tool, err)
	}
	return res
}

// text returns the text of a result.
func text(res *mcp.CallToolResult) string {
	var all []string
	for _, c := range res.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			all = append(all, c.Text)
		}
	}
	return strings.Join(all, "\n")
}

// counters returns the counters of a result as JSON.
func counters(t testing.TB, m mcp.Meta) string {
	t.Helper()
	v, ok := m[mcpdoor.MetaKey]
	if !ok {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// post sends one body as a caller, and returns the answer with the JSON of its events.
func (b *bench) post(word, revision, body string, fields ...string) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), "POST", b.url, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if word != "" {
		r.Header.Set("Authorization", "Bearer "+word)
	}
	if revision != "" {
		r.Header.Set("MCP-Protocol-Version", revision)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return b.do(r)
}

func (b *bench) do(r *http.Request) (*http.Response, string) {
	b.t.Helper()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return res, strings.TrimSpace(string(all))
	}
	var events []string
	for line := range strings.Lines(string(all)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			events = append(events, strings.TrimSpace(data))
		}
	}
	return res, strings.Join(events, "\n")
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

// each runs a test in several modes.
func each(t *testing.T, modes []mode, f func(*testing.T, mode)) {
	t.Helper()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) { f(t, m) })
	}
}
