// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxBatch is the most messages of one batch.
	maxBatch = 100
	// maxDepth is how deep the values of a message may be nested.
	maxDepth = 200
)

// The codes of JSON-RPC and of MCP for a body that is not what it should be.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInvalidParams  = -32602
	codeHeaderMismatch = -32020
)

// message is one message of JSON-RPC in a body, as far as a proxy has to know it. Its slices are parts of the body.
type message struct {
	raw    []byte // as it was sent
	id     []byte // as it was sent; nil: it asks for no answer
	method string // empty: a response
	name   string // params.name
	uri    string // params.uri

	cancels []byte // params.requestId, as it was sent; nil: there is none
}

// request reports whether somebody waits for an answer to the message.
func (m *message) request() bool { return m.method != "" && m.id != nil }

// fault is why a body is not passed on.
type fault struct {
	code   int
	detail string
	id     []byte // of the request, if it could be read
}

// Error implements error.
func (f *fault) Error() string { return f.detail }

// parse reads a body, which is one message or a batch. What two readers could understand differently is a *fault: a member that is there
// twice, or in other letters than it should be, and whatever is not JSON to the letter.
func parse(body []byte) (messages []message, batch bool, err error) {
	if !utf8.Valid(body) {
		return nil, false, &fault{code: codeParse, detail: "The body is not UTF-8."}
	}
	if !json.Valid(body) {
		return nil, false, &fault{code: codeParse, detail: "The body is not one JSON text: it is malformed, or ends too early, or something follows it."}
	}
	c := &cursor{b: body}
	switch c.next() {
	case '{':
		m, f := c.message()
		if f != nil {
			return nil, false, f
		}
		return []message{m}, false, nil
	case '[':
		messages, f := c.batch()
		if f != nil {
			return nil, true, f
		}
		return messages, true, nil
	}
	return nil, false, invalid("The body is neither a message nor a batch of messages.")
}

func invalid(format string, args ...any) *fault {
	return &fault{code: codeInvalidRequest, detail: fmt.Sprintf(format, args...)}
}

func (c *cursor) batch() (out []message, f *fault) {
	ids := map[string]bool{}
	c.elements(func() {
		switch {
		case f != nil:
			c.skip()
		case len(out) == maxBatch:
			f = invalid("The batch has more than %d messages.", maxBatch)
			c.skip()
		case c.next() != '{':
			f = invalid("A batch holds something that is not a message.")
			c.skip()
		default:
			var m message
			m, f = c.message()
			out = append(out, m)
			if f != nil || !m.request() {
				return
			}
			id := plainID(m.id)
			if ids[id] { // the answer to the one would give back the slot of the other
				f = invalid("The batch has two requests with the same id.")
			}
			ids[id] = true
		}
	})
	switch {
	case f != nil:
		f.id = nil // the answer is one to the whole batch
	case len(out) == 0:
		f = invalid("The batch is empty.")
	}
	return out, f
}

// known are the members of a message.
var known = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// message reads the message that is next.
func (c *cursor) message() (m message, first *fault) {
	found := func(f *fault) { // the walk goes on, to find the id
		if first == nil {
			first = f
		}
	}
	seen := map[string]bool{}
	begin := c.at
	c.members(func(key string) {
		found(misspelt(key, known))
		if seen[key] {
			found(invalid("The message has the member %.40q twice.", key))
			if key == "id" {
				m.id = nil
			}
			c.skip()
			return
		}
		seen[key] = true
		switch key {
		case "jsonrpc":
			if text, ok := c.text(); !ok || text != "2.0" {
				found(invalid(`The member "jsonrpc" is not "2.0".`))
			}
		case "id":
			switch value := c.value(); {
			case value[0] == '"', value[0] == '-', '0' <= value[0] && value[0] <= '9':
				m.id = value
			case value[0] != 'n': // null
				found(invalid(`The member "id" is neither a string nor a number.`))
			}
		case "method":
			var ok bool
			if m.method, ok = c.text(); !ok || m.method == "" || odd(m.method) {
				found(invalid(`The member "method" is not the name of a method.`))
			}
		case "params":
			found(c.params(&m))
		default:
			found(c.skip())
		}
	})
	m.raw = c.b[begin:c.at]
	response := seen["result"] || seen["error"]
	switch {
	case !seen["jsonrpc"]:
		found(invalid(`The message has no member "jsonrpc".`))
	case seen["method"] && response, seen["result"] && seen["error"]:
		found(invalid("The message is more than one of a request, a result and an error."))
	case !seen["method"] && !response:
		found(invalid("The message is neither a request nor a response."))
	case response && !seen["id"]:
		found(invalid("The response has no id."))
	case seen["method"] && seen["id"] && m.id == nil:
		found(invalid("The id of the request is null."))
	case m.method == methodCallTool && m.name == "":
		found(&fault{code: codeInvalidParams, detail: "The call does not name a tool."})
	}
	if first != nil {
		first.id = m.id
	}
	return m, first
}

// params reads the value of params.
func (c *cursor) params(m *message) (first *fault) {
	switch c.next() {
	case '{':
	case 'n': // null
		return c.skip()
	default:
		c.skip()
		return invalid(`The member "params" is not an object.`)
	}
	found := func(f *fault) {
		if first == nil {
			first = f
		}
	}
	seen := map[string]bool{}
	c.members(func(key string) {
		found(misspelt(key, []string{"name", "uri"}))
		if seen[key] {
			found(invalid("The params have the member %.40q twice.", key))
		}
		seen[key] = true
		if key != "name" && key != "uri" {
			c.next()
			begin := c.at
			found(c.skip())
			if key == "requestId" {
				m.cancels = c.b[begin:c.at]
			}
			return
		}
		text, ok := c.text()
		if !ok || odd(text) {
			found(&fault{code: codeInvalidParams, detail: fmt.Sprintf("The member %q of the params is not a plain string.", key)})
		}
		if key == "name" {
			m.name = text
		} else {
			m.uri = text
		}
	})
	return first
}

// odd reports whether some readers may cut a text short, or drop a part of it.
func odd(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) })
}

// misspelt returns what is wrong with a name that some readers take for one of those that matter.
func misspelt(key string, names []string) *fault {
	if odd(key) {
		return invalid("A member has a name with a control character, or with half of one.")
	}
	for _, name := range names {
		if key != name && strings.EqualFold(key, name) {
			return invalid("The member %.40q is not spelt %q.", key, name)
		}
	}
	return nil
}

// cursor walks over JSON that is known to be valid, and copies nothing but the names of members and the texts that it is asked for.
type cursor struct {
	b  []byte
	at int
}

// next moves to the next byte that is no space, and returns it.
func (c *cursor) next() byte {
	for {
		switch b := c.b[c.at]; b {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return b
		}
	}
}

// members calls f at the value of each member of the object that is next. It must read it.
func (c *cursor) members(f func(key string)) {
	c.each('}', func() {
		key, _ := c.text()
		c.next()
		c.at++ // the colon
		f(key)
	})
}

// elements calls f at each element of the array that is next. It must read it.
func (c *cursor) elements(f func()) { c.each(']', f) }

func (c *cursor) each(end byte, f func()) {
	c.at++ // the bracket
	for c.next() != end {
		f()
		if c.next() == ',' {
			c.at++
		}
	}
	c.at++
}

// value reads a value and returns its bytes.
func (c *cursor) value() []byte {
	c.next()
	begin := c.at
	c.skip()
	return c.b[begin:c.at]
}

// text reads a value, and returns what it says if it is a string.
func (c *cursor) text() (string, bool) {
	value := c.value()
	if value[0] != '"' {
		return "", false
	}
	if inner := value[1 : len(value)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		panic("mcpdoor: valid JSON cannot be read: " + err.Error())
	}
	return s, true
}

// quoted reads the rest of a string. It looks at each byte twice at most, however many escapes there are.
func (c *cursor) quoted() {
	for end := -1; ; {
		if end < c.at { // not yet looked for, or it was escaped
			end = c.at + bytes.IndexByte(c.b[c.at:], '"')
		}
		escape := bytes.IndexByte(c.b[c.at:end], '\\')
		if escape < 0 {
			c.at = end + 1
			return
		}
		c.at += escape + 2
	}
}

// skip reads a value. It returns a fault if the value is nested too deep.
func (c *cursor) skip() *fault {
	depth, deepest := 0, 0
	for {
		switch c.next() {
		case '"':
			c.at++
			c.quoted()
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
			c.at++
		case '}', ']':
			depth--
			c.at++
		case ',', ':':
			c.at++
		default: // a number, or a word
			for c.at < len(c.b) && strings.IndexByte(" \t\r\n,]}", c.b[c.at]) < 0 {
				c.at++
			}
		}
		if depth == 0 {
			break
		}
	}
	if deepest >= maxDepth {
		return invalid("The message is nested deeper than %d levels.", maxDepth)
	}
	return nil
}
