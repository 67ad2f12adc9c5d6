// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestTryDoor(t *testing.T) {
	d := start(t, "BOUNDS_STRANGERS=3/365d", "TRUSTED_PROXIES=127.0.0.1")
	const stranger = "203.0.113.7"
	for i := range 3 {
		got := ask(t, "POST", d.Door+"/try", "", "X-Forwarded-For", stranger)
		wantStatus(t, fmt.Sprintf("try %d", i+1), got, 201)
		if bound := member(t, got.body, "bound"); bound != "60/min 1000/hour 10 concurrent" {
			t.Errorf("bound of a try link: %q", bound)
		}
		if got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("a link in a response that may be cached: %v", got.header)
		}
		policy := ask(t, "GET", d.Door+"/read/welcome", "", bearer(member(t, got.body, "link"))...)
		wantStatus(t, "read with a try link", policy, 200)
		if p := policy.header["Ratelimit-Policy"]; len(p) != 1 || !strings.HasPrefix(p[0], `"minute";q=60;w=60, "hour";q=1000;w=3600`) {
			t.Errorf("policy of a try link: %q", p)
		}
	}
	refused := ask(t, "POST", d.Door+"/try", "", "X-Forwarded-For", "198.51.100.1, "+stranger)
	wantStatus(t, "fourth try of one address, with another one made up", refused, 429)
	if member(t, refused.body, "limitType") != "ip-rate" || refused.header.Get("Retry-After") == "" || strings.Contains(refused.body, "sp_") {
		t.Errorf("refusal: %v %s", refused.header, refused.body)
	}
	eventually(t, "a line about the refusal", func() bool { return strings.Contains(d.log.String(), `"msg":"first refusal of a key"`) })
	if log := d.log.String(); strings.Contains(log, stranger) || strings.Contains(log, `"link"`) {
		t.Errorf("the log names an address, or calls it a link:\n%s", log)
	}
	wantStatus(t, "another address", ask(t, "POST", d.Door+"/try", "", "X-Forwarded-For", "203.0.113.8"), 201)
	for i := range 4 { // one IPv6 network is one caller
		want := 201
		if i == 3 {
			want = 429
		}
		wantStatus(t, "IPv6", ask(t, "POST", d.Door+"/try", "", "X-Forwarded-For", fmt.Sprintf("2001:db8::%d", i)), want)
	}
	if got := metric(t, d, `signpost_takes_total{class="cheap",door="try",outcome="refused"}`); got != "2" {
		t.Errorf("%s refusals at the try door, want 2", got)
	}
}

// Without a proxy that is trusted, X-Forwarded-For is the stranger's own word.
func TestTryDoorBelievesNobody(t *testing.T) {
	d := start(t, "BOUNDS_STRANGERS=1/365d")
	wantStatus(t, "first", ask(t, "POST", d.Door+"/try", "", "X-Forwarded-For", "203.0.113.1"), 201)
	wantStatus(t, "second", ask(t, "POST", d.Door+"/try", "", "X-Forwarded-For", "203.0.113.2"), 429)
}

func TestTryDoorIsShutInFrontOfAnUpstream(t *testing.T) {
	d := start(t, "UPSTREAM="+upstream(t, nil))
	wantStatus(t, "try", ask(t, "POST", d.Door+"/try", ""), 401) // a request like any other
	limits := ask(t, "GET", d.Door+"/.well-known/limits", "")
	if strings.Contains(limits.body, `"/try"`) {
		t.Errorf("a door that is shut is published: %s", limits.body)
	}
}
