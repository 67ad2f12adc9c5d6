// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"strings"
	"testing"

	"github.com/signposthq/signpost/door/httpdoor"
)

func TestCharges(t *testing.T) {
	type work = httpdoor.Work
	named := Charges{Expensive: []string{"export"}, Costs: map[string]uint32{"export": 5, "embed": 2}, Methods: []string{"resources/read"}}
	closed := Charges{Expensive: []string{"*"}, Cheap: []string{"search"}, Costs: map[string]uint32{"*": 3, "embed": 2}}
	for _, c := range []struct {
		charges      Charges
		method, name string
		work         work
		charged      bool
	}{
		{Charges{}, "tools/call", "export", work{Cost: 1}, true},
		{Charges{}, "tools/call", "", work{Cost: 1}, true},
		{named, "tools/call", "export", work{Expensive: true, Cost: 5}, true},
		{named, "tools/call", "embed", work{Cost: 2}, true},
		{named, "tools/call", "other", work{Cost: 1}, true},
		{named, "tools/call", "EXPORT", work{Cost: 1}, true}, // names are told apart by case, as servers do
		{closed, "tools/call", "search", work{Cost: 3}, true},
		{closed, "tools/call", "embed", work{Expensive: true, Cost: 2}, true},
		{closed, "tools/call", "batch", work{Expensive: true, Cost: 3}, true},
		{closed, "tools/call", "*", work{Expensive: true, Cost: 3}, true},

		{named, "resources/read", "export", work{Cost: 1}, true},
		{named, "prompts/get", "export", work{Cost: 1}, false},
		{Charges{}, "resources/read", "", work{Cost: 1}, false},
		{Charges{}, "completion/complete", "", work{Cost: 1}, false},

		{closed, "initialize", "", work{}, false},
		{closed, "server/discover", "", work{}, false},
		{closed, "ping", "", work{}, false},
		{closed, "tools/list", "", work{}, false},
		{closed, "resources/templates/list", "", work{}, false},
		{closed, "subscriptions/listen", "", work{}, false},
		{closed, "notifications/cancelled", "", work{}, false},
		{closed, "notifications/of/whatever", "", work{}, false},
		{closed, "tasks/get", "", work{}, false},
		{closed, "", "", work{}, false}, // a response

		// Work under a name that MCP does not define.
		{closed, "export/all", "", work{Expensive: true, Cost: 3}, true},
		{closed, "exports/list", "", work{Expensive: true, Cost: 3}, true},
		{closed, "Tools/call", "search", work{Expensive: true, Cost: 3}, true},
		{closed, "tools/call ", "search", work{Expensive: true, Cost: 3}, true},
		{Charges{}, "PING", "", work{Cost: 1}, true},
	} {
		compiled, err := c.charges.compile()
		if err != nil {
			t.Fatal(err)
		}
		work, charged := compiled.of(c.method, c.name)
		if charged != c.charged || charged && work != c.work {
			t.Errorf("%+v: %q %q is charged %v %+v, want %v %+v", c.charges, c.method, c.name, charged, work, c.charged, c.work)
		}
	}
}

func TestChargesListEveryFault(t *testing.T) {
	for _, c := range []struct {
		charges Charges
		want    []string
	}{
		{
			Charges{Expensive: []string{"a", ""}, Cheap: []string{"a"}, Costs: map[string]uint32{"b": 0}, Methods: []string{"ping"}},
			[]string{"empty name", `"*" is not among the expensive ones`, `cost of tool "b" is 0`, `tool "a" is both`, `method "ping" is none`},
		},
		{Charges{Expensive: []string{"*"}, Cheap: []string{"*"}}, []string{`"*" is among the cheap tools`}},
	} {
		_, err := c.charges.compile()
		if err == nil {
			t.Fatalf("%+v has no fault", c.charges)
		}
		if lines := strings.Split(err.Error(), "\n"); len(lines) != len(c.want) {
			t.Errorf("%d faults, want %d:\n%v", len(lines), len(c.want), err)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in:\n%v", want, err)
			}
		}
	}
}
