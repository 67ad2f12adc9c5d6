// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/door/render"
)

func TestNewListsEveryFault(t *testing.T) {
	_, err := mcpdoor.New(nil, mcpdoor.Options{Realm: `"`, Charges: mcpdoor.Charges{Methods: []string{"ping"}}, Terms: render.Terms{Docs: strings.Repeat("d", 501)}})
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{"no limiter", "no Identify", "realm", "longer than 500 bytes", `method "ping"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

func TestLimitsToolIsFree(t *testing.T) {
	_, err := mcpdoor.New(signpost.New(newStore(), signpost.Options{}), mcpdoor.Options{
		Identify: mcpdoor.Fixed(httpdoor.Caller{}), LimitsTool: true, Charges: mcpdoor.Charges{Costs: map[string]uint32{"limits": 2}},
	})
	if err == nil || !strings.Contains(err.Error(), `"limits", which is free`) {
		t.Errorf("%v", err)
	}
}

// The model reads what happened, how long to wait and that nothing was executed; a program reads the same.
func TestRefusedCall(t *testing.T) {
	each(t, everyMode, func(t *testing.T, m mode) {
		b := newBench(t, m, "2/min 100/hour", mcpdoor.Options{})
		s := b.connect("alice", nil)
		b.store.set(func(s *store) { s.at = t0.Add(12400 * time.Millisecond) })
		for i, want := range []string{
			`{"policies":[{"name":"minute","q":2,"r":1,"t":48,"w":60},{"name":"hour","q":100,"r":99,"t":3588,"w":3600},{"name":"concurrency","q":10}]}`,
			`{"policies":[{"name":"minute","q":2,"r":0,"t":48,"w":60},{"name":"hour","q":100,"r":98,"t":3588,"w":3600},{"name":"concurrency","q":10}]}`,
		} {
			res := call(t, s, "echo")
			if got := counters(t, res.Meta); res.IsError || got != want || text(res) != "done" || res.Meta["test/own"] != true {
				t.Errorf("call %d: %q, _meta %v\nwant %s", i+1, text(res), res.Meta, want)
			}
		}
		res := call(t, s, "echo")
		const says = "Rate limit exceeded (2 requests per minute for this link). Nothing was executed. Wait 48 seconds, then call the tool again with the same arguments; do not retry sooner."
		if !res.IsError || text(res) != says {
			t.Errorf("refused with %v %q, want %q", res.IsError, text(res), says)
		}
		problem, _ := res.StructuredContent.(map[string]any)
		if problem["retryAfterSeconds"] != 48.0 || problem["error"] != "rate_limit_exceeded" {
			t.Errorf("structured content %v", res.StructuredContent)
		}
		if got, want := counters(t, res.Meta), `{"policies":[{"name":"minute","q":2,"r":0,"t":48,"w":60},{"name":"hour","q":100,"r":98,"t":3588,"w":3600},{"name":"concurrency","q":10}]}`; got != want {
			t.Errorf("counters %s\nwant %s", got, want)
		}
		if b.runs.Load() != 2 {
			t.Errorf("the tool ran %d times", b.runs.Load())
		}
		// As told, it waits, and succeeds.
		b.store.set(func(s *store) { s.at = s.at.Add(48 * time.Second) })
		if res := call(t, s, "echo"); res.IsError {
			t.Errorf("refused after the wait: %s", text(res))
		}
	})
}

func TestOtherMethodsAreRefusedWithAnError(t *testing.T) {
	each(t, everyMode, func(t *testing.T, m mode) {
		b := newBench(t, m, "3/min", mcpdoor.Options{Charges: mcpdoor.Charges{Methods: []string{"resources/read", "prompts/get", "completion/complete"}}})
		s := b.connect("alice", nil)
		b.store.set(func(s *store) { s.at = t0.Add(26 * time.Second) })
		read := func() (mcp.Meta, error) {
			res, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://a"})
			if err != nil {
				return nil, err
			}
			return res.Meta, nil
		}
		prompt := func() (mcp.Meta, error) {
			res, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "p"})
			if err != nil {
				return nil, err
			}
			return res.Meta, nil
		}
		complete := func() (mcp.Meta, error) {
			res, err := s.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "p"}, Argument: mcp.CompleteParamsArgument{Name: "x"}})
			if err != nil {
				return nil, err
			}
			return res.Meta, nil
		}
		for i, ask := range []func() (mcp.Meta, error){read, prompt, complete} {
			meta, err := ask()
			if want := fmt.Sprintf(`"q":3,"r":%d,`, 2-i); err != nil || !strings.Contains(counters(t, meta), want) {
				t.Errorf("method %d: %v %v, want %s", i, meta, err, want)
			}
		}
		for i, ask := range []func() (mcp.Meta, error){read, prompt, complete} {
			_, err := ask()
			var e *jsonrpc.Error
			if !errors.As(err, &e) || e.Code != 429 || e.Message != "Rate limit exceeded: retry after 34 seconds" {
				t.Errorf("method %d: %v", i, err)
				continue
			}
			var data struct {
				RetryAfterSeconds int
				Error             string
				Meta              mcp.Meta `json:"_meta"`
			}
			if json.Unmarshal(e.Data, &data) != nil || data.RetryAfterSeconds != 34 || data.Error != "rate_limit_exceeded" || counters(t, data.Meta) == "" {
				t.Errorf("method %d: data %s", i, e.Data)
			}
		}
	})
}

// The exact answer on the wire, in every revision.
func TestEveryRevision(t *testing.T) {
	revisions := mcp.SupportedProtocolVersions()
	if len(revisions) != 5 {
		t.Errorf("the SDK serves %q; does the door know them all?", revisions)
	}
	each(t, overHTTP[2:], func(t *testing.T, m mode) {
		for _, revision := range revisions {
			b := newBench(t, m, "1/min", mcpdoor.Options{Charges: mcpdoor.Charges{Methods: []string{"resources/read"}}})
			b.store.set(func(s *store) { s.at = t0.Add(26 * time.Second) })
			ask := func(method, params, name string) string {
				fields := []string{"Mcp-Method", method, "Mcp-Name", name}
				if revision >= "2026-07-28" {
					params = strings.TrimSuffix(params, "}") + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revision + `","io.modelcontextprotocol/clientCapabilities":{}}}`
				}
				res, got := b.post("alice", revision, `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":`+params+`}`, fields...)
				if res.StatusCode != 200 {
					t.Fatalf("%s: %d %s", revision, res.StatusCode, got)
				}
				return got
			}
			if got := ask("tools/call", `{"name":"echo","arguments":{}}`, "echo"); !strings.Contains(got, `"done"`) {
				t.Errorf("%s: %s", revision, got)
			}
			const problem = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,` +
				`"detail":"This link allows 1 request per minute. Retry in 34 seconds.","violated-policies":["minute"],"error":"rate_limit_exceeded","limit":"1 request per minute per link","limitId":"minute",` +
				`"limitType":"key-rate","scope":"key","retryAfterSeconds":34,"windowResetAt":"2026-01-15T10:01:00Z","why":"Limits keep one caller from using the capacity that all links share."}`
			const counts = `"dev.signpost/ratelimit":{"policies":[{"name":"minute","q":1,"w":60,"r":0,"t":34},{"name":"concurrency","q":10}]}`
			info := ""
			if revision >= "2026-07-28" {
				info = `,"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}`
			}
			want := `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","_meta":{` + counts + info + `},"content":[{"type":"text","text":"Rate limit exceeded (1 request per minute for this link). Nothing was executed. ` +
				`Wait 34 seconds, then call the tool again with the same arguments; do not retry sooner."}],"structuredContent":` + problem + `,"isError":true}}`
			if got := ask("tools/call", `{"name":"echo","arguments":{}}`, "echo"); got != want {
				t.Errorf("%s\n got %s\nwant %s", revision, got, want)
			}
			want = `{"jsonrpc":"2.0","id":7,"error":{"code":429,"message":"Rate limit exceeded: retry after 34 seconds","data":` + strings.TrimSuffix(problem, "}") + `,"_meta":{` + counts + `}}}}`
			if got := ask("resources/read", `{"uri":"test://a"}`, "test://a"); got != want {
				t.Errorf("%s\n got %s\nwant %s", revision, got, want)
			}
		}
	})
}

func TestEachCallOfABatchCounts(t *testing.T) {
	each(t, overHTTP[2:], func(t *testing.T, m mode) {
		b := newBench(t, m, "5/min", mcpdoor.Options{})
		var calls []string
		for i := range 6 {
			calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{}}}`, i))
		}
		calls = append(calls, `{"jsonrpc":"2.0","id":"p","method":"ping"}`)
		res, got := b.post("alice", "2025-03-26", "["+strings.Join(calls, ",")+"]")
		if res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, got)
		}
		if done, refused := strings.Count(got, `"text":"done"`), strings.Count(got, `"isError":true`); done != 5 || refused != 1 {
			t.Errorf("%d done and %d refused of 6:\n%s", done, refused, got)
		}
		if b.store.takes() != 6 || b.runs.Load() != 5 {
			t.Errorf("%d takes, %d runs", b.store.takes(), b.runs.Load())
		}
		if !strings.Contains(got, `"id":"p","result":{}`) {
			t.Errorf("the ping has no answer:\n%s", got)
		}
	})
}

// Costs and classes go by the name of the tool.
func TestChargesByTool(t *testing.T) {
	each(t, everyMode, func(t *testing.T, m mode) {
		b := newBench(t, m, "100/min 3 concurrent", mcpdoor.Options{Charges: mcpdoor.Charges{Expensive: []string{"slow"}, Costs: map[string]uint32{"echo": 7}}})
		s := b.connect("alice", nil)
		if got := counters(t, call(t, s, "echo").Meta); !strings.Contains(got, `"r":93`) {
			t.Errorf("counters %s", got)
		}
		go func() { <-b.slow }()
		if got := counters(t, call(t, s, "slow").Meta); !strings.Contains(got, `"r":92`) || !strings.Contains(got, `{"name":"concurrency","q":3,"r":2}`) {
			t.Errorf("counters %s", got)
		}
		// A tool that the server does not have is charged, too: only the server could have known.
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "none"}); err == nil {
			t.Error("an unknown tool has a result")
		}
		if got := counters(t, call(t, s, "echo").Meta); !strings.Contains(got, `"r":84`) {
			t.Errorf("counters %s", got)
		}
	})
}

func TestWhatIsFullLeavesTheSessionAlone(t *testing.T) {
	each(t, everyMode, func(t *testing.T, m mode) {
		b := newBench(t, m, "1/min", mcpdoor.Options{Charges: mcpdoor.Charges{Expensive: []string{"*"}}})
		call(t, b.connect("alice", nil), "echo")
		before := b.store.takes()
		s := b.connect("alice", nil) // the handshake, and in sessions the stream that stays open
		if _, err := s.ListTools(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if _, err := s.ListPrompts(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://a"}); err != nil {
			t.Error(err)
		}
		if !m.stateless {
			if err := s.Ping(t.Context(), nil); err != nil {
				t.Error(err)
			}
		}
		if b.store.takes() != before {
			t.Errorf("%d takes for free messages", b.store.takes()-before)
		}
		if res := call(t, s, "echo"); !res.IsError {
			t.Error("the minute is not full")
		}
		if err := s.Close(); err != nil { // a DELETE, in sessions
			t.Error(err)
		}
		if b.store.takes() != before+1 {
			t.Errorf("%d takes, want one", b.store.takes()-before)
		}
	})
}

// A method that MCP does not define is work that may be hidden.
func TestCustomMethodsAreCharged(t *testing.T) {
	type params struct{ mcp.ParamsBase }
	type result struct{ mcp.ResultBase }
	b := newBench(t, inMemory, "1/min", mcpdoor.Options{})
	if err := mcp.AddReceivingCustomMethod(b.server, "test/export", func(context.Context, *mcp.ServerSession, *params) (*result, error) {
		b.runs.Add(1)
		return &result{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	if err := mcp.AddSendingCustomMethod[*params, *result](client, "test/export"); err != nil {
		t.Fatal(err)
	}
	mine, its := mcp.NewInMemoryTransports()
	if _, err := b.server.Connect(t.Context(), its, nil); err != nil {
		t.Fatal(err)
	}
	s, err := client.Connect(t.Context(), mine, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := mcp.CallCustomMethod[*params, *result](t.Context(), s, "test/export", &params{}); err != nil {
		t.Fatal(err)
	}
	_, err = mcp.CallCustomMethod[*params, *result](t.Context(), s, "test/export", &params{})
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != 429 || b.runs.Load() != 1 {
		t.Errorf("%v, after %d runs", err, b.runs.Load())
	}
}

func TestFloodsOfFreeMessages(t *testing.T) {
	b := newBench(t, inMemory, "5/min", mcpdoor.Options{Guard: signpost.MustParseBound("20/366d")})
	s := b.connect("alice", nil)
	var refused *jsonrpc.Error
	for range 30 {
		if _, err := s.ListTools(t.Context(), nil); err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
	}
	if refused == nil || refused.Code != 429 || !strings.Contains(string(refused.Data), "free messages per 31622400 seconds") {
		t.Fatalf("the flood ended with %v", refused)
	}
	// A notification is dropped, and nobody is harmed.
	if err := s.NotifyProgress(t.Context(), &mcp.ProgressNotificationParams{ProgressToken: "a"}); err != nil {
		t.Error(err)
	}
	if res := call(t, s, "echo"); res.IsError {
		t.Errorf("calls are refused as well: %s", text(res))
	}
	if b.store.takes() != 1 {
		t.Errorf("the flood cost the store %d takes", b.store.takes()-1)
	}
}

func TestToolSeesItsDecision(t *testing.T) {
	b := newBench(t, overHTTP[0], "5/min", mcpdoor.Options{})
	var decision *signpost.Decision
	var caller httpdoor.Caller
	see := func(ctx context.Context, _ *mcp.CallToolRequest) {
		decision, _ = mcpdoor.FromContext(ctx)
		caller, _ = mcpdoor.CallerFromContext(ctx)
	}
	b.tool.Store(&see)
	call(t, b.connect("alice", nil), "echo")
	if decision == nil || decision.Windows()[0].Remaining() != 4 || caller.Name != "alice" {
		t.Errorf("the tool sees %v of %q", decision, caller.Name)
	}
	if _, ok := mcpdoor.FromContext(t.Context()); ok {
		t.Error("there is a decision where no door was")
	}
}
