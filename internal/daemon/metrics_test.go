// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"fmt"
	"strings"
	"testing"
)

// series returns the names and labels of all series of the daemon's own.
func series(t *testing.T, d *running) map[string]bool {
	t.Helper()
	got := ask(t, "GET", d.Admin+"/metrics", "", bearer(adminToken)...)
	wantStatus(t, "metrics", got, 200)
	all := map[string]bool{}
	for line := range strings.Lines(got.body) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(name, "signpost_") {
			all[name] = true
		} else if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "signpost_") {
			all[name] = true
		}
	}
	return all
}

func TestMetricsHaveAFixedNumberOfSeries(t *testing.T) {
	d := start(t, "BOUNDS_LINKS=2/365d 1 concurrent", "BOUNDS_STRANGERS=2/365d")
	before := series(t, d)
	for _, name := range []string{"signpost_takes_total{", "signpost_take_duration_seconds_bucket{", "signpost_store_errors_total{", "signpost_degraded",
		"signpost_fallback_clears_total{", "signpost_leases_in_flight", "signpost_build_info{", "signpost_config_reloads_total{"} {
		found := false
		for s := range before {
			found = found || strings.HasPrefix(s, name)
		}
		if !found {
			t.Errorf("no series %s", name)
		}
	}
	for i := range 200 {
		body := fmt.Sprintf(`{"namespace":"user %d","key":"%d","bound":"1/365d","expensive":true}`, i, i)
		wantStatus(t, "take", ask(t, "POST", d.API+"/v1/take", body), 200)
		wantStatus(t, "take", ask(t, "POST", d.API+"/v1/take", body), 429)
		wantStatus(t, "unknown link", ask(t, "GET", fmt.Sprintf("%s/path-%d", d.Door, i), "", bearer(fmt.Sprintf("sp_%032d", i))...), 401)
		ask(t, "POST", d.Door+"/try", "")
		ask(t, fmt.Sprintf("METHOD%d", i), d.Door+"/read/welcome", "", bearer(d.Link)...)
	}
	after := series(t, d)
	for s := range after {
		if !before[s] {
			t.Errorf("series %s came with the requests", s)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d series, %d before", len(after), len(before))
	}
	wantStatus(t, "metrics without the token", ask(t, "GET", d.Admin+"/metrics", ""), 401)
}

// Names of tools and methods are what callers please.
func TestMetricsOfMCPHaveAFixedNumberOfSeries(t *testing.T) {
	d := start(t, "MCP="+tools(t, nil), "BOUNDS_LINKS=100/365d")
	before := series(t, d)
	for i := range 200 {
		callTool(t, d.Door, d.Link, fmt.Sprintf("tool-%d", i))
		ask(t, "POST", d.Door, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"method-%d"}`, i), append(bearer(d.Link), "Content-Type", "application/json")...)
	}
	for s := range series(t, d) {
		if !before[s] {
			t.Errorf("series %s came with the calls", s)
		}
	}
}
