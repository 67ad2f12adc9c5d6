// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/signposthq/signpost/internal/redistest"
)

// A session lives in the server: it goes on through another door, which was started after the first had stopped, and which knows what was counted.
// The client's streams do not keep the first from stopping, though they would never end.
func TestSessionOfMCPOverAnotherStartOfTheDoor(t *testing.T) {
	eachPair(t, pair.behindDoor, func(t *testing.T, p pair) {
		up := p.startServer(t)
		settings := onDisk(t.TempDir(), "MCP="+up.URL+"/mcp", "MCP_EXPENSIVE=hang", "BOUNDS_LINKS=4/366d 1 concurrent", "DRAIN=1h")
		first := serve(t, settings...)
		network := redistest.NewProxy(t, strings.TrimPrefix(first.Door, "http://"))
		s := &scene{pair: p, t: t, client: p.newClient(t), server: up, daemon: first, link: first.Link}
		s.client.connect(t, "http://"+network.Addr+"/mcp", s.link)
		if r := s.call("quick"); !r.done() {
			t.Fatalf("the first call: %s", r.text())
		}
		s.letGo(s.hang(1))
		first.signal(t, syscall.SIGTERM)
		if code := first.wait(t); code != 0 || !strings.Contains(first.stderr.String(), `"cut_off":false`) {
			t.Errorf("the first door ends with %d and the log %s", code, first.stderr.String())
		}
		s.daemon = serve(t, settings...)
		network.Point(strings.TrimPrefix(s.daemon.Door, "http://"))
		if r := s.call("quick"); !r.done() {
			t.Errorf("a call in the same session: %s", r.text())
		}
		s.letGo(s.hang(1))
		if r := s.call("quick"); !strings.HasPrefix(r.text(), "Rate limit exceeded (4 requests per 31622400 seconds for this link). Nothing was executed.") {
			t.Errorf("beyond the bound: %s", r.text())
		}
		s.client.close(t)
	})
}
