// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
)

func lines(h http.Header) string {
	var b strings.Builder
	h.Write(&b)
	return strings.ReplaceAll(b.String(), "\r\n", "\n")
}

func TestFields(t *testing.T) {
	admitted := judge(t, "60/min 1000/hour", 12400*time.Millisecond, state{}, signpost.Request{})
	refused := judge(t, "60/min 1000/hour", 12400*time.Millisecond, state{used: []uint32{60, 60}}, signpost.Request{})
	// The slot is free at +29.2, so who reads whole seconds has to come at +30.
	concurrent := judge(t, "60/min 10 concurrent", 5*time.Second, state{inUse: 10, freesIn: 24200 * time.Millisecond}, signpost.Request{Expensive: true})
	const policy = `RateLimit-Policy: "minute";q=60;w=60, "hour";q=1000;w=3600, "concurrency";q=10;qu="concurrent-requests"
`
	for _, c := range []struct {
		name     string
		fields   render.Fields
		decision signpost.Decision
		degraded bool
		want     string
	}{
		{"admitted", render.Fields{}, admitted, false, `RateLimit: "minute";r=59;t=48, "hour";r=999;t=3588
` + policy + `X-RateLimit-Limit: 60
X-RateLimit-Remaining: 59
X-RateLimit-Reset: 1768471260
`},
		{"admitted, degraded", render.Fields{}, admitted, true, policy},
		{"refused, degraded", render.Fields{OmitXRateLimit: true}, refused, true, `RateLimit: "minute";r=0;t=48
` + policy},
		{"the concurrency", render.Fields{OmitRateLimit: true}, concurrent, false, `X-RateLimit-Limit: 10
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1768471230
`},
		{"none", render.Fields{OmitRateLimit: true, OmitXRateLimit: true}, admitted, false, ""},
	} {
		h := http.Header{}
		c.fields.Set(h, &c.decision, c.degraded)
		if got := lines(h); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// The values share memory. A layer further out that adds to one must not change another.
func TestFieldsAreApart(t *testing.T) {
	d := judge(t, "60/min", 0, state{}, signpost.Request{})
	h := http.Header{}
	render.Fields{}.Set(h, &d, false)
	want := lines(h)
	for name := range h {
		_ = append(h[name], "added")
	}
	if got := lines(h); got != want {
		t.Errorf("after adding\n got %s\nwant %s", got, want)
	}
}

func TestClear(t *testing.T) {
	all := []string{
		"RateLimit", "Ratelimit", "ratelimit-policy", "RateLimit-Reset", "X-RateLimit-Limit", "X-Ratelimit-Remaining", "x-ratelimit-limit-minute",
		"X-Signpost-RateLimit", "X-Signpost-Ratelimit", "Ratelimits", "X-RateLimit", "X-Signpost-Link", "Retry-After",
	}
	for fields, want := range map[render.Fields][]string{
		{}:                     {"Ratelimits", "Retry-After", "X-RateLimit", "X-Signpost-Link"},
		{OmitRateLimit: true}:  {"RateLimit", "RateLimit-Reset", "Ratelimit", "Ratelimits", "Retry-After", "X-RateLimit", "X-Signpost-Link", "ratelimit-policy"},
		{OmitXRateLimit: true}: {"Ratelimits", "Retry-After", "X-RateLimit", "X-RateLimit-Limit", "X-Ratelimit-Remaining", "X-Signpost-Link", "x-ratelimit-limit-minute"},
	} {
		h := http.Header{}
		for _, name := range all {
			h[name] = []string{"x"}
		}
		fields.Clear(h)
		var got []string
		for name := range h {
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%+v leaves %q, want %q", fields, got, want)
		}
	}
}

func TestProblemHeader(t *testing.T) {
	const same = "Cache-Control: no-store\nCdn-Cache-Control: no-store\nContent-Type: application/problem+json\n"
	for _, c := range []struct {
		problem render.Problem
		want    string
	}{
		{render.Problem{Status: 429, RetryAfterSeconds: 60}, same + "Retry-After: 60\n"},
		{render.Problem{Status: 429, RetryAfterSeconds: 61}, same + "Retry-After: 61\nX-Should-Retry: false\n"},
		{render.Problem{Status: 429}, same + "X-Should-Retry: false\n"},
		{render.Problem{Status: 413}, same},
		{render.Problem{Status: 503, RetryAfterSeconds: 1}, same + "Retry-After: 1\n"},
	} {
		h := http.Header{"Retry-After": {"9"}, "Content-Length": {"9"}, "Etag": {"9"}}
		c.problem.SetHeader(h)
		if got := lines(h); got != c.want {
			t.Errorf("%+v\n got %s\nwant %s", c.problem, got, c.want)
		}
	}
}
