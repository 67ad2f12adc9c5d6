// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
)

var slowIsExpensive = mcpdoor.Charges{Expensive: []string{"slow"}}

// start calls the tool slow and returns once it runs. How the call ends goes to ends.
func (b *bench) start(ctx context.Context, s *mcp.ClientSession, ends chan error) {
	b.t.Helper()
	go func() {
		res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "slow"})
		if err == nil && res.IsError {
			err = errors.New(text(res))
		}
		ends <- err
	}()
	select {
	case <-b.running:
	case err := <-ends:
		b.t.Fatalf("the call did not run: %v", err)
	}
}

// Ten calls in flight, and the eleventh is refused; one ends, and the next is admitted at once.
func TestConcurrency(t *testing.T) {
	each(t, everyMode, func(t *testing.T, m mode) {
		b := newBench(t, m, "100/min 10 concurrent", mcpdoor.Options{Charges: slowIsExpensive})
		s, ends := b.connect("alice", nil), make(chan error, 10)
		for range 10 {
			b.start(t.Context(), s, ends)
		}
		res := call(t, s, "slow")
		const says = "Concurrency limit exceeded (10 expensive requests at once for this link). Nothing was executed. Wait until one of the running calls has ended, at most 30 seconds"
		if !res.IsError || !strings.HasPrefix(text(res), says) {
			t.Fatalf("the eleventh: %s", text(res))
		}
		if problem := res.StructuredContent.(map[string]any); problem["retryAfterSeconds"] != 30.0 || problem["retryExact"] != false || problem["error"] != "concurrency_limit_exceeded" {
			t.Errorf("problem %v", problem)
		}
		if res := call(t, s, "echo"); res.IsError {
			t.Errorf("a cheap call is refused: %s", text(res))
		}
		for range 20 {
			<-b.slow
			if err := <-ends; err != nil {
				t.Fatal(err)
			}
			b.start(t.Context(), s, ends)
		}
		for range 10 {
			<-b.slow
			if err := <-ends; err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "every lease is back", func() bool { return b.store.releases() == 30 })
	})
}

// Cancelled calls give their leases back, though their context has ended.
func TestCancelledCalls(t *testing.T) {
	each(t, everyMode, func(t *testing.T, m mode) {
		b := newBench(t, m, "100/min 10 concurrent", mcpdoor.Options{Charges: slowIsExpensive})
		s, ends := b.connect("alice", nil), make(chan error, 10)
		if m.stateless {
			t.Run("by hanging up", func(t *testing.T) { b.hangUp(t) })
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range 10 {
			b.start(ctx, s, ends)
		}
		cancel()
		for range 10 {
			if err := <-ends; !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled call ended with %v", err)
			}
		}
		eventually(t, "ten leases are back", func() bool { return b.store.releases() == 10 })
		b.start(t.Context(), s, ends)
		<-b.slow
		if err := <-ends; err != nil {
			t.Error(err)
		}
	})
}

// Without sessions, the response is all there is of a call: a client that hangs up has cancelled it.
func (b *bench) hangUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for range 10 {
		r, err := http.NewRequestWithContext(ctx, "POST", b.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{},`+meta+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer alice",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "slow"} {
			r.Header.Set(name, value)
		}
		go func() {
			if res, err := http.DefaultClient.Do(r); err == nil {
				res.Body.Close()
			}
		}()
		<-b.running
	}
	cancel()
	eventually(t, "ten leases are back", func() bool { return b.store.releases() == 10 })
}

// In a session, a client that goes away may come back for its result: the work goes on, and so does its lease, until it ends.
func TestClientGoesAway(t *testing.T) {
	each(t, []mode{inMemory, overHTTP[0]}, func(t *testing.T, m mode) {
		b := newBench(t, m, "100/min 10 concurrent", mcpdoor.Options{Charges: slowIsExpensive})
		s, ends := b.connect("alice", nil), make(chan error, 10)
		for range 10 {
			b.start(t.Context(), s, ends)
		}
		closed := make(chan struct{})
		go func() { defer close(closed); s.Close() }()
		eventually(t, "ten leases are back", func() bool {
			select {
			case <-b.slow: // of a tool that goes on
			default:
			}
			return b.store.releases() == 10
		})
		for range 10 {
			<-ends
		}
		<-closed
	})
}

func TestPanicGivesTheLeaseBack(t *testing.T) {
	b := newBench(t, inMemory, "100/min 1 concurrent", mcpdoor.Options{Charges: mcpdoor.Charges{Expensive: []string{"echo"}}})
	boom := func(context.Context, *mcp.CallToolRequest) { panic("boom") }
	b.tool.Store(&boom)
	b.server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("recovered: %v", r)
				}
			}()
			return next(ctx, method, req)
		}
	})
	s := b.connect("alice", nil)
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo"}); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Fatalf("the call ended with %v", err)
	}
	if b.store.releases() != 1 {
		t.Errorf("%d leases are back", b.store.releases())
	}
	b.tool.Store(nil)
	if res := call(t, s, "echo"); res.IsError {
		t.Error(text(res))
	}
}

// A call that takes minutes keeps its lease, and no longer than it takes.
func TestLeaseIsRenewedWhileTheToolRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, inMemory, "100/hour 1 concurrent", mcpdoor.Options{Charges: slowIsExpensive})
		b.store.set(func(s *store) { s.at = 0 }) // the clock of the bubble
		s, ends := b.connect("alice", nil), make(chan error, 1)
		b.start(t.Context(), s, ends)
		for range 10 {
			time.Sleep(25 * time.Second)
			synctest.Wait() // a renewal of this instant is not under way any more
			if res := call(t, s, "slow"); !res.IsError {
				t.Fatalf("the lease ended while the tool ran, after %d renewals", b.store.renewals())
			}
		}
		if b.store.renewals() == 0 {
			t.Error("no renewal")
		}
		<-b.slow
		if err := <-ends; err != nil {
			t.Error(err)
		}
		before := b.store.renewals()
		time.Sleep(5 * time.Minute)
		if b.store.renewals() != before || b.store.releases() != 1 {
			t.Errorf("after the end: %d renewals, %d releases", b.store.renewals()-before, b.store.releases())
		}
		s.Close()
	})
}

// A take whose answer was lost may have granted its lease.
func TestLostAnswerReleases(t *testing.T) {
	b := newBench(t, inMemory, "100/min", mcpdoor.Options{Charges: slowIsExpensive})
	s := b.connect("alice", nil)
	b.store.set(func(s *store) { s.err = errors.New("lost") })
	if res := call(t, s, "slow"); !res.IsError {
		t.Error("a call ran undecided")
	}
	if b.store.releases() != 1 {
		t.Errorf("%d releases, want 1", b.store.releases())
	}
}

// The result waits until the count is durable; the tool does not.
func TestCommitGate(t *testing.T) {
	each(t, everyMode, func(t *testing.T, m mode) {
		for _, c := range []struct {
			name     string
			err      error
			degraded bool
		}{{"kept", nil, false}, {"not durable", signpost.ErrNotDurable, true}} {
			t.Run(c.name, func(t *testing.T) {
				b := newBench(t, m, "1/min", mcpdoor.Options{})
				s := b.connect("alice", nil)
				for _, refused := range []bool{false, true} {
					p := newPromise()
					b.store.set(func(s *store) { s.commit = p.commit() })
					results := make(chan *mcp.CallToolResult, 1)
					go func() {
						res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: "echo"})
						if err != nil {
							t.Error(err)
						}
						results <- res
					}()
					if refused {
						eventually(t, "it is decided", func() bool { return b.store.takes() == 2 })
					} else {
						eventually(t, "the tool has run", func() bool { return b.runs.Load() == 1 })
					}
					select {
					case <-results:
						t.Fatal("the result left before its count was durable")
					case <-time.After(20 * time.Millisecond):
					}
					p.settle(c.err)
					res := <-results
					if res == nil {
						t.Fatal("no result")
					}
					if got := counters(t, res.Meta); res.IsError != refused || strings.Contains(got, `"degraded":true`) != c.degraded || strings.Contains(got, `"r":`) != (!c.degraded || refused) {
						t.Errorf("refused %v: %s", res.IsError, got)
					}
				}
			})
		}
	})
}

// A call that is cancelled while it is decided, or while its count is written, has no result. Its lease does not wait for either.
func TestCancelledBesideTheWork(t *testing.T) {
	for _, atTheGate := range []bool{false, true} {
		events := make(chan mcpdoor.Event, 100)
		b := newBench(t, inMemory, "10/min", mcpdoor.Options{Charges: mcpdoor.Charges{Expensive: []string{"echo"}}, Observe: func(e mcpdoor.Event) { events <- e }})
		s := b.connect("alice", nil)
		p := newPromise()
		b.store.set(func(s *store) { s.commit, s.hang = p.commit(), !atTheGate })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "echo"})
			ended <- err
		}()
		if atTheGate {
			eventually(t, "the tool has run, and the lease is back", func() bool { return b.runs.Load() == 1 && b.store.releases() == 1 })
		} else {
			eventually(t, "the take has begun", func() bool { return b.store.takes() == 1 })
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for e := range events {
			if e.Method == "tools/call" {
				if e.Outcome != httpdoor.Aborted || !errors.Is(e.Err, context.Canceled) {
					t.Errorf("observed %s: %v", e.Outcome, e.Err)
				}
				break
			}
		}
		p.settle(nil)
		if b.store.releases() != 1 || int(b.runs.Load()) != map[bool]int{true: 1}[atTheGate] {
			t.Errorf("%d releases, %d runs", b.store.releases(), b.runs.Load())
		}
	}
}
