// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
)

// mute is a server that takes notifications and the ends of sessions, and ends the response to a call when it is let go, without an answer.
type mute struct {
	url    string
	begun  chan struct{} // a call has come
	letGo  chan struct{}
	hungUp chan struct{} // its client has gone
	status int           // of its answers to those
}

func startMute(t *testing.T, events bool) *mute {
	t.Helper()
	m := &mute{begun: make(chan struct{}), letGo: make(chan struct{}), hungUp: make(chan struct{}, 1), status: http.StatusAccepted}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Method == http.MethodDelete || strings.Contains(string(body), `"notifications/`) {
			w.WriteHeader(m.status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if events {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
		}
		m.begun <- struct{}{}
		select {
		case <-m.letGo:
			for range 2 { // in two pieces, so that its length is not known
				io.WriteString(w, "  ")
				w.(http.Flusher).Flush()
			}
		case <-r.Context().Done():
			m.hungUp <- struct{}{}
		}
	}))
	t.Cleanup(s.Close)
	m.url = s.URL
	return m
}

// cancelledCall is a call of alice whose server is mute.
type cancelledCall struct {
	*bench
	up     *mute
	hangUp func()
	gone   chan struct{} // closed when the client has an answer, or has hung up
}

func startCall(t *testing.T, events bool, session string, leaseLife time.Duration) *cancelledCall {
	t.Helper()
	c := &cancelledCall{&bench{t: t, store: newStore()}, startMute(t, events), nil, make(chan struct{})}
	p := newProxy(t, c.store, c.up.url, "100/min, 1 concurrent", oneSlot)
	p.SetLeaseLife(leaseLife)
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	c.url = front.URL
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c.hangUp = cancel
	r := c.request(ctx, callMessage(`"a"`, "slow"))
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	go func() {
		defer close(c.gone)
		if res, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.ReadAll(res.Body)
			res.Body.Close()
		}
	}()
	<-c.up.begun
	return c
}

// cancel sends the notification.
func (c *cancelledCall) cancel(caller, session, id string) {
	c.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"enough"}}`, id)
	if res, _ := c.post(caller, "", body, "Mcp-Session-Id", session); res.StatusCode != c.up.status {
		c.t.Fatalf("the notification: %d", res.StatusCode)
	}
}

// end ends a session.
func (c *cancelledCall) end(caller, session string) {
	c.t.Helper()
	r := c.request(c.t.Context(), "", "Authorization", "Bearer "+caller)
	if r.Method = http.MethodDelete; session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if res, _ := c.do(r); res.StatusCode != c.up.status {
		c.t.Fatalf("the end of the session: %d", res.StatusCode)
	}
}

func eitherForm(t *testing.T, f func(t *testing.T, events bool)) {
	t.Helper()
	t.Run("JSON", func(t *testing.T) { f(t, false) })
	t.Run("events", func(t *testing.T) { f(t, true) })
}

// A server does not answer a call that was cancelled, but may end its response. Then the work has ended, and the slot is free, whether or not
// the client has waited. It is not free before.
func TestProxyCancelledCallThatEnds(t *testing.T) {
	eitherForm(t, func(t *testing.T, events bool) {
		for _, hangsUp := range []bool{false, true} {
			c := startCall(t, events, "s", signpost.LeaseLife)
			c.cancel("alice", "s", `"a"`)
			if hangsUp {
				c.hangUp()
				<-c.gone
			}
			if _, body := c.post("alice", "", callMessage("2", "echo")); !strings.Contains(body, "Concurrency limit exceeded") || c.store.releases() != 0 {
				t.Errorf("the slot of work that may go on was given back: %s", body)
			}
			c.up.letGo <- struct{}{}
			<-c.gone
			eventually(t, "the slot is free", func() bool { return c.store.releases() == 1 })
		}
	})
}

// If it does not end it, and the client has gone, the proxy goes too, once there is no lease to give back.
func TestProxyCancelledCallThatNeverEnds(t *testing.T) {
	for _, cancel := range []func(*cancelledCall){
		func(c *cancelledCall) { c.cancel("alice", "s", `"a"`) },
		func(c *cancelledCall) { c.cancel("alice", "s", `"\u0061"`) },
		func(c *cancelledCall) { c.end("alice", "s") },
	} {
		eitherForm(t, func(t *testing.T, events bool) {
			for _, hangsUpFirst := range []bool{false, true} {
				c := startCall(t, events, "s", 0)
				if hangsUpFirst {
					c.hangUp()
					<-c.gone
				}
				cancel(c)
				c.hangUp()
				<-c.up.hungUp
			}
		})
	}
}

// Without sessions, two calls can have the same id. A notification cancels one of them, and a second one the other.
func TestProxyCancelsEachOfTwoCallsWithOneID(t *testing.T) {
	up := startMute(t, false)
	p := newProxy(t, newStore(), up.url, "100/min, 2 concurrent", oneSlot)
	p.SetLeaseLife(0)
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	c := &cancelledCall{bench: &bench{t: t, url: front.URL}, up: up}
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	for range 2 {
		go http.DefaultClient.Do(c.request(ctx, callMessage("1", "slow")))
		<-up.begun
	}
	c.cancel("alice", "", "1")
	c.cancel("alice", "", "1")
	hangUp()
	for range 2 {
		<-up.hungUp
	}
}

// Only who has sent a call can cancel it, and only if the server hears of it. Any other goes on without its client, as it would have.
func TestProxyCancelsNothingElse(t *testing.T) {
	for _, o := range []struct {
		name    string
		session string // of the call
		status  int    // of the server's answer
		cancel  func(*cancelledCall)
	}{
		{"another id", "s", 202, func(c *cancelledCall) { c.cancel("alice", "s", `"b"`) }},
		{"no id", "s", 202, func(c *cancelledCall) { c.cancel("alice", "s", `{"a":1}`) }},
		{"a request, which cancels nothing", "s", 202, func(c *cancelledCall) {
			c.post("alice", "", `{"jsonrpc":"2.0","id":9,"method":"notifications/cancelled","params":{"requestId":"a"}}`, "Mcp-Session-Id", "s")
		}},
		{"another session", "s", 202, func(c *cancelledCall) { c.cancel("alice", "x", `"a"`) }},
		{"another caller", "s", 202, func(c *cancelledCall) { c.cancel("bob", "s", `"a"`) }},
		{"the server does not know the session", "s", 404, func(c *cancelledCall) { c.cancel("alice", "s", `"a"`) }},
		{"the end of another session", "s", 202, func(c *cancelledCall) { c.end("alice", "x") }},
		{"the end of the session for another caller", "s", 202, func(c *cancelledCall) { c.end("bob", "s") }},
		{"the server has no end of sessions", "s", 405, func(c *cancelledCall) { c.end("alice", "s") }},
		{"the end of no session", "", 202, func(c *cancelledCall) { c.end("alice", "") }},
	} {
		t.Run(o.name, func(t *testing.T) {
			eitherForm(t, func(t *testing.T, events bool) {
				c := startCall(t, events, o.session, 0)
				c.up.status = o.status
				o.cancel(c)
				c.hangUp()
				<-c.gone
				other := startCall(t, events, "s", 0)
				other.cancel("alice", "s", `"a"`)
				other.hangUp()
				<-other.up.hungUp // which so much later is seen
				select {
				case c.up.letGo <- struct{}{}:
				case <-c.up.hungUp:
					t.Fatal("the call was given up")
				}
				eventually(t, "the slot is free", func() bool { return c.store.releases() == 1 })
			})
		})
	}
}
