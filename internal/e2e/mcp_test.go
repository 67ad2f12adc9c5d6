// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	core "github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
)

// seconds is a wait as a model is told it.
func seconds(n int64) string {
	if n == 1 {
		return "1 second"
	}
	return fmt.Sprintf("%d seconds", n)
}

func TestRefusedCallerOfToolsWaitsAsTold(t *testing.T) {
	eachPair(t, nil, func(t *testing.T, p pair) {
		s := p.play(t, "1/2s 1 concurrent", nil)
		refused := s.call("quick")
		for range 10 { // the two seconds may end between two calls
			if !refused.done() {
				break
			}
			refused = s.call("quick")
		}
		said := refused.Result.StructuredContent
		if refused.Error != nil || !refused.Result.IsError || said == nil {
			t.Fatalf("one call too many: %+v", refused)
		}
		if wait := said.RetryAfterSeconds; wait < 1 || wait > 2 || said.Status != http.StatusTooManyRequests || said.Error != "rate_limit_exceeded" || said.LimitID != "2s" {
			t.Errorf("structuredContent: %+v", said)
		}
		want := "Rate limit exceeded (1 request per 2 seconds for this link). Nothing was executed. Wait " + seconds(said.RetryAfterSeconds) + ", then call the tool again with the same arguments; do not retry sooner."
		if got := refused.text(); got != want {
			t.Errorf("the model reads:\n%s\nwant:\n%s", got, want)
		}
		if c := refused.Result.Meta.Counters; c == nil || len(c.Policies) != 2 || c.Policies[0].Name != "2s" || c.Policies[0].Q != 1 || c.Policies[0].R != 0 || c.Degraded {
			t.Errorf("counters: %+v", c)
		}
		s.client.list(t) // which is free
		<-time.After(time.Duration(said.RetryAfterSeconds) * time.Second)
		if r := s.call("quick"); !r.done() {
			t.Errorf("after the wait that was told: %s", r.text())
		}
		s.end()
	})
}

func TestEleventhToolAtOnce(t *testing.T) {
	eachPair(t, nil, func(t *testing.T, p pair) {
		s := p.play(t, "100000/366d 10 concurrent", nil)
		calls := s.hang(slots)
		eleventh := s.call("hang")
		said := eleventh.Result.StructuredContent
		if eleventh.Error != nil || !eleventh.Result.IsError || said == nil {
			t.Fatalf("the eleventh: %+v", eleventh)
		}
		if wait := said.RetryAfterSeconds; wait < 1 || wait > core.Seconds(core.LeaseLife) || said.Error != "concurrency_limit_exceeded" {
			t.Errorf("structuredContent: %+v", said)
		}
		want := "Concurrency limit exceeded (10 expensive requests at once for this link). Nothing was executed. Wait until one of the running calls has ended, at most " + seconds(said.RetryAfterSeconds) +
			", then call the tool again with the same arguments; do not retry while they all run."
		if got := eleventh.text(); got != want {
			t.Errorf("the model reads:\n%s\nwant:\n%s", got, want)
		}
		if r := s.call("quick"); !r.done() {
			t.Errorf("a cheap one: %s", r.text())
		} else if want := map[bool]string{true: "application/json", false: "text/event-stream"}[p.json]; r.Form != want {
			t.Errorf("it was answered as %q, want %q", r.Form, want)
		}
		s.letGo(calls)
		s.letGo(s.hang(1)) // at once: whoever has read an answer can go on
		s.wantFree(slots)
		s.end()
	})
}

// The slot of a cancelled call is back when the tool has heard of it. Behind the door of a daemon that can be seen only if the server
// ends its response, which that in TypeScript does not: then it is back after the wait that was told.
func TestCancelledTools(t *testing.T) {
	eachPair(t, nil, func(t *testing.T, p pair) {
		s := p.play(t, "100000/366d 10 concurrent", nil)
		for _, c := range s.hang(slots) {
			c.cancel()
			if r := await(t, c.answer); r.Error == nil {
				t.Errorf("a call that was cancelled: %s", r.text())
			}
		}
		eventually(t, "the tool has heard", func() bool { return s.server.hanging(t) == 0 })
		if p.scriptedServer {
			refused := s.call("hang").Result.StructuredContent
			if refused == nil || refused.RetryAfterSeconds > core.Seconds(core.LeaseLife) {
				t.Fatalf("the slots of calls that may go on were given back, or held longer than a lease: %+v", refused)
			}
			<-time.After(time.Duration(refused.RetryAfterSeconds) * time.Second)
		}
		s.wantFree(slots)
		s.letGo(s.hang(slots))
		s.client.close(t)
	})
}

// A client that ends its session in mid-call has its slots back, too: at once if the server ends its responses then, and else after the wait
// that another is told. The client in Go waits for its calls before, and so does the server in Go.
func TestSessionOfMCPEndsInMidCall(t *testing.T) {
	eachPair(t, pair.inTypeScript, func(t *testing.T, p pair) {
		s := p.play(t, "100000/366d 10 concurrent", nil)
		calls := s.hang(slots)
		s.end()
		for _, c := range calls {
			if r := await(t, c.answer); r.Error == nil {
				t.Errorf("a call of a session that was ended: %s", r.text())
			}
		}
		if p.json {
			told := newClient(t).take(t, s.daemon, map[string]any{"link": s.link, "expensive": true})
			if told.Admitted || told.RetryAfterSeconds > core.Seconds(core.LeaseLife) {
				t.Fatalf("the slots of calls that may go on were given back, or held longer than a lease: %+v", told)
			}
			<-time.After(time.Duration(told.RetryAfterSeconds) * time.Second)
		}
		s.wantFree(slots)
	})
}

func TestServerOfMCPIsKilledInMidCall(t *testing.T) {
	eachPair(t, pair.behindDoor, func(t *testing.T, p pair) {
		first := p.startServer(t)
		network := redistest.NewProxy(t, strings.TrimPrefix(first.URL, "http://"))
		s := &scene{pair: p, t: t, client: p.newClient(t), server: first}
		s.serveBehindDoor("http://"+network.Addr, "100000/366d 10 concurrent", nil)
		s.client.connect(t, s.url, s.link)
		calls := s.hang(slots)
		first.kill(t)
		for _, c := range calls {
			if r := await(t, c.answer); r.Error == nil || r.Error.Code != http.StatusBadGateway || !strings.Contains(r.Error.Message, "The server behind this door does not answer. The call may have reached it.") {
				t.Errorf("a call whose server was killed: %s", r.text())
			}
		}
		s.wantFree(slots)
		if r := s.call("quick"); r.Error == nil || !strings.Contains(r.Error.Message, "does not answer") {
			t.Errorf("a call after that: %s", r.text())
		}
		second := p.startServer(t)
		network.Point(strings.TrimPrefix(second.URL, "http://"))
		s.server, s.client = second, p.newClient(t)
		s.client.connect(t, s.url, s.link)
		s.letGo(s.hang(slots))
		s.end()
	})
}

// A session outlives a store that is frozen, and what is counted meanwhile is counted.
func TestSessionOfMCPWhileTheStoreIsFrozen(t *testing.T) {
	eachPair(t, nil, func(t *testing.T, p pair) {
		store := redistest.Start(t)
		s := p.play(t, "20/366d 1 concurrent", store)
		degraded := func(r reply) bool {
			if c := r.Result.Meta.Counters; p.middleware {
				return c != nil && c.Degraded
			}
			return r.Marker == "degraded"
		}
		five := func(when string, want bool) {
			t.Helper()
			for range 5 {
				if r := s.call("quick"); !r.done() || degraded(r) != want {
					t.Errorf("%s: %s, degraded=%v, want %v", when, r.text(), degraded(r), want)
				}
			}
		}
		five("before", false)
		store.Freeze()
		five("while the store is frozen", true)
		s.client.list(t)
		s.letGo(s.hang(1))
		store.Thaw()
		eventually(t, "the store decides again", s.healed)
		eventually(t, "what was counted meanwhile is counted", func() bool { return s.used() == 11 })
		five("when the store is back", false)
		for range 4 {
			if r := s.call("quick"); !r.done() {
				t.Errorf("up to the bound: %s", r.text())
			}
		}
		if r := s.call("quick"); !strings.HasPrefix(r.text(), "Rate limit exceeded (20 requests per 31622400 seconds for this link). Nothing was executed.") {
			t.Errorf("beyond the bound: %s", r.text())
		}
		s.end()
	})
}
