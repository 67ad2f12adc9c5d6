// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
)

// t0 is the start of a minute and of an hour.
var t0 = signpost.InstantOf(time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC))

// state is what is stored of a key: the counts of the open windows, in the bound's order, and the leases.
type state struct {
	used    []uint32
	starts  []signpost.Instant // nil: those of the open windows
	inUse   uint32
	freesIn time.Duration
}

// judge is the decision about a request after this much of t0's windows has passed.
func judge(t *testing.T, bound string, after time.Duration, s state, q signpost.Request) signpost.Decision {
	t.Helper()
	q.Key, q.Bound, q.LeaseID = signpost.KeyOf("test", "key"), signpost.MustParseBound(bound), signpost.LeaseID{1}
	raw := signpost.Raw{Now: t0.Add(after), InUse: s.inUse, FreesAt: t0.Add(after + s.freesIn)}
	for i, w := range q.Bound.Windows() {
		if i < len(s.used) {
			length := signpost.Instant(w.Len.Milliseconds())
			start := raw.Now - raw.Now%length
			if s.starts != nil {
				start = s.starts[i]
			}
			raw.Windows[i] = signpost.RawWindow{Start: start, Used: s.used[i]}
		}
	}
	return signpost.Judge(&raw, &q)
}

func TestValues(t *testing.T) {
	const (
		minuteHour = "60/min 1000/hour 10 concurrent"
		policy     = `"minute";q=60;w=60, "hour";q=1000;w=3600, "concurrency";q=10;qu="concurrent-requests"`
	)
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for _, c := range []struct {
		name     string
		bound    string
		after    time.Duration
		state    state
		request  signpost.Request
		policy   string
		limits   string
		tightest render.Counter
		violated []string
	}{
		{
			name: "first of a fresh key", bound: minuteHour, after: seconds(12.4),
			policy: policy, limits: `"minute";r=59;t=48, "hour";r=999;t=3588`,
			tightest: render.Counter{Name: "minute", Limit: 60, Remaining: 59, Reset: t0.Add(seconds(60))},
		},
		{
			name: "the hour is the tightest", bound: minuteHour, after: seconds(12.4), state: state{used: []uint32{3, 990}},
			policy: policy, limits: `"minute";r=56;t=48, "hour";r=9;t=3588`,
			tightest: render.Counter{Name: "hour", Limit: 1000, Remaining: 9, Reset: t0.Add(seconds(3600))},
		},
		{
			name: "equals: the longer", bound: minuteHour, state: state{used: []uint32{0, 940}},
			policy: policy, limits: `"minute";r=59;t=60, "hour";r=59;t=3600`,
			tightest: render.Counter{Name: "hour", Limit: 1000, Remaining: 59, Reset: t0.Add(seconds(3600))},
		},
		{
			name: "expensive", bound: minuteHour, state: state{used: []uint32{0, 0}, inUse: 3}, request: signpost.Request{Expensive: true},
			policy: policy, limits: `"minute";r=59;t=60, "hour";r=999;t=3600, "concurrency";r=6`,
			tightest: render.Counter{Name: "minute", Limit: 60, Remaining: 59, Reset: t0.Add(seconds(60))},
		},
		{
			name: "the minute refuses", bound: minuteHour, after: seconds(12.4), state: state{used: []uint32{60, 200}},
			policy: policy, limits: `"minute";r=0;t=48`,
			tightest: render.Counter{Name: "minute", Limit: 60, Reset: t0.Add(seconds(60))}, violated: []string{"minute"},
		},
		{
			name: "the last millisecond", bound: minuteHour, after: seconds(59.999), state: state{used: []uint32{60, 200}},
			policy: policy, limits: `"minute";r=0;t=1`,
			tightest: render.Counter{Name: "minute", Limit: 60, Reset: t0.Add(seconds(60))}, violated: []string{"minute"},
		},
		{
			name: "the hour refuses", bound: "5/min 12/hour", after: seconds(125), state: state{used: []uint32{2, 12}},
			policy:   `"minute";q=5;w=60, "hour";q=12;w=3600, "concurrency";q=10;qu="concurrent-requests"`,
			limits:   `"hour";r=0;t=3475`,
			tightest: render.Counter{Name: "hour", Limit: 12, Reset: t0.Add(seconds(3600))}, violated: []string{"hour"},
		},
		{
			name: "both refuse: the longer wait", bound: "5/min 12/hour", after: seconds(125), state: state{used: []uint32{5, 12}},
			policy:   `"minute";q=5;w=60, "hour";q=12;w=3600, "concurrency";q=10;qu="concurrent-requests"`,
			limits:   `"minute";r=0;t=55, "hour";r=0;t=3475`,
			tightest: render.Counter{Name: "hour", Limit: 12, Reset: t0.Add(seconds(3600))}, violated: []string{"minute", "hour"},
		},
		{
			name: "refused with something left", bound: "10/min", after: seconds(1), state: state{used: []uint32{7}}, request: signpost.Request{Cost: 5},
			policy:   `"minute";q=10;w=60, "concurrency";q=10;qu="concurrent-requests"`,
			limits:   `"minute";r=3;t=59`,
			tightest: render.Counter{Name: "minute", Limit: 10, Remaining: 3, Reset: t0.Add(seconds(60))}, violated: []string{"minute"},
		},
		{
			name: "the concurrency refuses", bound: minuteHour, after: seconds(5), state: state{used: []uint32{10, 10}, inUse: 10, freesIn: seconds(24.2)}, request: signpost.Request{Expensive: true},
			policy: policy, limits: `"concurrency";r=0`,
			tightest: render.Counter{Name: "concurrency", Limit: 10, Reset: t0.Add(seconds(29.2))}, violated: []string{"concurrency"},
		},
		{
			name: "concurrency and a minute that ends later", bound: minuteHour, after: seconds(5), state: state{used: []uint32{60, 60}, inUse: 12, freesIn: seconds(24.2)}, request: signpost.Request{Expensive: true},
			policy: policy, limits: `"minute";r=0;t=55, "concurrency";r=0`,
			tightest: render.Counter{Name: "minute", Limit: 60, Reset: t0.Add(seconds(60))}, violated: []string{"minute", "concurrency"},
		},
		{
			name: "concurrency and a minute that ends sooner", bound: minuteHour, after: seconds(45), state: state{used: []uint32{60, 60}, inUse: 10, freesIn: seconds(24)}, request: signpost.Request{Expensive: true},
			policy: policy, limits: `"minute";r=0;t=15, "concurrency";r=0`,
			tightest: render.Counter{Name: "concurrency", Limit: 10, Reset: t0.Add(seconds(69))}, violated: []string{"minute", "concurrency"},
		},
		{
			name: "never: the cost is above the minute's limit", bound: minuteHour, after: seconds(1), state: state{used: []uint32{1, 1}}, request: signpost.Request{Cost: 61},
			policy: policy, limits: `"minute";r=59`,
			tightest: render.Counter{Name: "minute", Limit: 60, Remaining: 59}, violated: []string{"minute"},
		},
		{
			name: "never: above the minute, and the hour is full", bound: "10/min 20/hour", state: state{used: []uint32{0, 20}}, request: signpost.Request{Cost: 11},
			policy:   `"minute";q=10;w=60, "hour";q=20;w=3600, "concurrency";q=10;qu="concurrent-requests"`,
			limits:   `"minute";r=10, "hour";r=0`,
			tightest: render.Counter{Name: "minute", Limit: 10, Remaining: 10}, violated: []string{"minute", "hour"},
		},
		{
			name: "never: a limit of 0", bound: "0/min 0 concurrent",
			policy:   `"minute";q=0;w=60, "concurrency";q=0;qu="concurrent-requests"`,
			limits:   `"minute";r=0`,
			tightest: render.Counter{Name: "minute"}, violated: []string{"minute"},
		},
		{
			name: "never: no concurrency, and the minute is full", bound: "10/min 0 concurrent", state: state{used: []uint32{10}}, request: signpost.Request{Expensive: true},
			policy:   `"minute";q=10;w=60, "concurrency";q=0;qu="concurrent-requests"`,
			limits:   `"minute";r=0, "concurrency";r=0`,
			tightest: render.Counter{Name: "concurrency"}, violated: []string{"minute", "concurrency"},
		},
		{
			name: "the clock was set back by half a minute", bound: "5/min", after: seconds(30), state: state{used: []uint32{5}, starts: []signpost.Instant{t0.Add(seconds(60))}},
			policy:   `"minute";q=5;w=60, "concurrency";q=10;qu="concurrent-requests"`,
			limits:   `"minute";r=0;t=60`,
			tightest: render.Counter{Name: "minute", Limit: 5, Reset: t0.Add(seconds(90))}, violated: []string{"minute"},
		},
		{
			name: "every name", bound: "1/sec 2/90s 3/day 4/week", state: state{used: []uint32{0, 0, 0, 0}},
			policy:   `"1s";q=1;w=1, "90s";q=2;w=90, "day";q=3;w=86400, "604800s";q=4;w=604800, "concurrency";q=10;qu="concurrent-requests"`,
			limits:   `"1s";r=0;t=1, "90s";r=1;t=90, "day";r=2;t=50400, "604800s";r=3;t=568800`,
			tightest: render.Counter{Name: "1s", Limit: 1, Reset: t0.Add(seconds(1))},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := judge(t, c.bound, c.after, c.state, c.request)
			if got := string(render.AppendPolicy(nil, &d)); got != c.policy {
				t.Errorf("policy\n got %s\nwant %s", got, c.policy)
			}
			if got := string(render.AppendLimits([]byte("kept "), &d)); got != "kept "+c.limits {
				t.Errorf("limits\n got %s\nwant kept %s", got, c.limits)
			}
			if got := render.Tightest(&d); got != c.tightest {
				t.Errorf("tightest %+v, want %+v", got, c.tightest)
			}
			if got := render.Violated(&d); !slices.Equal(got, c.violated) {
				t.Errorf("violated %q, want %q", got, c.violated)
			}
			// The draft: no reset lies after what Retry-After says.
			if !d.Admitted && !d.Never {
				for _, w := range d.Windows() {
					if reset := signpost.Seconds(render.Reset(&d, w).Sub(d.At)); w.Refused && reset > d.RetryAfterSeconds() {
						t.Errorf("%s resets in %d s, Retry-After is %d", w.Name(), reset, d.RetryAfterSeconds())
					}
				}
			}
		})
	}
}

func TestZeroDecision(t *testing.T) {
	var d signpost.Decision
	if got := render.Tightest(&d); got != (render.Counter{}) {
		t.Errorf("tightest of no decision is %+v", got)
	}
	if got := string(render.AppendLimits(nil, &d)); got != "" {
		t.Errorf("limits of no decision are %s", got)
	}
}

func TestProblems(t *testing.T) {
	const quota = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,`
	const why = `"why":"Limits keep one caller from using the capacity that all links share."`
	refused := func(terms render.Terms, kind render.Kind, d signpost.Decision) render.Problem {
		return terms.Refused(&d, kind)
	}
	for _, c := range []struct {
		name    string
		problem render.Problem
		want    string
	}{
		{
			"a window",
			refused(render.Terms{LimitsURL: "/.well-known/limits"}, render.Link, judge(t, "60/min 1000/hour", 26*time.Second, state{used: []uint32{60, 60}}, signpost.Request{})),
			quota + `"detail":"This link allows 60 requests per minute. Retry in 34 seconds.","violated-policies":["minute"],"error":"rate_limit_exceeded",` +
				`"limit":"60 requests per minute per link","limitId":"minute","limitType":"key-rate","scope":"key","retryAfterSeconds":34,"windowResetAt":"2026-01-15T10:01:00Z",` +
				why + `,"limitsUrl":"/.well-known/limits"}`,
		},
		{
			"an address, singular",
			refused(render.Terms{}, render.Address, judge(t, "1/90s", 59*time.Second, state{used: []uint32{1}}, signpost.Request{})),
			quota + `"detail":"This address allows 1 request per 90 seconds. Retry in 31 seconds.","violated-policies":["90s"],"error":"rate_limit_exceeded",` +
				`"limit":"1 request per 90 seconds per address","limitId":"90s","limitType":"ip-rate","scope":"ip","retryAfterSeconds":31,"windowResetAt":"2026-01-15T10:01:30Z",` + why + `}`,
		},
		{
			"a second",
			refused(render.Terms{}, render.Link, judge(t, "1/sec", 500*time.Millisecond, state{used: []uint32{1}}, signpost.Request{})),
			quota + `"detail":"This link allows 1 request per second. Retry in 1 second.","violated-policies":["1s"],"error":"rate_limit_exceeded",` +
				`"limit":"1 request per second per link","limitId":"1s","limitType":"key-rate","scope":"key","retryAfterSeconds":1,"windowResetAt":"2026-01-15T10:00:01Z",` + why + `}`,
		},
		{
			"the concurrency",
			refused(render.Terms{}, render.Link, judge(t, "60/min 10 concurrent", 5*time.Second, state{used: []uint32{10}, inUse: 10, freesIn: 24500 * time.Millisecond}, signpost.Request{Expensive: true})),
			quota + `"detail":"This link allows 10 expensive requests at once. Retry in 25 seconds, or as soon as one of them ends.","violated-policies":["concurrency"],"error":"concurrency_limit_exceeded",` +
				`"limit":"10 expensive requests at once per link","limitId":"concurrency","limitType":"concurrency","scope":"key","retryAfterSeconds":25,"retryExact":false,` + why + `}`,
		},
		{
			"never, by cost",
			refused(render.Terms{}, render.Link, judge(t, "60/min", 0, state{}, signpost.Request{Cost: 61})),
			quota + `"detail":"This link allows 60 requests per minute. This request costs more than that, and waiting does not help.","violated-policies":["minute"],"error":"rate_limit_exceeded",` +
				`"limit":"60 requests per minute per link","limitId":"minute","limitType":"key-rate","scope":"key",` + why + `}`,
		},
		{
			"never, by limit",
			refused(render.Terms{}, render.Link, judge(t, "0/min", 0, state{}, signpost.Request{})),
			quota + `"detail":"This link allows 0 requests per minute. Waiting does not help.","violated-policies":["minute"],"error":"rate_limit_exceeded",` +
				`"limit":"0 requests per minute per link","limitId":"minute","limitType":"key-rate","scope":"key",` + why + `}`,
		},
		{
			"too large",
			render.Terms{Docs: "https://example.com/docs"}.TooLarge(1048576),
			`{"type":"https://example.com/docs/problems#content-too-large","title":"Content Too Large","status":413,"detail":"The body of this request is larger than 1048576 bytes. It will not be accepted; send less.",` +
				`"error":"content_too_large","limit":"1048576 bytes per request body","limitType":"input-size","maxInputBytes":1048576,"why":"The size of a body is bounded so that one request cannot use the memory that all share."}`,
		},
		{
			"no credential",
			render.Terms{}.NoCredential(),
			`{"type":"about:blank","title":"Unauthorized","status":401,"detail":"This request carries no credential. Send one as: Authorization: Bearer LINK","error":"missing_credential","why":"Every request is counted for the link that it carries."}`,
		},
		{
			"unknown credential",
			render.Terms{Docs: "https://example.com"}.UnknownCredential(),
			`{"type":"https://example.com/problems#unknown-credential","title":"Unauthorized","status":401,"detail":"This credential is not known here. It may have been revoked or have expired.","error":"unknown_credential","why":"Every request is counted for the link that it carries."}`,
		},
		{
			"bad credential",
			render.Terms{}.BadCredential(),
			`{"type":"about:blank","title":"Bad Request","status":400,"detail":"The credential of this request cannot be read. Send exactly one, as: Authorization: Bearer LINK","error":"malformed_credential","why":"Every request is counted for the link that it carries."}`,
		},
		{
			"bad encoding",
			render.Terms{}.BadEncoding("gzip, deflate"),
			`{"type":"about:blank","title":"Unsupported Media Type","status":415,"detail":"The body of this request has a content encoding that is not accepted here. Send one of these, or none: gzip, deflate","error":"unsupported_content_encoding","why":"The size of a body is bounded so that one request cannot use the memory that all share."}`,
		},
		{
			"unavailable",
			render.Terms{}.Unavailable(),
			`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":"This request could not be checked. Nothing was executed. Retry in 1 second.",` +
				`"error":"temporarily_unavailable","retryAfterSeconds":1,"why":"Every request is counted for the link that it carries."}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(c.problem.JSON()); got != c.want {
				t.Errorf("body\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// A body has to fit into a header of nginx.
func TestLargestProblem(t *testing.T) {
	terms := render.Terms{LimitsURL: strings.Repeat("u", render.MaxURL), Docs: strings.Repeat("d", render.MaxURL), LinkInPath: true}
	d := judge(t, "4294967291/31622397s 4294967292/31622398s 4294967293/31622399s 4294967294/31622400s 1000 concurrent", time.Second,
		state{used: []uint32{4294967294, 4294967294, 4294967294, 4294967294}, inUse: 1000, freesIn: time.Second}, signpost.Request{Expensive: true})
	for _, p := range []render.Problem{terms.Refused(&d, render.Address), terms.TooLarge(1 << 62), terms.NoCredential(), terms.BadCredential(), terms.UnknownCredential(), terms.Unavailable(), terms.BadEncoding("gzip, deflate")} {
		if size := len(p.JSON()); size >= 2048 {
			t.Errorf("%s: %d bytes", p.Error, size)
		}
	}
}
