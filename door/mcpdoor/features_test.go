// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 Sampling is deprecated, and has to go on working.

package mcpdoor_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/mcpdoor"
)

var object = json.RawMessage(`{"type":"object"}`)

// human is a client that answers what it is asked.
func human(progress *atomic.Int32) *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "sampled"}}, nil
		},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress.Add(1) },
	}
}

func askWithProgress(t *testing.T, s *mcp.ClientSession) *mcp.CallToolResult {
	t.Helper()
	p := &mcp.CallToolParams{Name: "ask"}
	p.SetProgressToken("token")
	res, err := s.CallTool(t.Context(), p)
	if err != nil || res.IsError {
		t.Fatalf("%v %+v", err, res)
	}
	if counters(t, res.Meta) == "" {
		t.Error("no counters")
	}
	return res
}

// What a tool says and asks while it runs reaches the client.
func TestAToolAsksWithinASession(t *testing.T) {
	each(t, overHTTP[:2], func(t *testing.T, m mode) {
		b := newBench(t, m, "1/min", mcpdoor.Options{Charges: mcpdoor.Charges{Expensive: []string{"ask"}}})
		b.server.AddTool(&mcp.Tool{Name: "ask", InputSchema: object}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1}); err != nil {
				return nil, err
			}
			answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "sure?"})
			if err != nil || answer.Action != "accept" {
				return nil, errors.Join(errors.New("not accepted"), err)
			}
			sample, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1, Messages: []*mcp.SamplingMessage{}})
			if err != nil {
				return nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{sample.Content}}, nil
		})
		var progress atomic.Int32
		s := b.connect("alice", human(&progress))
		if res := askWithProgress(t, s); text(res) != "sampled" {
			t.Errorf("%+v", res)
		}
		eventually(t, "the progress is told", func() bool { return progress.Load() == 1 })
	})
}

// A tool that asks by its result is called again with the answer. In revisions where the client does that by itself, it is another call, and
// charged as one; where the server does it, the client has called once.
func TestAToolAsksByItsResult(t *testing.T) {
	each(t, everyMode, func(t *testing.T, m mode) {
		b := newBench(t, m, "2/min", mcpdoor.Options{Charges: mcpdoor.Charges{Expensive: []string{"ask"}}})
		b.server.AddTool(&mcp.Tool{Name: "ask", InputSchema: object}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if len(r.Params.InputResponses) == 0 {
				// A single JSON answer has no room for progress, and the SDK says so here.
				_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1})
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{Message: "sure?"}}}, nil
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "sure"}}}, nil
		})
		var progress atomic.Int32
		s := b.connect("alice", human(&progress))
		if res := askWithProgress(t, s); text(res) != "sure" {
			t.Errorf("%+v", res)
		}
		if want := map[bool]int{true: 2, false: 1}[s.InitializeResult().ProtocolVersion >= "2026-07-28"]; b.store.takes() != want {
			t.Errorf("%d takes in %s, want %d", b.store.takes(), s.InitializeResult().ProtocolVersion, want)
		}
		if m != overHTTP[3] {
			eventually(t, "the progress is told", func() bool { return progress.Load() == 1 })
		}
	})
}

// A tool may return one result to all, which the counters of one caller must not get into. (Before 2026-07-28: from then on the SDK
// itself writes into results.)
func TestOneResultForAll(t *testing.T) {
	b := newBench(t, overHTTP[0], "100/min", mcpdoor.Options{})
	one := &mcp.CallToolResult{Content: []mcp.Content{}, Meta: mcp.Meta{"test/own": true}}
	b.server.AddTool(&mcp.Tool{Name: "one", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return one, nil })
	var wg sync.WaitGroup
	for _, word := range []string{"alice", "bob"} {
		s := b.connect(word, nil)
		for range 10 {
			wg.Go(func() {
				if res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: "one"}); err != nil || res.IsError {
					t.Errorf("%v %v", err, res)
				}
			})
		}
	}
	wg.Wait()
	if len(one.Meta) != 1 {
		t.Errorf("the tool's own result has %v", one.Meta)
	}
}

func TestLimitsTool(t *testing.T) {
	each(t, everyMode, func(t *testing.T, m mode) {
		b := newBench(t, m, "3/min 100/hour 2 concurrent", mcpdoor.Options{LimitsTool: true, Charges: mcpdoor.Charges{Expensive: []string{"*"}}})
		b.store.set(func(s *store) { s.at = t0.Add(26 * time.Second) })
		s, ends := b.connect("alice", nil), make(chan error, 1)
		list, err := s.ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 3 || list.Tools[1].Name != mcpdoor.LimitsToolName || !list.Tools[1].Annotations.ReadOnlyHint {
			t.Fatalf("%v %v", list, err)
		}
		ask := func(wantText, wantData string) {
			t.Helper()
			before := b.store.takes()
			res := call(t, s, mcpdoor.LimitsToolName)
			if res.IsError || text(res) != wantText || res.Meta[mcpdoor.MetaKey] != nil {
				t.Errorf("%q, want %q", text(res), wantText)
			}
			data, err := json.Marshal(res.StructuredContent)
			if err != nil || string(data) != wantData {
				t.Errorf("%v %s, want %s", err, data, wantData)
			}
			if b.store.takes() != before {
				t.Error("it is charged")
			}
		}
		ask("3 requests per minute: 3 left, starts again in 34 seconds.\n100 requests per hour: 100 left, starts again in 3574 seconds.\n2 expensive requests at once: 2 free now.",
			`{"policies":[{"name":"minute","q":3,"r":3,"t":34,"w":60},{"name":"hour","q":100,"r":100,"t":3574,"w":3600},{"name":"concurrency","q":2,"r":2}]}`)
		b.start(t.Context(), s, ends)
		ask("3 requests per minute: 2 left, starts again in 34 seconds.\n100 requests per hour: 99 left, starts again in 3574 seconds.\n2 expensive requests at once: 1 free now.",
			`{"policies":[{"name":"minute","q":3,"r":2,"t":34,"w":60},{"name":"hour","q":100,"r":99,"t":3574,"w":3600},{"name":"concurrency","q":2,"r":1}]}`)
		call(t, s, "echo")
		call(t, s, "echo")
		ask("3 requests per minute: 0 left, starts again in 34 seconds.\n100 requests per hour: 97 left, starts again in 3574 seconds.\n2 expensive requests at once: 1 free now.",
			`{"policies":[{"name":"minute","q":3,"r":0,"t":34,"w":60},{"name":"hour","q":100,"r":97,"t":3574,"w":3600},{"name":"concurrency","q":2,"r":1}]}`)
		<-b.slow
		if err := <-ends; err != nil {
			t.Error(err)
		}
		b.store.set(func(s *store) { s.degraded, s.at = true, s.at.Add(time.Minute) })
		ask("3 requests per minute.\n100 requests per hour.\n2 expensive requests at once.\nWhat is left is not known for the moment; the limits hold.",
			`{"degraded":true,"policies":[{"name":"minute","q":3,"w":60},{"name":"hour","q":100,"w":3600},{"name":"concurrency","q":2}]}`)
		b.store.set(func(s *store) { s.err = errors.New("gone") })
		if res := call(t, s, mcpdoor.LimitsToolName); !res.IsError || !strings.Contains(text(res), "cannot be told now") {
			t.Errorf("%s", text(res))
		}
	})
}

// Where the door has not added it, a tool of that name is like any other.
func TestLimitsToolOfTheServer(t *testing.T) {
	b := newBench(t, inMemory, "1/min", mcpdoor.Options{})
	b.server.AddTool(&mcp.Tool{Name: mcpdoor.LimitsToolName, InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
	s := b.connect("alice", nil)
	call(t, s, mcpdoor.LimitsToolName)
	if res := call(t, s, mcpdoor.LimitsToolName); !res.IsError {
		t.Error("it is free")
	}
}

func TestInstructions(t *testing.T) {
	const want = "Rate limit for each caller: 600 requests per minute and 36000 requests per hour; 10 expensive requests at once. A refused call was not executed, and says how long to wait."
	if got := mcpdoor.Instructions(signpost.DefaultBound(), false); got != want {
		t.Errorf("%s", got)
	}
	if got := mcpdoor.Instructions(signpost.DefaultBound(), true); got != want+" The tool limits is free, and tells what remains." {
		t.Errorf("%s", got)
	}
}
