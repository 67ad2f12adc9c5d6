// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A client cannot have its slot back from work that goes on, by saying that it speaks a revision that the server does not know of.
func TestProxyBelievesNoRevisionThatNobodySpeaks(t *testing.T) {
	for name, fields := range map[string][]string{
		"not forwarded":     {"MCP-Protocol-Version", "2026-07-28", "Connection", "keep-alive, mcp-Protocol-version "},
		"twice":             {"MCP-Protocol-Version", "2026-07-28", "MCP-Protocol-Version", "2025-03-26"},
		"several":           {"MCP-Protocol-Version", "2026-07-28, 2025-03-26"},
		"no revision":       {"MCP-Protocol-Version", "latest"},
		"not a day":         {"MCP-Protocol-Version", "2026-13-01"},
		"one with sessions": {"MCP-Protocol-Version", "2026-07-28", "Mcp-Session-Id", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			var called atomic.Bool
			running, end := make(chan struct{}), make(chan struct{})
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if !called.Swap(true) {
					close(running)
					<-end // and heeds no end of its request
				}
			}))
			defer up.Close()
			defer close(end)
			b := &bench{t: t, store: newStore()}
			b.url = startProxy(t, b.store, up.URL, "100/min, 1 concurrent", oneSlot)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := b.request(ctx, callMessage("1", "slow"))
			for i := 0; i < len(fields); i += 2 {
				r.Header.Add(fields[i], fields[i+1])
			}
			gone := make(chan error, 1)
			go func() {
				res, err := http.DefaultClient.Do(r)
				if err == nil {
					res.Body.Close()
				}
				gone <- err
			}()
			<-running
			cancel()
			if err := <-gone; err == nil {
				t.Fatal("a call that nobody lets end was answered")
			}
			for range 50 {
				if _, body := b.post("alice", "", callMessage("2", "slow")); !strings.Contains(body, "Concurrency limit exceeded") {
					t.Fatalf("the slot of work that goes on was given back: %s", body)
				}
			}
		})
	}
}

// What a client keeps from the server does not count for the proxy either.
func TestProxyDecidesByWhatIsForwarded(t *testing.T) {
	b := behindProxy(t, overHTTP[3], "100/min", oneSlot)
	for _, c := range []struct {
		fields []string
		status int
	}{
		{[]string{"Connection", "content-type"}, http.StatusUnsupportedMediaType},
		{[]string{"Connection", "close, Authorization, X-Nothing"}, http.StatusOK}, // it says who asks, and is not forwarded anyhow
		{[]string{"Connection", "mcp-method", "Mcp-Method", "ping"}, http.StatusOK},
		{[]string{"Mcp-Method", "ping"}, http.StatusBadRequest},
	} {
		if res, body := b.post("alice", "", callMessage("1", "echo"), c.fields...); res.StatusCode != c.status {
			t.Errorf("%q: %d %s, want %d", c.fields, res.StatusCode, body, c.status)
		}
	}
}
