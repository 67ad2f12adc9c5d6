// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost/internal/daemon"
)

// tools is a server of MCP with the tools quick and slow. slow ends when the test lets it, or when its caller goes.
func tools(t *testing.T, slow <-chan struct{}) (url string) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	done := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}
	schema := json.RawMessage(`{"type":"object"}`)
	s.AddTool(&mcp.Tool{Name: "quick", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return done, nil })
	s.AddTool(&mcp.Tool{Name: "slow", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-slow
		return done, nil
	})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return upstream(t, h.ServeHTTP)
}

// callTool calls a tool as a link, or without one.
func callTool(t *testing.T, url, link, tool string) response {
	t.Helper()
	header := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream"}
	if link != "" {
		header = append(header, bearer(link)...)
	}
	return ask(t, "POST", url, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, tool),
		header...)
}

func TestServerOfMCPBehindTheDoor(t *testing.T) {
	slow := make(chan struct{})
	up := tools(t, slow)
	d := start(t, "MCP="+up+"/inner", "MCP_PATH=/mcp", "MCP_EXPENSIVE=slow", "MCP_COSTS=quick=3", "BOUNDS_LINKS=10/365d 1 concurrent")
	url := d.Door + "/mcp"
	first := callTool(t, url, d.Link, "quick")
	wantStatus(t, "call", first, 200)
	if limits := first.header.Get("Ratelimit"); !strings.Contains(limits, ";r=7;") || !strings.Contains(first.body, `"done"`) {
		t.Errorf("RateLimit %q: %s", limits, first.body)
	}
	wantStatus(t, "call with the link in the path", callTool(t, d.Door+"/s/"+d.Link+"/mcp", "", "quick"), 200)
	ended := make(chan response)
	go func() { ended <- callTool(t, url, d.Link, "slow") }()
	eventually(t, "a lease in flight", func() bool { return metric(t, d, "signpost_leases_in_flight") == "1" })
	if second := callTool(t, url, d.Link, "slow"); second.status != 200 || !strings.Contains(second.body, `"isError":true`) || !strings.Contains(second.body, "concurrency_limit_exceeded") {
		t.Errorf("the second at once: %d %s", second.status, second.body)
	}
	slow <- struct{}{}
	wantStatus(t, "slow", <-ended, 200)
	eventually(t, "no lease in flight", func() bool { return metric(t, d, "signpost_leases_in_flight") == "0" })

	wantStatus(t, "malformed", ask(t, "POST", url, "{", append(bearer(d.Link), "Content-Type", "application/json")...), 400)
	wantStatus(t, "another path", callTool(t, d.Door+"/inner", d.Link, "quick"), 404)
	wantStatus(t, "no link", callTool(t, url, "", "quick"), 401)
	for series, want := range map[string]string{
		`signpost_takes_total{class="cheap",door="mcp",outcome="admitted"}`:     "2",
		`signpost_takes_total{class="expensive",door="mcp",outcome="admitted"}`: "1",
		`signpost_takes_total{class="expensive",door="mcp",outcome="refused"}`:  "1",
		`signpost_take_duration_seconds_count{door="mcp"}`:                      "4",
		`signpost_take_duration_seconds_count{door="http"}`:                     "0",
		`signpost_turned_away_total{door="mcp",reason="malformed"}`:             "1",
		`signpost_turned_away_total{door="mcp",reason="no_credential"}`:         "1",
		`signpost_upstream_errors_total{kind="other"}`:                          "0",
	} {
		eventually(t, series+" is "+want, func() bool { return metric(t, d, series) == want })
	}
	limits := ask(t, "GET", d.Door+"/.well-known/limits", "", bearer(d.Link)...)
	if !strings.Contains(limits.body, `"expensive tool slow"`) || !strings.Contains(limits.body, `"endpoint":"/mcp"`) || strings.Contains(limits.body, "markdownCharacters") {
		t.Errorf("limits: %s", limits.body)
	}
}

// A path that is written with escapes is the path that they stand for, at the door, in the greeting and where it may not be.
func TestPathOfMCPWithEscapes(t *testing.T) {
	d := start(t, "MCP="+tools(t, nil), "MCP_PATH=/my%20tools")
	if want := d.Door + "/my%20tools"; d.MCP != want {
		t.Errorf("clients connect to %s, want %s", d.MCP, want)
	}
	wantStatus(t, "call", callTool(t, d.MCP, d.Link, "quick"), 200)
	if _, err := daemon.Load(daemon.Sources{Env: []string{"SIGNPOST_MCP=http://127.0.0.1:1", "SIGNPOST_MCP_PATH=/%74ry"}}); err == nil || !strings.Contains(err.Error(), "the door answers /try itself") {
		t.Errorf("a path that is /try: %v", err)
	}
}

func TestCheapExceptions(t *testing.T) {
	d := start(t, "MCP="+tools(t, nil), "MCP_EXPENSIVE=*", "MCP_CHEAP=quick", "BOUNDS_LINKS=10/365d 0 concurrent")
	if got := callTool(t, d.Door, d.Link, "quick"); !strings.Contains(got.body, `"done"`) {
		t.Errorf("the exception: %s", got.body)
	}
	if got := callTool(t, d.Door, d.Link, "another"); !strings.Contains(got.body, `"isError":true`) || !strings.Contains(got.body, "Nothing was executed") {
		t.Errorf("a tool that nobody named: %s", got.body)
	}
	if got := ask(t, "GET", d.Door+"/.well-known/limits", ""); !strings.Contains(got.body, "but for these: quick.") {
		t.Errorf("limits: %s", got.body)
	}
}

// A reload changes what tools cost, and keeps what was counted.
func TestReloadOfCostsOfTools(t *testing.T) {
	up := tools(t, nil)
	file := writeFile(t, "mcp: "+up+"\nmcp_costs: [quick=6]\nbounds:\n  links: 10/365d\n")
	d := startWith(t, daemon.Sources{File: file, Env: []string{"SIGNPOST_ADMIN_TOKEN=" + adminToken, "SIGNPOST_STORE=memory",
		"SIGNPOST_DOOR=127.0.0.1:0", "SIGNPOST_API=127.0.0.1:0", "SIGNPOST_ADMIN=127.0.0.1:0"}})
	refused := func() bool { return strings.Contains(callTool(t, d.Door, d.Link, "quick").body, `"isError":true`) }
	if refused() || !refused() {
		t.Fatal("two calls of 6 do not meet a bound of 10 as they should")
	}
	if err := os.WriteFile(file, []byte("mcp: "+up+"\nmcp_costs: [quick=4]\nbounds:\n  links: 10/365d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the reload", func() bool { return strings.Contains(d.log.String(), `"msg":"reload"`) })
	if refused() || !refused() {
		t.Error("what was counted before the reload is not there, or the new cost is not")
	}
}

// What waits for a restart stays in force as a whole: the door is that of MCP, though the file has another service now, and its bound is new.
func TestReloadThatWaitsForARestart(t *testing.T) {
	up := tools(t, nil)
	file := writeFile(t, "mcp: "+up+"\nbounds:\n  links: 10/365d\n")
	d := startWith(t, daemon.Sources{File: file, Env: []string{"SIGNPOST_ADMIN_TOKEN=" + adminToken, "SIGNPOST_STORE=memory",
		"SIGNPOST_DOOR=127.0.0.1:0", "SIGNPOST_API=127.0.0.1:0", "SIGNPOST_ADMIN=127.0.0.1:0"}})
	if got := callTool(t, d.Door, d.Link, "quick"); !strings.Contains(got.body, `"done"`) {
		t.Fatalf("before the reload: %s", got.body)
	}
	if err := os.WriteFile(file, []byte("upstream: "+up+"\nbounds:\n  links: 1/365d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what waits", func() bool { return strings.Contains(d.log.String(), `"fields":["upstream","mcp"]`) })
	if got := callTool(t, d.Door, d.Link, "quick"); !strings.Contains(got.body, `"isError":true`) {
		t.Errorf("after the reload: %s; want a refusal of MCP", got.body)
	}
}

// A server that does not answer is told apart, counted and logged once.
func TestServerOfMCPThatIsAway(t *testing.T) {
	d := start(t, "MCP="+nowhere, "MCP_EXPENSIVE=*", "BOUNDS_LINKS=10/365d 1 concurrent")
	for range 3 {
		got := callTool(t, d.Door, d.Link, "quick")
		wantStatus(t, "call", got, 200)
		if !strings.Contains(got.body, `"id":1,"error":{"code":502,`) {
			t.Errorf("answered %s", got.body)
		}
		eventually(t, "no lease in flight", func() bool { return metric(t, d, "signpost_leases_in_flight") == "0" })
	}
	if n := metric(t, d, `signpost_upstream_errors_total{kind="other"}`); n != "3" {
		t.Errorf("%s errors of the upstream", n)
	}
	if n := strings.Count(d.log.String(), "upstream does not answer"); n != 1 {
		t.Errorf("%d lines about it", n)
	}
}

// What was under way before a reload is known after it: a stream that was opened before ends after a call that came later.
func TestReloadKeepsWhatIsUnderWay(t *testing.T) {
	say, running, slow := make(chan string, 1), make(chan struct{}), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(slow) })
	defer letGo()
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodPost {
			close(running)
			<-slow
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
			return
		}
		for {
			select {
			case text := <-say:
				fmt.Fprintf(w, "data: %s\n", text)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	d := start(t, "MCP="+up)
	req, err := http.NewRequest("GET", d.Door, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.Link)
	say <- "first"
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the reload", func() bool { return strings.Contains(d.log.String(), `"msg":"reload"`) })
	ended := make(chan response, 1)
	go func() { ended <- callTool(t, d.Door, d.Link, "slow") }()
	<-running
	stopped := make(chan error, 1)
	go func() { stopped <- d.stop() }()
	eventually(t, "the daemon begins to stop", func() bool { return ask(t, "GET", d.Admin+"/readyz", "").status == 503 })
	say <- "second"
	lines := bufio.NewScanner(stream.Body)
	for _, want := range []string{"data: first", "data: second"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q and %v, want %q", lines.Text(), lines.Err(), want)
		}
	}
	letGo()
	wantStatus(t, "the call", <-ended, 200)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// What is set for any upstream holds for a server of MCP, too.
func TestSettingsForAServerOfMCP(t *testing.T) {
	credentials := make(chan string, 1)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { credentials <- r.Header.Get("Authorization") })
	for _, c := range []struct {
		settings             []string
		credential, counters bool
		preflight, call      int
	}{
		{nil, false, true, 200, 200},
		{[]string{"KEEP_AUTHORIZATION=true", "PREFLIGHTS=false", "HEADERS_RATELIMIT=false", "HEADERS_X_RATELIMIT=false"}, true, false, 401, 200},
		{[]string{"SHAPE_MARKDOWN=16"}, false, false, 200, 413}, // a call has more than four bytes each
	} {
		d := start(t, append(c.settings, "MCP="+up)...)
		do := func(what, method, body string, status int, header ...string) response {
			t.Helper()
			got := ask(t, method, d.Door, body, header...)
			wantStatus(t, what, got, status)
			if status == 200 {
				if credential := <-credentials; (credential != "") != (c.credential && header[0] == "Authorization") {
					t.Errorf("%s: the server was sent a credential of %d bytes", what, len(credential))
				}
			}
			return got
		}
		do("preflight", "OPTIONS", "", c.preflight, "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
		do("stream", "GET", "", 200, bearer(d.Link)...)
		h := do("call", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"quick"}}`, c.call, append(bearer(d.Link), "Content-Type", "application/json")...).header
		if (h["Ratelimit"] != nil) != c.counters || (h["X-Ratelimit-Limit"] != nil) != c.counters {
			t.Errorf("%q: counters %v", c.settings, h)
		}
	}
}

// A client that goes away says nothing of the server.
func TestClientOfMCPGoesAway(t *testing.T) {
	running, ended := make(chan struct{}), make(chan struct{})
	up := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(running)
		<-r.Context().Done()
		close(ended)
	})
	d := start(t, "MCP="+up)
	ctx, goAway := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", d.Door, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"quick"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+d.Link)
	go func() { <-running; goAway() }()
	if _, err := http.DefaultClient.Do(r); err == nil {
		t.Error("the call was answered")
	}
	<-ended
	eventually(t, "the call is over", func() bool {
		return metric(t, d, `signpost_takes_total{class="cheap",door="mcp",outcome="admitted"}`) == "1"
	})
	if n := metric(t, d, `signpost_upstream_errors_total{kind="other"}`); n != "0" || strings.Contains(d.log.String(), "upstream does not answer") {
		t.Errorf("%s errors of the upstream", n)
	}
}
