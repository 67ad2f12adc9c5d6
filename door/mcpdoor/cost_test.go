// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"context"
	"net/http"
	"net/http/httptest"
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

// What a cheap call costs over the bare handler is six allocations: the call, the copy of the result, the map of its _meta in two, the counters, and the
// value that holds them. An encoding of the result is not among them.
func TestAllocations(t *testing.T) {
	h, req := handlerOver(t, "4294967294/hour", Charges{})
	ctx := t.Context()
	if got := testing.AllocsPerRun(1000, func() {
		if res, err := h(ctx, methodCallTool, req); err != nil || res.(*mcp.CallToolResult).IsError {
			t.Fatal(res, err)
		}
	}); got > 6 {
		t.Errorf("%v allocations, want at most 6", got)
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
