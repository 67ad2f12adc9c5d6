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
//
// The subjects listen side by side, and have turns of turnTime: two runs of one subject would differ by more than the door costs.
type MCPRun struct {
	Subjects []string
	Argument int  // bytes
	Stream   bool // the answers are event streams, else JSON
	Raw      bool // the SDK hands the tool its argument unread, else decoded and checked, as its documentation has it
	Callers  int
	For      time.Duration // each subject, after a warm-up of a quarter of it
}

const turnTime = 50 * time.Millisecond

// MCPFigures is what a run found of a subject. Everything that runs in the process counts; the callers allocate nothing.
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

// Do measures. The figures are in the order of the subjects.
func (r MCPRun) Do() ([]MCPFigures, error) { return withinOneHour(r.once) }

func (r MCPRun) once() ([]MCPFigures, error) {
	served := make([]*mcpServed, len(r.Subjects))
	for i, subject := range r.Subjects {
		s, err := r.serve(subject)
		if err != nil {
			return nil, err
		}
		defer s.close()
		served[i] = s
		for _, l := range s.links.all {
			c, err := dialMCP(s.addr, l.Reveal(), r.Argument)
			if err != nil {
				return nil, err
			}
			defer c.conn.Close()
			s.clients = append(s.clients, c)
		}
		if err := s.turn(r.For / 4); err != nil {
			return nil, err
		}
		s.warm, s.spent = s.spent, mcpSpent{}
	}
	runtime.GC()
	for n := range max(1, int(r.For/turnTime)) {
		for i := range served {
			if err := served[(n+i)%len(served)].turn(min(r.For, turnTime)); err != nil { // not always after the same one
				return nil, err
			}
		}
	}
	found := make([]MCPFigures, len(served))
	for i, s := range served {
		var err error
		if found[i], err = s.figures(r.Subjects[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// mcpSpent is what a subject has done in its turns so far.
type mcpSpent struct {
	ops, wrong    int
	time          time.Duration
	bytes, allocs uint64
}

// turn lets the subject's callers call for a while.
func (s *mcpServed) turn(d time.Duration) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	ops, wrong, err := callAll(s.clients, d)
	s.spent.time += time.Since(begin)
	runtime.ReadMemStats(&after)
	s.spent.ops += ops
	s.spent.wrong += wrong
	s.spent.bytes += after.TotalAlloc - before.TotalAlloc
	s.spent.allocs += after.Mallocs - before.Mallocs
	return err
}

// figures sums up, and looks at what was charged.
func (s *mcpServed) figures(subject string) (MCPFigures, error) {
	charged, err := s.links.charged(s.limiter)
	if err != nil {
		return MCPFigures{}, err
	}
	want := s.warm.ops + s.spent.ops
	if subject == BareSDK || subject == PlainProxy {
		want = 0
	}
	ops := float64(s.spent.ops)
	return MCPFigures{
		Ops:       s.spent.ops,
		PerSecond: ops / s.spent.time.Seconds(),
		Ns:        float64(s.spent.time.Nanoseconds()) / ops,
		Bytes:     float64(s.spent.bytes) / ops,
		Allocs:    float64(s.spent.allocs) / ops,
		Wrong:     s.warm.wrong + s.spent.wrong + max(charged-want, want-charged),
	}, nil
}

// callAll lets each caller call until the time is over, at least five times.
func callAll(clients []*mcpClient, d time.Duration) (ops, wrong int, _ error) {
	var (
		mu    sync.Mutex
		errs  []error
		wg    sync.WaitGroup
		begin = time.Now()
	)
	for _, c := range clients {
		wg.Go(func() {
			calls, failed := 0, 0
			var err error
			for err == nil && (calls < 5 || time.Since(begin) < d) {
				var right bool
				if right, err = c.call(); !right {
					failed++
				}
				calls++
			}
			mu.Lock()
			defer mu.Unlock()
			ops += calls
			wrong += failed
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return ops, wrong, errors.Join(errs...)
}

// mcpServed is a subject that listens.
type mcpServed struct {
	addr        string
	limiter     *signpost.Limiter
	links       *benchLinks
	close       func()
	clients     []*mcpClient
	warm, spent mcpSpent
}

// serve starts the subject: a server of the SDK, with what the subject has around it or before it.
func (r MCPRun) serve(subject string) (*mcpServed, error) {
	links, err := newLinks(r.Callers, admitLimit)
	if err != nil {
		return nil, err
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
	switch subject {
	case MCPMiddlewareExpensive, MCPProxyExpensive:
		charges.Expensive = []string{mcpTool}
	}

	switch subject {
	case MCPMiddleware, MCPMiddlewareExpensive:
		door, err := mcpdoor.New(limiter, mcpdoor.Options{Identify: mcpdoor.Links(links.registry, links.bound), Charges: charges})
		if err != nil {
			return nil, fmt.Errorf("make door: %w", err)
		}
		door.AddTo(server)
		handler = door.Wrap(handler)
	}
	addr, end, err := listen(handler)
	if err != nil {
		return nil, err
	}
	s := &mcpServed{addr: addr, limiter: limiter, links: links, close: end}

	upstream := &url.URL{Scheme: "http", Host: addr, Path: mcpPath}
	transport := &http.Transport{MaxIdleConnsPerHost: r.Callers}
	switch subject {
	case BareSDK, MCPMiddleware, MCPMiddlewareExpensive:
		return s, nil
	case PlainProxy:
		handler = plainProxy(upstream, transport)
	case MCPProxy, MCPProxyExpensive:
		handler, err = mcpdoor.NewProxy(limiter, mcpdoor.ProxyOptions{
			Identify: httpdoor.Links(links.registry, links.bound), Upstream: upstream, Transport: transport, Charges: charges, MaxBody: 4 << 20,
		})
	default:
		err = fmt.Errorf("find MCP subject: there is none called %q", subject)
	}
	if err != nil {
		end()
		return nil, err
	}
	front, endFront, err := listen(handler)
	if err != nil {
		end()
		return nil, err
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
