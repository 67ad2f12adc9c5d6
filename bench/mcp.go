// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/store/memory"
)

// The subjects of the measurement of the MCP door.
const (
	BareSDK                = "bare SDK"
	MCPMiddleware          = "middleware"
	MCPMiddlewareExpensive = "middleware, expensive"
	PlainProxy             = "plain reverse proxy"
	MCPProxy               = "proxy"
	MCPProxyExpensive      = "proxy, expensive"
)

// MCPPackage is the SDK's module.
const MCPPackage = "github.com/modelcontextprotocol/go-sdk"

// MCPSubjects returns them. Those with a middleware come after the bare SDK, those with a proxy after the plain one.
func MCPSubjects() []string {
	return []string{BareSDK, MCPMiddleware, MCPMiddlewareExpensive, PlainProxy, MCPProxy, MCPProxyExpensive}
}

// MCPRun is one measurement of the MCP door over memory: callers that each have a session and a connection over the loopback interface,
// and call a tool again when they have their answer. The tool says how long its argument is.
type MCPRun struct {
	Subject  string
	Argument int  // bytes
	Stream   bool // the answers are event streams, else JSON
	Raw      bool // the SDK hands the tool its argument unread, else decoded and checked, as its documentation has it
	Callers  int
	For      time.Duration // after a warm-up of a quarter of it
}

// MCPFigures is what a run found. Everything that runs in the process counts; the callers allocate nothing.
type MCPFigures struct {
	Ops       int
	PerSecond float64
	Ns        float64 // wall time per call, over all callers
	Bytes     float64 // of the heap allocated per call
	Allocs    float64 // heap allocations per call
	Wrong     int     // answers that are not the tool's, and calls that were charged wrongly
}

const (
	mcpPath = "/mcp"
	mcpTool = "length"
)

// Do measures.
func (r MCPRun) Do() (MCPFigures, error) { return withinOneHour(r.once) }

func (r MCPRun) once() (f MCPFigures, err error) {
	s, err := r.serve()
	if err != nil {
		return f, err
	}
	defer s.close()
	clients := make([]*mcpClient, r.Callers)
	for i, l := range s.links.all {
		if clients[i], err = dialMCP(s.addr, l.Reveal(), r.Argument); err != nil {
			return f, err
		}
		defer clients[i].conn.Close()
	}
	first, err := callAll(clients, r.For/4)
	if err != nil {
		return f, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if f, err = callAll(clients, r.For); err != nil {
		return f, err
	}
	runtime.ReadMemStats(&after)
	f.Bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(f.Ops)
	f.Allocs = float64(after.Mallocs-before.Mallocs) / float64(f.Ops)

	charged, err := s.links.charged(s.limiter)
	if err != nil {
		return f, err
	}
	want := first.Ops + f.Ops
	if r.Subject == BareSDK || r.Subject == PlainProxy {
		want = 0
	}
	f.Wrong += first.Wrong + max(charged-want, want-charged)
	return f, nil
}

// callAll lets each caller call until the time is over, at least ten times.
func callAll(clients []*mcpClient, d time.Duration) (f MCPFigures, _ error) {
	var (
		mu    sync.Mutex
		errs  []error
		wg    sync.WaitGroup
		begin = time.Now()
	)
	for _, c := range clients {
		wg.Go(func() {
			ops, wrong := 0, 0
			var err error
			for err == nil && (ops < 10 || time.Since(begin) < d) {
				var right bool
				if right, err = c.call(); !right {
					wrong++
				}
				ops++
			}
			mu.Lock()
			defer mu.Unlock()
			f.Ops += ops
			f.Wrong += wrong
			errs = append(errs, err)
		})
	}
	wg.Wait()
	elapsed := time.Since(begin)
	f.PerSecond = float64(f.Ops) / elapsed.Seconds()
	f.Ns = float64(elapsed.Nanoseconds()) / float64(f.Ops)
	return f, errors.Join(errs...)
}

// mcpServed is a subject that listens.
type mcpServed struct {
	addr    string
	limiter *signpost.Limiter
	links   *benchLinks
	close   func()
}

// serve starts the subject: a server of the SDK, with what the subject has around it or before it.
func (r MCPRun) serve() (mcpServed, error) {
	links, err := newLinks(r.Callers, admitLimit)
	if err != nil {
		return mcpServed{}, err
	}
	limiter := signpost.New(memory.New(memory.Options{}), signpost.Options{})
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	if r.Raw {
		server.AddTool(&mcp.Tool{Name: mcpTool, InputSchema: map[string]any{"type": "object"}}, lengthOfRaw)
	} else {
		mcp.AddTool(server, &mcp.Tool{Name: mcpTool}, lengthOf)
	}
	handler := http.Handler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{JSONResponse: !r.Stream}))
	var charges mcpdoor.Charges
	switch r.Subject {
	case MCPMiddlewareExpensive, MCPProxyExpensive:
		charges.Expensive = []string{mcpTool}
	}

	switch r.Subject {
	case MCPMiddleware, MCPMiddlewareExpensive:
		door, err := mcpdoor.New(limiter, mcpdoor.Options{Identify: mcpdoor.Links(links.registry, links.bound), Charges: charges})
		if err != nil {
			return mcpServed{}, fmt.Errorf("make door: %w", err)
		}
		door.AddTo(server)
		handler = door.Wrap(handler)
	}
	addr, end, err := listen(handler)
	if err != nil {
		return mcpServed{}, err
	}
	s := mcpServed{addr, limiter, links, end}

	upstream := &url.URL{Scheme: "http", Host: addr, Path: mcpPath}
	transport := &http.Transport{MaxIdleConnsPerHost: r.Callers}
	switch r.Subject {
	case BareSDK, MCPMiddleware, MCPMiddlewareExpensive:
		return s, nil
	case PlainProxy:
		handler = plainProxy(upstream, transport)
	case MCPProxy, MCPProxyExpensive:
		handler, err = mcpdoor.NewProxy(limiter, mcpdoor.ProxyOptions{
			Identify: httpdoor.Links(links.registry, links.bound), Upstream: upstream, Transport: transport, Charges: charges, MaxBody: 4 << 20,
		})
	default:
		err = fmt.Errorf("find MCP subject: there is none called %q", r.Subject)
	}
	if err != nil {
		end()
		return mcpServed{}, err
	}
	front, endFront, err := listen(handler)
	if err != nil {
		end()
		return mcpServed{}, err
	}
	s.addr = front
	s.close = func() { endFront(); transport.CloseIdleConnections(); end() }
	return s, nil
}

// plainProxy returns a proxy of the standard library that streams what comes back.
func plainProxy(upstream *url.URL, transport http.RoundTripper) http.Handler {
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
		p.Out.URL.Scheme, p.Out.URL.Host = upstream.Scheme, upstream.Host
		p.SetXForwarded()
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else the server closes the request's body as the answer begins, and if the transport has not yet looked for its end, it breaks off.
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1 can
		proxy.ServeHTTP(w, r)
	})
}

type mcpArgument struct {
	Text string `json:"text"`
}

// lengthOf is the tool. It does nothing else, so that the way of a call is what is measured.
func lengthOf(_ context.Context, _ *mcp.CallToolRequest, a mcpArgument) (*mcp.CallToolResult, any, error) {
	return length(len(a.Text)), nil, nil
}

// lengthOfRaw is the same tool for those who decode by themselves.
func lengthOfRaw(_ context.Context, call *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return length(len(call.Params.Arguments) - len(`{"text":""}`)), nil
}

func length(n int) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strconv.Itoa(n)}}}
}

// listen serves a handler on the loopback interface until end is called.
func listen(handler http.Handler) (addr string, end func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen on loopback: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
	go server.Serve(listener)
	return listener.Addr().String(), func() { server.Close() }, nil
}
