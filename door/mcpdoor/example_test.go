// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/memory"
)

type input struct {
	Text string `json:"text"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
}

// A server over HTTP whose callers have links. A program with a disk would keep the links and the counts there.
func Example() {
	bound := signpost.MustParseBound("1/366d 1 concurrent")
	links := memory.NewLinks()
	mine := link.Mint()
	if err := links.Add(context.Background(), link.NewRecord(mine, link.Owner, "example", time.Now())); err != nil {
		log.Fatal(err)
	}

	limiter := signpost.New(memory.New(memory.Options{}), signpost.Options{})
	door, err := mcpdoor.New(limiter, mcpdoor.Options{
		Identify:   mcpdoor.Links(links, bound),
		Charges:    mcpdoor.Charges{Expensive: []string{"render"}, Costs: map[string]uint32{"render": 10}},
		LimitsTool: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1"}, &mcp.ServerOptions{Instructions: mcpdoor.Instructions(bound, true)})
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, echo)
	door.AddTo(server)
	handler := door.Wrap(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))

	for _, credential := range []string{mine.Reveal(), mine.Reveal(), link.Mint().Reveal()} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+credential)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.Contains(w.Body.String(), `"text":"hello"`), strings.Contains(w.Body.String(), "Nothing was executed."))
	}
	// Output:
	// 200 true false
	// 200 false true
	// 401 false false
}

// A server on stdio, or on any other transport without HTTP, has one caller.
func ExampleFixed() {
	limiter := signpost.New(memory.New(memory.Options{}), signpost.Options{})
	door, err := mcpdoor.New(limiter, mcpdoor.Options{
		Identify: mcpdoor.Fixed(httpdoor.Caller{Key: signpost.KeyOf("stdio", ""), Bound: signpost.MustParseBound("0/day")}),
	})
	if err != nil {
		log.Fatal(err)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, echo)
	door.AddTo(server)

	// The example's client is in the same process; a real server would run on &mcp.StdioTransport{}.
	ctx := context.Background()
	here, there := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, here, nil); err != nil {
		log.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1"}, nil).Connect(ctx, there, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: input{Text: "hello"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	// Output: Rate limit exceeded (0 requests per day for this link). Nothing was executed. Do not call the tool again: waiting does not help.
}

// A proxy in front of a server that knows nothing of limits, in any language. The server never sees the call that is refused.
func ExampleNewProxy() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println("the server is called")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}`)
	}))
	defer upstream.Close()
	server, err := url.Parse(upstream.URL + "/mcp")
	if err != nil {
		log.Fatal(err)
	}
	caller := httpdoor.Caller{Key: signpost.KeyOf("link", "ci"), Bound: signpost.MustParseBound("1/366d")}
	proxy, err := mcpdoor.NewProxy(signpost.New(memory.New(memory.Options{}), signpost.Options{}), mcpdoor.ProxyOptions{
		Identify: func(*http.Request) (httpdoor.Caller, error) { return caller, nil }, // or httpdoor.Links
		Upstream: server,
	})
	if err != nil {
		log.Fatal(err)
	}

	for range 2 {
		r := httptest.NewRequest("POST", "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		proxy.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.Contains(w.Body.String(), `"text":"hello"`), strings.Contains(w.Body.String(), "Nothing was executed."))
	}
	// Output:
	// the server is called
	// 200 true false
	// 200 false true
}

// Instructions go to every client, before it calls anything.
func ExampleInstructions() {
	fmt.Println(mcpdoor.Instructions(signpost.MustParseBound("60/min 1000/hour 5 concurrent"), false))
	// Output: Rate limit for each caller: 60 requests per minute and 1000 requests per hour; 5 expensive requests at once. A refused call was not executed, and says how long to wait.
}
