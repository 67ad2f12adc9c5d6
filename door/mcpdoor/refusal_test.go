// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/store/memory"
)

var (
	t0  = signpost.InstantOf(time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC))
	key = signpost.KeyOf("test", "a")
)

// decide returns the decision of the last of several equal requests at one instant.
func decide(t *testing.T, bound string, after time.Duration, times int, q signpost.Request) signpost.Decision {
	t.Helper()
	l := signpost.New(memory.New(memory.Options{}), signpost.Options{})
	q.Key, q.Bound, q.At = key, signpost.MustParseBound(bound), t0.Add(after)
	var d signpost.Decision
	for range times {
		var err error
		if d, err = l.Take(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		q.LeaseID = signpost.LeaseID{}
	}
	return d
}

func TestCounters(t *testing.T) {
	at := 12400 * time.Millisecond
	denied := signpost.Denied(&signpost.Request{Bound: signpost.DefaultBound()}, t0, time.Second)
	for _, c := range []struct {
		name     string
		d        signpost.Decision
		degraded bool
		want     string
	}{
		{"cheap", decide(t, "60/min 1000/hour", at, 2, signpost.Request{}), false,
			`{"policies":[{"name":"minute","q":60,"w":60,"r":58,"t":48},{"name":"hour","q":1000,"w":3600,"r":998,"t":3588},{"name":"concurrency","q":10}]}`},
		{"expensive", decide(t, "60/90s", at, 3, signpost.Request{Expensive: true}), false,
			`{"policies":[{"name":"90s","q":60,"w":90,"r":57,"t":78},{"name":"concurrency","q":10,"r":7}]}`},
		{"degraded", decide(t, "60/min", at, 2, signpost.Request{Expensive: true}), true,
			`{"policies":[{"name":"minute","q":60,"w":60},{"name":"concurrency","q":10}],"degraded":true}`},
		{"refused by the minute", decide(t, "2/min 1000/hour", at, 3, signpost.Request{}), false,
			`{"policies":[{"name":"minute","q":2,"w":60,"r":0,"t":48},{"name":"hour","q":1000,"w":3600,"r":998,"t":3588},{"name":"concurrency","q":10}]}`},
		{"refused by the concurrency, degraded", decide(t, "60/min 1 concurrent", at, 2, signpost.Request{Expensive: true}), true,
			`{"policies":[{"name":"minute","q":60,"w":60,"r":59,"t":48},{"name":"concurrency","q":1,"r":0}],"degraded":true}`},
		{"never", decide(t, "2/min", at, 1, signpost.Request{Cost: 3}), false,
			`{"policies":[{"name":"minute","q":2,"w":60,"r":2},{"name":"concurrency","q":10}]}`},
		{"denied", denied, true, `{"policies":[],"degraded":true}`},
	} {
		if got := string(mustMarshal(countersOf(&c.d, c.degraded))); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// The figures of one refusal are the same wherever it says them.
func TestRefusals(t *testing.T) {
	at := 26 * time.Second
	hour := 125 * time.Second
	denied := signpost.Denied(&signpost.Request{Bound: signpost.DefaultBound()}, t0, time.Second)
	for _, c := range []struct {
		name          string
		d             signpost.Decision
		code          int64
		text, message string
		wait          int64
	}{
		{"minute", decide(t, "60/min 1000/hour", at, 61, signpost.Request{}), 429,
			"Rate limit exceeded (60 requests per minute for this link). Nothing was executed. Wait 34 seconds, then call the tool again with the same arguments; do not retry sooner.",
			"Rate limit exceeded: retry after 34 seconds", 34},
		{"hour", decide(t, "12/hour", hour, 13, signpost.Request{}), 429,
			"Rate limit exceeded (12 requests per hour for this link). Nothing was executed. Wait 3475 seconds, then call the tool again with the same arguments; do not retry sooner.",
			"Rate limit exceeded: retry after 3475 seconds", 3475},
		{"a fraction of a second", decide(t, "5/min", 55200*time.Millisecond, 6, signpost.Request{}), 429,
			"Rate limit exceeded (5 requests per minute for this link). Nothing was executed. Wait 5 seconds, then call the tool again with the same arguments; do not retry sooner.",
			"Rate limit exceeded: retry after 5 seconds", 5},
		{"the last fraction of a second", decide(t, "5/min", 59999*time.Millisecond, 6, signpost.Request{}), 429,
			"Rate limit exceeded (5 requests per minute for this link). Nothing was executed. Wait 1 second, then call the tool again with the same arguments; do not retry sooner.",
			"Rate limit exceeded: retry after 1 second", 1},
		{"concurrency", decide(t, "60/min 2 concurrent", at, 3, signpost.Request{Expensive: true}), 429,
			"Concurrency limit exceeded (2 expensive requests at once for this link). Nothing was executed. Wait until one of the running calls has ended, at most 30 seconds, then call the tool again with the same arguments; do not retry while they all run.",
			"Concurrency limit exceeded: retry after 30 seconds, or as soon as one of them ends", 30},
		{"never, by limit", decide(t, "0/min", at, 1, signpost.Request{}), 429,
			"Rate limit exceeded (0 requests per minute for this link). Nothing was executed. Do not call the tool again: waiting does not help.",
			"Rate limit exceeded: do not retry", 0},
		{"never, by cost", decide(t, "60/min", at, 1, signpost.Request{Cost: 61}), 429,
			"Rate limit exceeded (60 requests per minute for this link). Nothing was executed. This call costs more than that. Do not repeat it: waiting does not help.",
			"Rate limit exceeded: do not retry", 0},
		{"denied by policy", denied, 503,
			"The rate limit of this call could not be checked. Nothing was executed. Wait 1 second, then call the tool again with the same arguments.",
			"Rate limit could not be checked: retry after 1 second", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := refused(&render.Terms{}, &c.d, c.d.Degraded, render.Link)
			if r.text != c.text {
				t.Errorf("text\n got %s\nwant %s", r.text, c.text)
			}
			if r.message != c.message || r.code() != c.code {
				t.Errorf("error %d %q, want %d %q", r.code(), r.message, c.code, c.message)
			}
			if r.problem.RetryAfterSeconds != c.wait {
				t.Errorf("the problem says %d s, want %d", r.problem.RetryAfterSeconds, c.wait)
			}
			if len(c.d.Windows()) > 0 && c.d.RetryAfterSeconds() != c.wait {
				t.Errorf("the decision says %d s, want %d", c.d.RetryAfterSeconds(), c.wait)
			}
			problem := string(r.problem.JSON())
			wantResult := `{"resultType":"complete","isError":true,"content":[{"type":"text","text":"` + c.text + `"}],"structuredContent":` + problem +
				`,"_meta":{"` + MetaKey + `":` + string(mustMarshal(countersOf(&c.d, c.d.Degraded))) + `}}`
			if got := string(r.result()); got != wantResult {
				t.Errorf("result\n got %s\nwant %s", got, wantResult)
			}
			wantError := `{"code":` + map[int64]string{429: "429", 503: "503"}[c.code] + `,"message":"` + c.message + `","data":` + strings.TrimSuffix(problem, "}") +
				`,"_meta":{"` + MetaKey + `":` + string(mustMarshal(countersOf(&c.d, c.d.Degraded))) + `}}}`
			if got := string(r.rpcError()); got != wantError {
				t.Errorf("error\n got %s\nwant %s", got, wantError)
			}
		})
	}
}

func TestUnidentified(t *testing.T) {
	for _, c := range []struct {
		err    error
		result bool
		want   string
	}{
		{httpdoor.ErrNoCredential, false, `{"code":401,"message":"This request carries no credential.`},
		{httpdoor.ErrUnknownCredential, false, `{"code":401,"message":"This credential is not known here.`},
		{httpdoor.ErrBadCredential, false, `{"code":400,"message":"The credential of this request cannot be read.`},
		{httpdoor.ErrUnavailable, true, `{"code":503,"message":"Rate limit could not be checked: retry after 1 second","data":{`},
		{errors.New("anything else"), true, `{"code":503,`},
	} {
		r := unidentified(&render.Terms{}, c.err)
		if got := string(r.rpcError()); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %s, want %s...", c.err, got, c.want)
		}
		if r.isResult("ping") || r.isResult("tools/call") != c.result {
			t.Errorf("%v: a result is %v", c.err, !c.result)
		}
		if got := string(r.result()); strings.Contains(got, "_meta") {
			t.Errorf("%v: there are no counters to tell: %s", c.err, got)
		}
	}
}

func TestGuard(t *testing.T) {
	g := newGuard(signpost.MustParseBound("3/day"))
	for i := range 3 {
		if _, ok := g.passes(key, "ping"); !ok {
			t.Fatalf("message %d does not pass", i+1)
		}
	}
	d, ok := g.passes(key, "tools/list")
	if ok {
		t.Fatal("the fourth message passes")
	}
	if _, ok := g.passes(signpost.KeyOf("test", "b"), "ping"); !ok {
		t.Error("another caller is refused")
	}
	for _, method := range []string{"notifications/cancelled", "tasks/cancel"} {
		if _, ok := g.passes(key, method); !ok {
			t.Errorf("%s does not pass", method)
		}
	}
	r := flooded(&render.Terms{}, &d, render.Link)
	if got := string(r.rpcError()); !strings.Contains(got, `"limit":"3 free messages per day per link"`) || !strings.Contains(got, `"code":429`) {
		t.Errorf("%s", got)
	}
}
