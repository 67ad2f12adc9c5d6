// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// exchange sends the bytes of one request to the door and returns what comes back, less its body.
func exchange(t *testing.T, d *running, request string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.Door, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(conn, request)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// A protocol other than WebSocket would carry requests past the count.
func TestNoUpgradeButWebSocket(t *testing.T) {
	seen := make(chan http.Header, 1)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { seen <- r.Header })
	d := start(t, "UPSTREAM="+up)
	for offer, want := range map[string]string{
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk":       "",
		"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk":                       "",
		"Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket":                             "",
		"Connection: Upgrade\r\nUpgrade: websocket, h2c":                                        "",
		"Connection: Upgrade\r\nUpgrade: TLS/1.0":                                               "",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk": "websocket",
		"Connection: upgrade\r\nUpgrade: WebSocket":                                             "WebSocket",
	} {
		exchange(t, d, fmt.Sprintf("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", d.Link, offer))
		h := <-seen
		if got := strings.Join(h["Upgrade"], "|"); got != want {
			t.Errorf("%q reached the upstream as Upgrade: %q, want %q", offer, got, want)
		}
		if (h["Connection"] != nil) != (want != "") || h["Http2-Settings"] != nil {
			t.Errorf("%q reached the upstream with %v", offer, h)
		}
	}
}

func TestUpstreamThatUpgradesUnasked(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		conn.Close()
	})
	d := start(t, "UPSTREAM="+up)
	if resp := exchange(t, d, "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "+d.Link+"\r\n\r\n"); resp.StatusCode != 502 {
		t.Errorf("status %d, want 502", resp.StatusCode)
	}
}
