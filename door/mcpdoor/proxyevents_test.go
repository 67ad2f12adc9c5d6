// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"encoding/json"
	"slices"
	"testing"
)

// FuzzEventReader holds the reader against encoding/json, however an event is cut into lines.
func FuzzEventReader(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"id":"a\"","error":{"id":2}}`, `{"id":3,"method":"ping"}`, `[{"id":1,"result":{}},{"id":[],"result":{}},{"id":"2","result":[{"id":5}]}]`,
		`{"id":1,"id":2}`, `{"id":{"id":1}}`, `[[{"id":1}]]`, `7`, ``,
	} {
		f.Add(seed, uint8(3))
	}
	f.Fuzz(func(t *testing.T, data string, cut uint8) {
		var got []string
		e := &eventReader{answered: func(id []byte) { got = append(got, string(id)) }}
		e.read([]byte(": comment\r\nevent: message\ndata: "))
		for i := range len(data) {
			if data[i] == '\n' || data[i] == '\r' {
				return
			}
			if b := data[i]; b == ',' && int(cut) > i { // a line can end where JSON has a space
				e.read([]byte{b})
				if json.Valid([]byte(data)) && !inString(data[:i]) {
					e.read([]byte("\ndata:"))
				}
				continue
			}
			e.read([]byte{data[i]})
		}
		e.read([]byte("\n\n"))
		if e.inside || !json.Valid([]byte(data)) {
			if e.inside {
				t.Fatal("an empty line does not end the event")
			}
			return
		}
		if want := messagesOf(data); !slices.Equal(got, want) {
			t.Fatalf("%q answers %q, want %q", data, got, want)
		}
	})
}

func inString(s string) bool {
	in, escaped := false, false
	for _, b := range []byte(s) {
		switch {
		case escaped:
			escaped = false
		case in && b == '\\':
			escaped = true
		case b == '"':
			in = !in
		}
	}
	return in
}

// messagesOf returns the ids of the responses in a text that is valid JSON. What has a member twice or escaped has no meaning here, and is
// told as the reader does, which only ever keeps a slot too long.
func messagesOf(data string) (ids []string) {
	c := &cursor{b: []byte(data + " ")}
	one := func() {
		if c.next() != '{' {
			c.skip()
			return
		}
		var id []byte
		request := false
		c.members(func(key string) {
			raw := c.value()
			switch key {
			case "id":
				if raw[0] != '{' && raw[0] != '[' {
					id = append(id, raw...)
				}
			case "method":
				request = true
			}
		})
		if len(id) > 0 && len(id) <= maxID && !request {
			ids = append(ids, string(id))
		}
	}
	switch c.next() {
	case '[':
		c.elements(one)
	default:
		one()
	}
	return ids
}

func TestSameID(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`1`, `1`, true},
		{`1`, `1.0`, true},
		{`-0`, `0e1`, true},
		{`"a"`, `"\u0061"`, true},
		{`1`, `2`, false},
		{`1`, `"1"`, false},
		{`"1"`, `"1.0"`, false},
		{`"a"`, `"b"`, false},
		{`1`, ``, false}, // a notification that names none
		{`1`, `{"a":1}`, false},
	} {
		if sameID([]byte(c.a), []byte(c.b)) != c.same {
			t.Errorf("%s and %s: want %v", c.a, c.b, c.same)
		}
	}
}
