// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/store/memory"
)

func handlerOver(t testing.TB, bound string, c Charges) (mcp.MethodHandler, mcp.Request) {
	t.Helper()
	d, err := New(signpost.New(memory.New(memory.Options{}), signpost.Options{}), Options{
		Identify: Fixed(httpdoor.Caller{Key: key, Bound: signpost.MustParseBound(bound)}),
		Charges:  c,
	})
	if err != nil {
		t.Fatal(err)
	}
	res := &mcp.CallToolResult{Content: []mcp.Content{}}
	return d.middleware(func(context.Context, string, mcp.Request) (mcp.Result, error) { return res, nil }),
		&mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: "echo"}, Extra: &mcp.RequestExtra{Header: http.Header{}}}
}

// What a cheap call costs over the bare handler is five allocations: the call, the copy of the result, the map of its _meta in two, and the
// counters. An encoding of the result is not among them.
func TestAllocations(t *testing.T) {
	h, req := handlerOver(t, "4294967294/hour", Charges{})
	ctx := t.Context()
	if got := testing.AllocsPerRun(1000, func() {
		if res, err := h(ctx, methodCallTool, req); err != nil || res.(*mcp.CallToolResult).IsError {
			t.Fatal(res, err)
		}
	}); got > 5 {
		t.Errorf("%v allocations, want at most 5", got)
	}
}

// A door remembers no request that is over.
func TestNothingIsKeptOfARequest(t *testing.T) {
	d, err := New(signpost.New(memory.New(memory.Options{}), signpost.Options{}), Options{Identify: Fixed(httpdoor.Caller{Key: key, Bound: signpost.DefaultBound()})})
	if err != nil {
		t.Fatal(err)
	}
	inside := 0
	count := func() (n int) {
		d.exchanges.Range(func(any, any) bool { n++; return true })
		return n
	}
	h := d.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inside = count()
		panic(http.ErrAbortHandler)
	}))
	func() {
		defer func() { _ = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil))
	}()
	if inside != 1 || count() != 0 {
		t.Errorf("%d requests during one, %d after it", inside, count())
	}
}

// Nobody waits for an answer to a notification: one too many is dropped.
func TestNotificationTooManyIsDropped(t *testing.T) {
	d, err := New(signpost.New(memory.New(memory.Options{}), signpost.Options{}), Options{Identify: Fixed(httpdoor.Caller{Key: key}), Guard: signpost.MustParseBound("1/366d")})
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	h := d.middleware(func(context.Context, string, mcp.Request) (mcp.Result, error) { passed++; return nil, nil })
	for range 2 {
		if res, err := h(t.Context(), "notifications/progress", &mcp.ProgressNotificationServerRequest{}); res != nil || err != nil {
			t.Errorf("answered %v, %v", res, err)
		}
	}
	if passed != 1 {
		t.Errorf("%d have passed", passed)
	}
}

// A proxy knows no call that is over.
func TestNothingIsKeptOfACall(t *testing.T) {
	p, err := NewProxy(signpost.New(memory.New(memory.Options{}), signpost.Options{}), ProxyOptions{
		Identify: func(*http.Request) (httpdoor.Caller, error) {
			return httpdoor.Caller{Key: key, Bound: signpost.DefaultBound()}, nil
		},
		Upstream: &url.URL{Scheme: "http", Host: "upstream"},
		Charges:  Charges{Expensive: []string{AnyTool}},
	})
	if err != nil {
		t.Fatal(err)
	}
	inside := 0
	p.reverse.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		inside = len(p.inFlight.calls)
		return discarding{}.RoundTrip(r)
	})
	for _, session := range []string{"a", "b"} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Mcp-Session-Id", session)
		if p.ServeHTTP(httptest.NewRecorder(), r); inside != 1 || len(p.inFlight.calls) != 0 {
			t.Errorf("calls are known in %d sessions during one, and in %d after it", inside, len(p.inFlight.calls))
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What a large message costs on top of a proxy that streams it is one copy, made in steps that grow.
func TestProxyCopiesAMessageOnce(t *testing.T) {
	upstream := &url.URL{Scheme: "http", Host: "upstream", Path: "/mcp"}
	proxy, err := NewProxy(signpost.New(memory.New(memory.Options{}), signpost.Options{}), ProxyOptions{
		Identify: func(*http.Request) (httpdoor.Caller, error) {
			return httpdoor.Caller{Key: key, Bound: signpost.MustParseBound("4294967294/hour")}, nil
		},
		Upstream: upstream, Transport: discarding{}, MaxBody: 4 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	plain := &httputil.ReverseProxy{Transport: discarding{}, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream); r.SetXForwarded() }}
	for _, size := range []int{256 << 10, 1 << 20} {
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("x", size) + `"}}}`)
		cost := func(h http.Handler) int64 {
			call := func() {
				r := httptest.NewRequest("POST", "/mcp", bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != http.StatusOK {
					t.Fatalf("status %d: %s", w.Code, w.Body)
				}
			}
			call()
			const calls = 20
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range calls {
				call()
			}
			runtime.ReadMemStats(&after)
			return int64(after.TotalAlloc-before.TotalAlloc) / calls
		}
		if extra := cost(proxy) - cost(plain); extra > int64(size)*11/10+32<<10 {
			t.Errorf("a message of %d bytes costs %d bytes on top of a plain proxy", len(body), extra)
		}
	}
}

// discarding is a server that has read the whole request when it answers.
type discarding struct{}

func (discarding) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{}}`)),
	}, nil
}

func BenchmarkMiddleware(b *testing.B) {
	for _, c := range []struct {
		name, bound string
		charges     Charges
	}{
		{"cheap", "4294967294/hour", Charges{}},
		{"expensive", "4294967294/hour 1000 concurrent", Charges{Expensive: []string{"echo"}}},
		{"refused", "0/hour", Charges{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			h, req := handlerOver(b, c.bound, c.charges)
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				h(ctx, methodCallTool, req)
			}
		})
	}
}
