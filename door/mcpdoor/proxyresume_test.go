// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost/door/mcpdoor"
)

// A client that resumes a stream of the SDK's own server gets what it has missed. The proxy does not see when work that it resumed ends, so
// its slot is held until the lease has ended.
func TestProxyResumption(t *testing.T) {
	b := &bench{t: t, store: newStore(), slow: make(chan struct{}), running: make(chan struct{}, 100)}
	b.server = mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	b.addTools()
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.server },
		&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}))
	t.Cleanup(s.Close)
	b.url = startProxy(t, b.store, s.URL, "5/min, 1 concurrent", oneSlot)
	const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	res, _ := b.post("alice", "", initialize)
	session := res.Header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatal("there is no session")
	}
	fields := []string{"Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-06-18"}
	b.post("alice", "2025-06-18", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, fields...)

	goOn := make(chan struct{})
	finish := sync.OnceFunc(func() { close(goOn) })
	defer finish()
	f := func(ctx context.Context, r *mcp.CallToolRequest) {
		for _, text := range []string{"quarter", "half"} {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "p", Message: text})
		}
		<-goOn
	}
	b.tool.Store(&f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, err := http.DefaultClient.Do(b.request(ctx, callMessage("1", "echo"), fields...))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	var last string
	for lines := bufio.NewScanner(first.Body); lines.Scan() && !strings.Contains(lines.Text(), "quarter"); {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			last = id
		}
	}
	cancel()
	r := b.request(t.Context(), "", append(fields, "Last-Event-ID", last)...)
	r.Method = http.MethodGet
	var again *http.Response
	eventually(t, "the server has seen that the client has gone", func() bool {
		if again != nil {
			again.Body.Close()
		}
		if again, err = http.DefaultClient.Do(r); err != nil {
			t.Fatal(err)
		}
		return again.StatusCode == 200
	})
	defer again.Body.Close()
	finish()
	found := false
	for lines := bufio.NewScanner(again.Body); !found && lines.Scan(); {
		found = strings.Contains(lines.Text(), `"text":"done"`)
	}
	if !found {
		t.Error("what was missed is not there")
	}
	if _, body := b.post("alice", "", callMessage("2", "echo"), fields...); !strings.Contains(body, "Concurrency limit exceeded") || b.store.releases() != 0 {
		t.Errorf("%d slots were given back: %s", b.store.releases(), body)
	}
}

// gone is a response whose client has gone.
type gone struct{ *httptest.ResponseRecorder }

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// That a client has gone is seen as its events are written, if not before.
func TestProxyResumableStreamThatCannotBeWritten(t *testing.T) {
	s := newStore()
	p := newProxy(t, s, "http://upstream", "5/min, 1 concurrent", mcpdoor.ProxyOptions{Charges: oneSlot.Charges, Transport: transport(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1, Request: r, Body: io.NopCloser(strings.NewReader("id: 1\ndata: {}\n\n"))}, nil
	})})
	b := &bench{t: t, store: s, url: "http://proxy/"}
	p.ServeHTTP(gone{httptest.NewRecorder()}, b.request(t.Context(), callMessage("1", "slow")))
	if s.takes() != 1 || s.releases() != 0 {
		t.Errorf("%d takes, %d slots were given back", s.takes(), s.releases())
	}
}

// If the first event with an id comes when the client has gone, the proxy lets go then: it may come back.
func TestProxyStreamThatIsResumableLate(t *testing.T) {
	begun, goOn, hungUp := make(chan struct{}), make(chan struct{}), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		close(begun)
		<-goOn
		io.WriteString(w, "id: 1\ndata: {}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(hungUp)
	}))
	defer up.Close()
	over := make(chan struct{})
	b := &bench{t: t, store: newStore()}
	o := oneSlot
	o.Observe = func(mcpdoor.Event) { close(over) }
	b.url = startProxy(t, b.store, up.URL, "5/min, 1 concurrent", o)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := http.DefaultClient.Do(b.request(ctx, callMessage("1", "slow")))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-begun
	cancel()
	time.AfterFunc(20*time.Millisecond, func() { close(goOn) }) // the proxy sees it before, or as it reads on
	<-hungUp
	<-over
	if n := b.store.releases(); n != 0 {
		t.Errorf("%d slots were given back", n)
	}
}
