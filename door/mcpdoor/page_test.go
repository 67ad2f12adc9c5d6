// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/door/render"
)

// shownAnswers returns the blocks of docs/mcp.md that have a name, as "text NAME" or "json NAME" after the fence.
func shownAnswers(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^```(?:text|json) (\\S+)\n(.*?)\n```$").FindAllStringSubmatch(string(page), -1) {
		if _, twice := shown[m[1]]; twice {
			t.Errorf("docs/mcp.md has two blocks %s", m[1])
		}
		shown[m[1]] = m[2]
	}
	return shown
}

// answered is a message that a door has answered.
type answered struct {
	Result *struct {
		Content []struct{ Text string }
		Meta    map[string]any `json:"_meta"`
	}
	Error *struct{ Message string }
}

// text is what a model reads of a result, or a program of an error.
func (a *answered) text() string {
	switch {
	case a.Result != nil && len(a.Result.Content) == 1:
		return a.Result.Content[0].Text
	case a.Error != nil:
		return a.Error.Message
	}
	return ""
}

// use takes from a caller's windows and slots as earlier calls have.
func (s *store) use(t *testing.T, word, bound string, q signpost.Request) {
	t.Helper()
	caller := callerOf(word, bound)
	q.Key, q.Bound, q.At = caller.Key, caller.Bound, s.at
	if d, _, err := s.Store.Take(t.Context(), q); err != nil || !d.Admitted {
		t.Fatalf("%v %v", err, d)
	}
}

// What the page shows is what the doors answer, word for word: the middleware and the proxy, but for what one of them does not do.
func TestThePageShowsWhatTheDoorsAnswer(t *testing.T) {
	const bound = "60/min 600/hour 4 concurrent" // the page's, but for a limit of 0
	at := t0.Add(26 * time.Second)               // the page's, but for two windows that are full: nine minutes later
	terms := render.Terms{LimitsURL: "/.well-known/limits", LinkInPath: true}
	charges := mcpdoor.Charges{Expensive: []string{"slow"}, Costs: map[string]uint32{"reindex": 100}, Methods: []string{"resources/read"}}
	type opener func(bound string) *bench
	middleware := func(bound string) *bench {
		return newBench(t, overHTTP[3], bound, mcpdoor.Options{Charges: charges, Terms: terms, LimitsTool: true})
	}
	proxy := func(bound string) *bench {
		return behindProxy(t, overHTTP[3], bound, mcpdoor.ProxyOptions{Charges: charges, Terms: terms})
	}
	away := func(bound string) *bench {
		up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		t.Cleanup(up.Close)
		return &bench{t: t, store: newStore(), url: startProxy(t, newStore(), up.URL, bound, mcpdoor.ProxyOptions{})}
	}
	both := []opener{middleware, proxy}
	nothing := func(*store) {}
	minutes := func(n int) func(*store) {
		return func(s *store) {
			for i := range n {
				s.at = at.Add(time.Duration(i) * time.Minute)
				s.use(t, "alice", bound, signpost.Request{Cost: 60})
			}
		}
	}
	slots := func(s *store) {
		for range 4 {
			s.use(t, "alice", bound, signpost.Request{Expensive: true, LeaseID: signpost.NewLeaseID()})
		}
	}
	gone := func(s *store) { s.err = errors.New("gone") }
	shown := shownAnswers(t)
	for _, c := range []struct {
		name  string
		bound string
		doors []opener
		begin func(*store)
		ask   string
	}{
		{"minute", bound, both, minutes(1), callMessage("7", "echo")},
		{"refused", bound, both, minutes(1), callMessage("7", "echo")},
		{"two-windows", bound, both, minutes(10), callMessage("7", "echo")},
		{"concurrency", bound, both, slots, callMessage("7", "slow")},
		{"never-by-cost", bound, both, nothing, callMessage("7", "reindex")},
		{"never-by-limit", "0/day", both, nothing, callMessage("7", "echo")},
		{"unchecked", bound, both, gone, callMessage("7", "echo")},
		{"refused-read", bound, both, minutes(1), `{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"test://a"}}`},
		{"counters", bound, []opener{middleware}, nothing, callMessage("7", "slow")},
		{"limits-tool", bound, []opener{middleware}, nothing, callMessage("7", "limits")},
		{"away", bound, []opener{away}, nothing, callMessage("7", "echo")},
	} {
		for _, door := range c.doors {
			b := door(c.bound)
			b.store.at = at
			c.begin(b.store)
			if b.slow != nil { // lets the tool end
				go func() { <-b.running; <-b.slow }()
			}
			_, answer := b.post("alice", "2025-06-18", c.ask)
			if want := shown[c.name]; !shows(t, want, answer) {
				t.Errorf("%s: docs/mcp.md shows\n%s\nand a door answers\n%s", c.name, want, answer)
			}
		}
		delete(shown, c.name)
	}
	if got := mcpdoor.Instructions(signpost.MustParseBound(bound), true); got != shown["instructions"] {
		t.Errorf("docs/mcp.md shows the instructions\n%s\nand they are\n%s", shown["instructions"], got)
	}
	delete(shown, "instructions")
	for name := range shown {
		t.Errorf("docs/mcp.md has a block %s, which is compared with nothing", name)
	}
}

// shows reports whether a block is an answer: all of it as JSON, the counters in it, or what a model or a program reads.
func shows(t *testing.T, block, answer string) bool {
	t.Helper()
	var whole, want any
	var parts answered
	if err := errors.Join(json.Unmarshal([]byte(answer), &whole), json.Unmarshal([]byte(answer), &parts)); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if json.Unmarshal([]byte(block), &want) != nil {
		return block == parts.text()
	}
	if reflect.DeepEqual(want, whole) {
		return true
	}
	return parts.Result != nil && reflect.DeepEqual(want, map[string]any{mcpdoor.MetaKey: parts.Result.Meta[mcpdoor.MetaKey]})
}

// The lines of Go on the page are those of the example.
func TestThePageShowsTheExample(t *testing.T) {
	example, err := os.ReadFile("../../examples/mcp-server/main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{"...": true}
	for line := range strings.Lines(string(example)) {
		lines[strings.TrimSpace(line)] = true
	}
	for _, block := range regexp.MustCompile("(?ms)^```go\n(.*?)\n```$").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			if !lines[strings.TrimSpace(line)] {
				t.Errorf("docs/mcp.md shows a line that examples/mcp-server has not: %s", line)
			}
		}
	}
}
