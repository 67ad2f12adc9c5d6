// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost/internal/redistest"
)

// bearing sends every request of a client of MCP with a link.
type bearing struct {
	*http.Transport
	link string
}

func (b *bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.link)
	return b.Transport.RoundTrip(r)
}

// behindMCP starts a server of MCP and a daemon in front of it, where the tool hang is expensive.
func behindMCP(t *testing.T, settings ...string) (*served, *daemon) {
	t.Helper()
	up := startUpstream(t)
	return up, serve(t, append([]string{"MCP=" + up.URL + "/mcp", "MCP_EXPENSIVE=hang", "BOUNDS_LINKS=100000/366d 10 concurrent"}, settings...)...)
}

// connect opens a session at the door with a link.
func (d *daemon) connect(t *testing.T, link string) *mcp.ClientSession {
	t.Helper()
	return connectTo(t, d.Door+"/mcp", link)
}

// connectTo opens a session at a URL with a link.
func connectTo(t *testing.T, url, link string) *mcp.ClientSession {
	t.Helper()
	transport := &bearing{&http.Transport{}, link}
	t.Cleanup(transport.CloseIdleConnections)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: transport}, DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// callTool calls a tool. What it was refused with is an error.
func callTool(ctx context.Context, s *mcp.ClientSession, tool string) error {
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool})
	if err == nil && res.IsError {
		err = errors.New(res.Content[0].(*mcp.TextContent).Text)
	}
	return err
}

func TestEleventhToolAtOnce(t *testing.T) {
	t.Parallel()
	up, d := behindMCP(t)
	s := d.connect(t, d.Link)
	ends := make(chan error, slots+1)
	begin := func(running int) {
		go func() { ends <- callTool(t.Context(), s, "hang") }()
		eventually(t, "the call runs", func() bool { return up.hanging(t) == running })
	}
	for i := range slots {
		begin(i + 1)
	}
	if err := callTool(t.Context(), s, "hang"); err == nil || !strings.Contains(err.Error(), "Concurrency limit exceeded (10 expensive requests at once for this link). Nothing was executed.") {
		t.Errorf("the eleventh: %v", err)
	}
	if err := callTool(t.Context(), s, "quick"); err != nil {
		t.Errorf("a cheap one: %v", err)
	}
	up.letGo(t)
	if err := <-ends; err != nil {
		t.Fatal(err)
	}
	for range slots - 1 {
		if err := <-ends; err != nil {
			t.Fatal(err)
		}
	}
	begin(1)
	up.letGo(t)
	if err := <-ends; err != nil {
		t.Error(err)
	}
	wantFree(t, d, d.Link)
}

func TestServerOfMCPIsKilledInMidCall(t *testing.T) {
	t.Parallel()
	up, d := behindMCP(t)
	s := d.connect(t, d.Link)
	ends := make(chan error, slots)
	for range slots {
		go func() { ends <- callTool(t.Context(), s, "hang") }()
	}
	eventually(t, "the calls run", func() bool { return up.hanging(t) == slots })
	up.kill(t)
	for range slots {
		if err := <-ends; err == nil || !strings.Contains(err.Error(), "The server behind this door does not answer. The call may have reached it.") {
			t.Errorf("a call whose server was killed: %v", err)
		}
	}
	wantFree(t, d, d.Link)
	if err := callTool(t.Context(), s, "quick"); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a call after that: %v", err)
	}
}

// A session outlives a store that is frozen, and what is counted meanwhile is counted.
func TestSessionOfMCPWhileTheStoreIsFrozen(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t)
	_, d := behindMCP(t, "STORE="+store.URL(), "STORE_TIMEOUT=100ms", "BOUNDS_LINKS=20/366d 1 concurrent")
	s := d.connect(t, d.Link)
	for range 5 {
		if err := callTool(t.Context(), s, "quick"); err != nil {
			t.Fatal(err)
		}
	}
	store.Freeze()
	for range 5 {
		if err := callTool(t.Context(), s, "quick"); err != nil {
			t.Fatal(err)
		}
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"quick","arguments":{}}}`
	c := newClient(t)
	ask := func() answer {
		return c.ask(t, "POST", d.Door+"/mcp", call, append(bearer(d.Link), "Content-Type", "application/json", "Accept", "application/json, text/event-stream")...)
	}
	if got := ask(); got.header.Get("X-Signpost-Ratelimit") != "degraded" {
		t.Errorf("%d with the fields %v: %s", got.status, got.header, got.body)
	}
	store.Thaw()
	eventually(t, "the store decides again", func() bool { return strings.Contains(d.metrics(t), "signpost_degraded 0\n") })
	eventually(t, "what was counted meanwhile is counted", func() bool { return d.inspect(t, linkID(t, d.Link)).Windows[0].Used >= 11 })
	if got := ask(); got.header.Get("X-Signpost-Ratelimit") != "" {
		t.Errorf("%d with the fields %v: %s", got.status, got.header, got.body)
	}
	for range 20 {
		if err := callTool(t.Context(), s, "quick"); err != nil {
			if !strings.Contains(err.Error(), "Nothing was executed") {
				t.Error(err)
			}
			return
		}
	}
	t.Error("more than the bound was admitted")
}
