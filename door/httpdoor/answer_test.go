// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
)

func hello(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }

// Every answer to the last byte of its header, at fixed instants.
func TestExactHeaders(t *testing.T) {
	const refusedAll = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,`
	identify := func(err error) func(*http.Request) (httpdoor.Caller, error) {
		return func(*http.Request) (httpdoor.Caller, error) { return httpdoor.Caller{}, err }
	}
	full := func(n int) func(*store) {
		return func(s *store) {
			for range n {
				if _, _, err := s.Take(context.Background(), signpost.Request{Key: testKey, Bound: signpost.MustParseBound("1000/hour")}); err != nil {
					panic(err)
				}
			}
			for range min(n, 60) {
				if _, _, err := s.Take(context.Background(), signpost.Request{Key: testKey, Bound: signpost.MustParseBound("60/min")}); err != nil {
					panic(err)
				}
			}
		}
	}
	after := func(d time.Duration) func(*store) { return func(s *store) { s.at = t0.Add(d) } }
	degraded := func(s *store) { s.degraded = true }

	for _, c := range []struct {
		name     string
		options  httpdoor.Options
		store    []func(*store)
		request  *http.Request
		handler  http.HandlerFunc
		status   int
		header   string
		body     string // a part of it
		uncalled bool
	}{
		{
			name: "admitted", store: []func(*store){after(26 * time.Second)}, status: 200,
			header: `RateLimit: "minute";r=59;t=34, "hour";r=999;t=3574
RateLimit-Policy: "minute";q=60;w=60, "hour";q=1000;w=3600, "concurrency";q=10;qu="concurrent-requests"
X-RateLimit-Limit: 60
X-RateLimit-Remaining: 59
X-RateLimit-Reset: 1768471260
`,
			body: "hello",
		},
		{
			name: "only RateLimit", options: httpdoor.Options{OmitXRateLimit: true}, status: 200,
			handler: func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-RateLimit-Limit", "theirs") },
			header: `RateLimit: "minute";r=59;t=60, "hour";r=999;t=3600
RateLimit-Policy: "minute";q=60;w=60, "hour";q=1000;w=3600, "concurrency";q=10;qu="concurrent-requests"
X-Ratelimit-Limit: theirs
`,
		},
		{
			name: "only X-RateLimit", options: httpdoor.Options{OmitRateLimit: true}, status: 200,
			handler: func(w http.ResponseWriter, r *http.Request) { w.Header().Set("RateLimit", "theirs") },
			header: `Ratelimit: theirs
X-RateLimit-Limit: 60
X-RateLimit-Remaining: 59
X-RateLimit-Reset: 1768471260
`,
		},
		{
			name: "no counters", options: httpdoor.Options{OmitRateLimit: true, OmitXRateLimit: true}, status: 200, header: "", body: "hello",
		},
		{
			name: "expensive", options: httpdoor.Options{Classify: allExpensive, OmitXRateLimit: true}, status: 200,
			header: `RateLimit: "minute";r=59;t=60, "hour";r=999;t=3600, "concurrency";r=9
RateLimit-Policy: "minute";q=60;w=60, "hour";q=1000;w=3600, "concurrency";q=10;qu="concurrent-requests"
`,
		},
		{
			name: "what a server behind it says is replaced, but not its Retry-After", status: 503,
			handler: func(w http.ResponseWriter, r *http.Request) {
				h := w.Header()
				h.Set("Retry-After", "120")
				h.Set("RateLimit", "stale")
				h["RateLimit"] = []string{"stale too"}
				h.Set("RateLimit-Reset", "stale")
				h.Set("X-RateLimit-Remaining", "stale")
				h.Set("X-RateLimit-Limit-Minute", "stale")
				h.Set("X-Signpost-RateLimit", "degraded")
				w.WriteHeader(503)
			},
			header: `RateLimit: "minute";r=59;t=60, "hour";r=999;t=3600
RateLimit-Policy: "minute";q=60;w=60, "hour";q=1000;w=3600, "concurrency";q=10;qu="concurrent-requests"
Retry-After: 120
X-RateLimit-Limit: 60
X-RateLimit-Remaining: 59
X-RateLimit-Reset: 1768471260
`,
		},
		{
			name: "others may cache it", status: 200,
			handler: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "public, max-age=300")
				w.Header().Set("X-RateLimit-Remaining", "stale")
				io.WriteString(w, "hello")
			},
			header: "Cache-Control: public, max-age=300\n", body: "hello",
		},
		{
			name: "not modified", status: 304,
			handler: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(304) },
		},
		{
			name: "redirect", status: 303,
			handler: func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Location", "/there"); w.WriteHeader(303) },
			header:  "Location: /there\n",
		},
		{
			name: "degraded", store: []func(*store){degraded}, status: 200,
			header: `RateLimit-Policy: "minute";q=60;w=60, "hour";q=1000;w=3600, "concurrency";q=10;qu="concurrent-requests"
X-Signpost-RateLimit: degraded
`,
		},
		{
			name: "degraded, and others may cache it", store: []func(*store){degraded}, status: 200,
			handler: func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Cache-Control", "public") },
			header:  "Cache-Control: no-store\nCdn-Cache-Control: no-store\nX-Signpost-RateLimit: degraded\n",
		},
		{
			name: "degraded, and has what clients need for If-Match", store: []func(*store){degraded}, status: 200,
			handler: func(w http.ResponseWriter, r *http.Request) {
				h := w.Header()
				h.Set("Cache-Control", "max-age=60")
				h.Set("Expires", "Thu, 15 Jan 2026 11:00:00 GMT")
				h.Set("Surrogate-Control", "max-age=600")
				h.Set("ETag", `"1"`)
				h.Set("Last-Modified", "Thu, 15 Jan 2026 09:00:00 GMT")
			},
			header: "Cache-Control: no-store\nCdn-Cache-Control: no-store\nEtag: \"1\"\nLast-Modified: Thu, 15 Jan 2026 09:00:00 GMT\nX-Signpost-RateLimit: degraded\n",
		},
		{
			name: "degraded, and a cache would add the fields to what it holds", store: []func(*store){degraded}, status: 304,
			handler: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(304) },
		},
		{
			name: "refused by the minute", store: []func(*store){full(60), after(26500 * time.Millisecond)}, status: 429, uncalled: true,
			header: `Cache-Control: no-store
Cdn-Cache-Control: no-store
Content-Type: application/problem+json
RateLimit: "minute";r=0;t=34
RateLimit-Policy: "minute";q=60;w=60, "hour";q=1000;w=3600, "concurrency";q=10;qu="concurrent-requests"
Retry-After: 34
X-RateLimit-Limit: 60
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1768471260
`,
			body: refusedAll + `"detail":"This link allows 60 requests per minute. Retry in 34 seconds.","violated-policies":["minute"],"error":"rate_limit_exceeded","limit":"60 requests per minute per link","limitId":"minute","limitType":"key-rate","scope":"key","retryAfterSeconds":34,"windowResetAt":"2026-01-15T10:01:00Z","why":"Limits keep one caller from using the capacity that all links share."}`,
		},
		{
			name: "refused by the hour: nobody follows so long a wait", store: []func(*store){full(1000), after(125 * time.Second)}, status: 429, uncalled: true,
			header: `Cache-Control: no-store
Cdn-Cache-Control: no-store
Content-Type: application/problem+json
RateLimit: "hour";r=0;t=3475
RateLimit-Policy: "minute";q=60;w=60, "hour";q=1000;w=3600, "concurrency";q=10;qu="concurrent-requests"
Retry-After: 3475
X-RateLimit-Limit: 1000
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1768474800
X-Should-Retry: false
`,
			body: `"retryAfterSeconds":3475,"windowResetAt":"2026-01-15T11:00:00Z"`,
		},
		{
			name: "refused in the last millisecond", options: httpdoor.Options{OmitRateLimit: true}, store: []func(*store){full(60), after(59999 * time.Millisecond)}, status: 429, uncalled: true,
			header: `Cache-Control: no-store
Cdn-Cache-Control: no-store
Content-Type: application/problem+json
Retry-After: 1
X-RateLimit-Limit: 60
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1768471260
`,
		},
		{
			name: "a wait of exactly a minute is one that clients follow", options: httpdoor.Options{OmitRateLimit: true, OmitXRateLimit: true}, store: []func(*store){full(60)}, status: 429, uncalled: true,
			header: "Cache-Control: no-store\nCdn-Cache-Control: no-store\nContent-Type: application/problem+json\nRetry-After: 60\n",
		},
		{
			name: "refused, degraded", store: []func(*store){full(60), degraded}, options: httpdoor.Options{OmitRateLimit: true}, status: 429, uncalled: true,
			header: `Cache-Control: no-store
Cdn-Cache-Control: no-store
Content-Type: application/problem+json
Retry-After: 60
X-RateLimit-Limit: 60
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1768471260
X-Signpost-RateLimit: degraded
`,
		},
		{
			name: "never", options: httpdoor.Options{Classify: func(*http.Request) httpdoor.Work { return httpdoor.Work{Cost: 61} }}, status: 429, uncalled: true,
			header: `Cache-Control: no-store
Cdn-Cache-Control: no-store
Content-Type: application/problem+json
RateLimit: "minute";r=60
RateLimit-Policy: "minute";q=60;w=60, "hour";q=1000;w=3600, "concurrency";q=10;qu="concurrent-requests"
X-RateLimit-Limit: 60
X-RateLimit-Remaining: 60
X-Should-Retry: false
`,
			body: "waiting does not help",
		},
		{
			name: "refused HEAD", store: []func(*store){full(60)}, options: httpdoor.Options{OmitRateLimit: true, OmitXRateLimit: true}, request: httptest.NewRequest("HEAD", "/", nil), status: 429, uncalled: true,
			header: "Cache-Control: no-store\nCdn-Cache-Control: no-store\nContent-Type: application/problem+json\nRetry-After: 60\n",
		},
		{
			name: "no credential", options: httpdoor.Options{Identify: identify(httpdoor.ErrNoCredential)}, status: 401, uncalled: true,
			header: "Cache-Control: no-store\nCdn-Cache-Control: no-store\nContent-Type: application/problem+json\nWww-Authenticate: Bearer realm=\"api\"\n",
			body:   `"error":"missing_credential"`,
		},
		{
			name: "unknown credential", options: httpdoor.Options{Identify: identify(fmt.Errorf("look: %w", httpdoor.ErrUnknownCredential)), Realm: "my api"}, status: 401, uncalled: true,
			header: "Cache-Control: no-store\nCdn-Cache-Control: no-store\nContent-Type: application/problem+json\nWww-Authenticate: Bearer realm=\"my api\", error=\"invalid_token\"\n",
			body:   `"error":"unknown_credential"`,
		},
		{
			name: "bad credential", options: httpdoor.Options{Identify: identify(httpdoor.ErrBadCredential)}, status: 400, uncalled: true,
			header: "Cache-Control: no-store\nCdn-Cache-Control: no-store\nContent-Type: application/problem+json\n",
			body:   `"error":"malformed_credential"`,
		},
		{
			name: "credential cannot be checked", options: httpdoor.Options{Identify: identify(httpdoor.ErrUnavailable)}, status: 503, uncalled: true,
			header: "Cache-Control: no-store\nCdn-Cache-Control: no-store\nContent-Type: application/problem+json\nRetry-After: 1\n",
			body:   `"error":"temporarily_unavailable"`,
		},
		{
			name: "Identify fails otherwise", options: httpdoor.Options{Identify: identify(errors.New("sp_secret"))}, status: 503, uncalled: true,
			header: "Cache-Control: no-store\nCdn-Cache-Control: no-store\nContent-Type: application/problem+json\nRetry-After: 1\n",
			body:   `"detail":"This request could not be checked. Nothing was executed. Retry in 1 second."`,
		},
		{
			name: "the store fails", store: []func(*store){func(s *store) { s.err = signpost.ErrClosed }}, status: 503, uncalled: true,
			header: "Cache-Control: no-store\nCdn-Cache-Control: no-store\nContent-Type: application/problem+json\nRetry-After: 1\n",
		},
		{
			name: "declared too large", options: httpdoor.Options{MaxBody: 4}, request: httptest.NewRequest("POST", "/", strings.NewReader("12345")), status: 413, uncalled: true,
			header: "Cache-Control: no-store\nCdn-Cache-Control: no-store\nContent-Type: application/problem+json\n",
			body:   `"maxInputBytes":4`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore()
			for _, f := range c.store {
				f(s)
			}
			if c.options.Identify == nil {
				c.options.Identify = caller("60/min 1000/hour 10 concurrent")
			}
			if c.request == nil {
				c.request = get()
			}
			handler := c.handler
			if handler == nil {
				handler = hello
			}
			called := false
			w := record(wrap(t, s, c.options, func(w http.ResponseWriter, r *http.Request) { called = true; handler(w, r) }), c.request)
			if w.Code != c.status {
				t.Errorf("status %d, want %d", w.Code, c.status)
			}
			header := w.Result().Header
			if c.status < 400 {
				header.Del("Content-Type") // guessed by the server
			}
			if got := lines(header); got != c.header {
				t.Errorf("header\n got %s\nwant %s", got, c.header)
			}
			if got := w.Body.String(); !strings.Contains(got, c.body) || c.request.Method == "HEAD" && got != "" || strings.Contains(got, "sp_secret") {
				t.Errorf("body\n got %s\nwant %s", got, c.body)
			}
			if called == c.uncalled {
				t.Errorf("handler called: %v", called)
			}
		})
	}
}

// Clients see the names as they are written in the documents, not as Go spells them.
func TestNamesOnTheWire(t *testing.T) {
	s := newStore()
	s.degraded = true
	server := serve(t, wrap(t, s, httpdoor.Options{Identify: caller("1/min")}, hello), false)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	all, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{render.RateLimit, render.RateLimitPolicy, render.XRateLimitLimit, render.XRateLimitRemaining, render.XRateLimitReset, render.Marker} {
		if !strings.Contains(string(all), "\r\n"+name+": ") {
			t.Errorf("no %s in\n%s", name, all)
		}
	}
}

// Layers further out may have set fields before the door refuses.
func TestRefusalInsideOtherLayers(t *testing.T) {
	door := wrap(t, newStore(), httpdoor.Options{Identify: caller("0/min"), OmitRateLimit: true}, hello)
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"ETag", "Last-Modified", "Age", "Expires", "Surrogate-Control", "Surrogate-Key", "Cache-Tag", "Edge-Cache-Tag", "Cloudflare-CDN-Cache-Control"} {
			w.Header().Set(name, "of the route")
		}
		w.Header().Set("Cache-Control", "public, max-age=300")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Expose-Headers", "Retry-After")
		w.Header().Set("Content-Length", "5")
		w.Header().Set("Retry-After", "5")
		w.Header().Set("X-RateLimit-Remaining", "5")
		w.Header().Set("X-RateLimit-Reset", "5")
		w.Header().Set("X-Signpost-RateLimit", "degraded")
		door.ServeHTTP(w, r)
	})
	want := `Access-Control-Allow-Origin: *
Access-Control-Expose-Headers: Retry-After
Cache-Control: no-store
Cdn-Cache-Control: no-store
Content-Type: application/problem+json
X-RateLimit-Limit: 0
X-RateLimit-Remaining: 0
X-Should-Retry: false
`
	if got := lines(record(outer, get()).Result().Header); got != want {
		t.Errorf("header\n got %s\nwant %s", got, want)
	}
}
