// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
)

func TestPublishedLimits(t *testing.T) {
	d := start(t, "BOUNDS_LINKS=7/min 90/90m 3 concurrent", "SHAPE_MARKDOWN=1000", "SHAPE_RELATIONS=11", "SHAPE_BLOCKS=12", "EXPENSIVE=POST /recall,/export/")
	minted := ask(t, "POST", d.Admin+"/v1/links", `{"bound":"5/day 1 concurrent"}`, bearer(adminToken)...)
	wantStatus(t, "mint", minted, 201)

	type entry struct {
		Endpoint, Method string
		Limits           []struct {
			Type, LimitID, Description                string
			MaxRequests, WindowSeconds, MaxInputBytes *int
		}
	}
	type document struct {
		Service string
		Limits  map[string]entry
		Shape   map[string]int
	}
	published := func(header ...string) (document, response) {
		got := ask(t, "GET", d.Door+"/.well-known/limits", "", header...)
		wantStatus(t, "limits", got, 200)
		var doc document
		if err := json.Unmarshal([]byte(got.body), &doc); err != nil || doc.Service == "" {
			t.Fatalf("%v: %s", err, got.body)
		}
		return doc, got
	}

	doc, got := published()
	limits := doc.Limits
	if cc := got.header.Get("Cache-Control"); !strings.Contains(cc, "public") || got.header.Get("Vary") != "Authorization" {
		t.Errorf("what everybody is told: Cache-Control %q, Vary %q", cc, got.header.Get("Vary"))
	}
	all := limits["all"].Limits
	if *all[0].MaxRequests != 7 || *all[0].WindowSeconds != 60 || *all[1].MaxRequests != 90 || *all[1].WindowSeconds != 5400 || *all[0].MaxInputBytes != 4000 {
		t.Errorf("all: %+v; want 7 a minute, 90 in 90 minutes, and four bytes for each of 1000 characters", all)
	}
	if want := map[string]int{"bodyBytes": 4000, "markdownCharacters": 1000, "relationsPerNote": 11, "blocksPerNote": 12}; !maps.Equal(doc.Shape, want) {
		t.Errorf("shape: %v, want %v", doc.Shape, want)
	}
	if e := limits["expensive POST /recall"]; e.Method != "POST" || e.Endpoint != "/recall" || *e.Limits[0].MaxRequests != 3 || e.Limits[0].Type != "concurrency" {
		t.Errorf("recall: %+v", e)
	}
	if e := limits["expensive /export/"]; e.Method != "*" || e.Endpoint != "/export/" {
		t.Errorf("export: %+v", e)
	}
	if e := limits["try"]; *e.Limits[0].MaxRequests != 60 || *e.Limits[1].MaxRequests != 1000 || e.Limits[0].Type != "ip-rate" {
		t.Errorf("try: %+v", e)
	}

	for name, e := range limits {
		for _, l := range e.Limits {
			if e.Endpoint == "" || e.Method == "" || l.Type == "" || l.LimitID == "" || l.Description == "" || l.MaxRequests == nil || l.WindowSeconds == nil {
				t.Errorf("%s lacks a member that Graceful Boundaries requires: %+v", name, l)
			}
		}
	}

	own, got := published(bearer(member(t, minted.body, "link"))...)
	if cc := got.header.Get("Cache-Control"); !strings.Contains(cc, "private") {
		t.Errorf("what one link is told: Cache-Control %q", cc)
	}
	if l := own.Limits["all"].Limits[0]; *l.MaxRequests != 5 || *l.WindowSeconds != 86400 {
		t.Errorf("a link with a bound of its own is told: %+v", own.Limits["all"])
	}
	wantStatus(t, "an unknown link", ask(t, "GET", d.Door+"/s/sp_"+strings.Repeat("x", 32)+"/.well-known/limits", ""), 401)
	if n := metric(t, d, `signpost_takes_total{class="cheap",door="http",outcome="admitted"}`); n != "0" {
		t.Errorf("asking for the limits was charged %s", n)
	}
	if l, _ := published("Authorization", ""); l.Limits["all"].Limits == nil {
		t.Error("an empty Authorization is no credential")
	}
}

// Bounds of notes say nothing of a service that may know no notes.
func TestShapeInFrontOfAService(t *testing.T) {
	up := upstream(t, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		settings []string
		want     map[string]int
	}{
		{nil, map[string]int{"bodyBytes": 1 << 20, "markdownCharacters": 262_144, "relationsPerNote": 100, "blocksPerNote": 2000}},
		{[]string{"UPSTREAM=" + up}, map[string]int{"bodyBytes": 1 << 20}},
		{[]string{"UPSTREAM=" + up, "SHAPE_BLOCKS=7"}, map[string]int{"bodyBytes": 1 << 20, "blocksPerNote": 7}},
		{[]string{"UPSTREAM=" + up, "SHAPE_MARKDOWN=10", "SHAPE_RELATIONS=3"}, map[string]int{"bodyBytes": 40, "markdownCharacters": 10, "relationsPerNote": 3}},
	} {
		var doc struct{ Shape map[string]int }
		got := ask(t, "GET", start(t, c.settings...).Door+"/.well-known/limits", "")
		if err := json.Unmarshal([]byte(got.body), &doc); err != nil || !maps.Equal(doc.Shape, c.want) {
			t.Errorf("%q: shape %v, %v, want %v", c.settings, doc.Shape, err, c.want)
		}
	}
}

// In front of a server of MCP a caller is told what counts, and as how much.
func TestPublishedCostsOfTools(t *testing.T) {
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{nil, " Of the messages that MCP defines, only these count: tools/call.\""},
		{[]string{"MCP_CHARGE=prompts/get,resources/read", "MCP_COSTS=search=5,*=2"}, " Of the messages that MCP defines, only these count: tools/call, prompts/get, resources/read." +
			" A call of the tool search counts as 5. A call of any tool that is not named here counts as 2.\""},
	} {
		got := ask(t, "GET", start(t, append(c.settings, "MCP=http://127.0.0.1:1/mcp")...).Door+"/.well-known/limits", "")
		if !strings.Contains(got.body, c.want) {
			t.Errorf("%q: %s", c.settings, got.body)
		}
	}
}
