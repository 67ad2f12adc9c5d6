// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// Events go through as they are sent, and the slot is held until the last.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	up, d := behind(t, "BOUNDS_LINKS=100000/366d 1 concurrent")
	c := newClient(t)
	req, err := http.NewRequestWithContext(t.Context(), "GET", d.Door+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.Link)
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewReader(resp.Body)
	want := func(line string) {
		t.Helper()
		if got, err := events.ReadString('\n'); got != line {
			t.Fatalf("read %q (%v), want %q", got, err, line)
		}
	}
	want("data: first\n")
	want("\n")
	if resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header["Ratelimit"] == nil {
		t.Errorf("fields of the events: %v", resp.Header)
	}
	wantFull(t, d, d.Link)
	eventually(t, "it waits to send the last", func() bool { return up.hanging(t) == 1 })
	up.letGo(t)
	want("data: last\n")
	want("\n")
	if _, err := events.ReadByte(); err == nil {
		t.Error("there is more after the last event")
	}
	wantFreeSlots(t, d, d.Link, 1)
}

// A WebSocket is one request. Its slot is held as long as the connection.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	up, d := behind(t, "BOUNDS_LINKS=100000/366d 1 concurrent")
	dial := func() (*websocket.Conn, *http.Response, error) {
		return websocket.Dial(t.Context(), d.Door+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + d.Link}}})
	}
	open := func(t *testing.T) *websocket.Conn {
		conn, resp, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.CloseNow() })
		if resp.Header["Ratelimit"] == nil {
			t.Errorf("fields of the answer: %v", resp.Header)
		}
		for _, text := range []string{"hello", strings.Repeat("long ", 5000), ""} {
			if err := conn.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
				t.Fatal(err)
			}
			if _, got, err := conn.Read(t.Context()); err != nil || string(got) != text {
				t.Fatalf("sent %d bytes, got %d back: %v", len(text), len(got), err)
			}
		}
		return conn
	}
	used := func() uint32 { return d.inspect(t, linkID(t, d.Link)).Windows[0].Used }
	before := used()
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, conn *websocket.Conn)
	}{
		{"the client says goodbye", func(t *testing.T, conn *websocket.Conn) { conn.Close(websocket.StatusNormalClosure, "") }},
		{"the client is gone", func(t *testing.T, conn *websocket.Conn) { conn.CloseNow() }},
		{"the upstream is killed", func(t *testing.T, conn *websocket.Conn) {
			up.kill(t)
			if _, _, err := conn.Read(t.Context()); err == nil {
				t.Error("a message of an upstream that was killed")
			}
			conn.CloseNow()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := open(t)
			if after := used(); after != before+1 {
				t.Errorf("a connection with three messages took %d, want 1", after-before)
			}
			if _, resp, err := dial(); err == nil || resp == nil || resp.StatusCode != http.StatusTooManyRequests {
				t.Errorf("a second connection: %v", err)
			}
			tt.end(t, conn)
			wantFreeSlots(t, d, d.Link, 1)
			before = used()
		})
	}
}
