// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// upstreamVariable makes this test binary the service behind the door.
	upstreamVariable = "SIGNPOST_E2E_UPSTREAM"
	// inJSON makes a server of MCP answer in JSON, and not in event streams.
	inJSON = "JSON=1"
)

// upstream is a service that does what its test needs. It runs in a process of its own, so that it can be killed and
// frozen:
//
//	/say?status=&header=&body=  answers that, or 304 where the request has the Etag already
//	/hang                       answers when it is let go
//	/events                     one event at once, and another when it is let go
//	/ws                         echoes what comes over the connection
//	/panic                      panics; with ?late after the beginning of an answer
//	/mcp                        a server of MCP with the tools quick, and hang, which answers when it is let go
//
//	/control/seen               what has arrived, as it was
//	/control/hanging            how many requests wait to be let go
//	/control/go                 lets all go that wait
type upstream struct {
	mu      sync.Mutex
	seen    strings.Builder
	hanging int
	letGo   chan struct{} // closed when those that wait now may go
}

func newUpstream() *upstream { return &upstream{letGo: make(chan struct{})} }

// say returns a path with a query that makes the upstream answer a body with some fields, "Name: value".
func say(path, body string, fields ...string) string {
	return path + "?" + url.Values{"body": {body}, "header": fields}.Encode()
}

// served is an upstream that runs.
type served struct {
	*process
	URL string
	c   *client
}

func startUpstream(t testing.TB, env ...string) *served {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append([]string{upstreamVariable + "=1"}, env...)
	return serveFrom(t, cmd)
}

// serveFrom starts a program that says its URL and serves until its input ends: when this process does, however that ends.
func serveFrom(t testing.TB, cmd *exec.Cmd) *served {
	t.Helper()
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p := spawn(t, cmd)
	return &served{p, p.firstLine(t), newClient(t)}
}

func (s *served) hanging(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(s.c.ask(t, "GET", s.URL+"/control/hanging", "").body)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *served) letGo(t testing.TB) {
	t.Helper()
	s.c.ask(t, "POST", s.URL+"/control/go", "")
}

// serveUpstream is main of the upstream.
func serveUpstream() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("http://%s\n", l.Addr())
	u := newUpstream()
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{"/": u.say, "/hang": u.hang, "/events": u.events, "/ws": u.socket, "/panic": u.panic} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			u.note(r)
			h(w, r)
		})
	}
	mux.Handle("/mcp", overHTTP(u.tools(), os.Getenv("JSON") == "1"))
	mux.HandleFunc("/control/seen", u.tellSeen)
	mux.HandleFunc("/control/hanging", u.tellHanging)
	mux.HandleFunc("/control/go", u.letAllGo)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	s := http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0)}
	panic(s.Serve(l))
}

// note remembers the head of a request.
func (u *upstream) note(r *http.Request) {
	head, err := httputil.DumpRequest(r, false)
	if err != nil {
		panic(err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen.Write(head)
}

func (u *upstream) say(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	said := r.URL.Query()
	for _, line := range said["header"] {
		name, value, _ := strings.Cut(line, ": ")
		w.Header().Add(name, value)
	}
	if tag := w.Header().Get("Etag"); tag != "" && r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if status, err := strconv.Atoi(said.Get("status")); err == nil {
		w.WriteHeader(status)
	}
	io.WriteString(w, said.Get("body"))
}

// wait waits until the request has been read and let go, and reports false if its client has gone before.
func (u *upstream) wait(r *http.Request) bool {
	u.mu.Lock()
	u.hanging++
	letGo := u.letGo
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		u.hanging--
		u.mu.Unlock()
	}()
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return false
		}
	}
	select {
	case <-letGo:
		return true
	case <-r.Context().Done():
		return false
	}
}

// tools returns a server of MCP.
func (u *upstream) tools() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	done := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}
	schema := json.RawMessage(`{"type":"object"}`)
	s.AddTool(&mcp.Tool{Name: "quick", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return done, nil })
	s.AddTool(&mcp.Tool{Name: "hang", InputSchema: schema}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r := new(http.Request).WithContext(ctx); !u.wait(r) {
			return nil, ctx.Err()
		}
		return done, nil
	})
	return s
}

// overHTTP serves MCP in sessions.
func overHTTP(s *mcp.Server, json bool) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: json})
}

func (u *upstream) hang(w http.ResponseWriter, r *http.Request) {
	if u.wait(r) {
		io.WriteString(w, "let go")
	}
}

func (u *upstream) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "data: first\n\n")
	w.(http.Flusher).Flush()
	if u.wait(r) {
		io.WriteString(w, "data: last\n\n")
	}
}

func (u *upstream) socket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer conn.CloseNow()
	for {
		kind, text, err := conn.Read(r.Context())
		if err != nil || conn.Write(r.Context(), kind, text) != nil {
			return
		}
	}
}

func (u *upstream) panic(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("late") {
		io.WriteString(w, "half an ans")
		w.(http.Flusher).Flush()
	}
	panic(http.ErrAbortHandler)
}

func (u *upstream) tellSeen(w http.ResponseWriter, _ *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	io.WriteString(w, u.seen.String())
}

func (u *upstream) tellHanging(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, u.waiting()) }

func (u *upstream) letAllGo(http.ResponseWriter, *http.Request) { u.letThemGo() }

// waiting returns how many requests wait to be let go.
func (u *upstream) waiting() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.hanging
}

// letThemGo lets all go that wait.
func (u *upstream) letThemGo() {
	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.letGo)
	u.letGo = make(chan struct{})
}
