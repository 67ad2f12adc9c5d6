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

// message is one message of JSON-RPC in a body, as far as a proxy has to know it.
type message struct {
	raw    []byte // as it was sent
	id     []byte // as it was sent; nil: it asks for no answer
	method string // empty: a response
	name   string // params.name
	uri    string // params.uri
}

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
	p := &parser{body: body, dec: json.NewDecoder(bytes.NewReader(body))}
	p.dec.UseNumber()
	switch p.token() {
	case json.Delim('{'):
		m, err := p.message(0)
		if err != nil {
			return nil, false, err
		}
		return []message{m}, false, nil
	case json.Delim('['):
		messages, err := p.batch()
		return messages, true, err
	}
	return nil, false, invalid("The body is neither a message nor a batch of messages.")
}

func invalid(format string, args ...any) *fault {
	return &fault{code: codeInvalidRequest, detail: fmt.Sprintf(format, args...)}
}

// parser walks over a body that is valid JSON.
type parser struct {
	body []byte
	dec  *json.Decoder
}

func (p *parser) token() json.Token {
	t, err := p.dec.Token()
	if err != nil {
		panic("mcpdoor: valid JSON cannot be read: " + err.Error())
	}
	return t
}

// since returns what was read since an offset, without what separates it from what was before it.
func (p *parser) since(start int64) []byte {
	return bytes.TrimLeft(p.body[start:p.dec.InputOffset()], " \t\r\n,:")
}

func (p *parser) batch() ([]message, error) {
	var out []message
	for p.dec.More() {
		if len(out) == maxBatch {
			return nil, invalid("The batch has more than %d messages.", maxBatch)
		}
		start := p.dec.InputOffset()
		if p.token() != json.Delim('{') {
			return nil, invalid("A batch holds something that is not a message.")
		}
		m, err := p.message(start)
		if err != nil {
			return nil, err.(*fault).withoutID() // the answer is one to the whole batch
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		return nil, invalid("The batch is empty.")
	}
	return out, nil
}

func (f *fault) withoutID() *fault { return &fault{code: f.code, detail: f.detail} }

// known are the members of a message.
var known = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// message reads a message whose brace has been read. It began at an offset.
func (p *parser) message(start int64) (m message, err error) {
	var first *fault // the walk goes on after it, to find the id
	found := func(f *fault) {
		if first == nil {
			first = f
		}
	}
	seen := map[string]bool{}
	var id json.Token
	for p.dec.More() {
		key := p.token().(string)
		if seen[key] {
			found(invalid("The message has the member %.40q twice.", key))
			if key == "id" {
				m.id, id = nil, nil
				p.skip()
				continue
			}
		}
		seen[key] = true
		if f := misspelt(key, known); f != nil {
			found(f)
		}
		var f *fault
		switch key {
		case "jsonrpc":
			if p.simple() != "2.0" {
				f = invalid(`The member "jsonrpc" is not "2.0".`)
			}
		case "id":
			at := p.dec.InputOffset()
			switch id = p.simple(); id.(type) {
			case string, json.Number:
				m.id = p.since(at)
			case nil:
			default:
				f = invalid(`The member "id" is neither a string nor a number.`)
			}
		case "method":
			var ok bool
			if m.method, ok = p.simple().(string); !ok || m.method == "" || odd(m.method) {
				f = invalid(`The member "method" is not the name of a method.`)
			}
		case "params":
			f = p.params(&m)
		default:
			if !p.skip() {
				f = tooDeep()
			}
		}
		if f != nil {
			found(f)
		}
	}
	p.token() // the other brace
	m.raw = p.since(start)
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
	case seen["method"] && seen["id"] && id == nil:
		found(invalid("The id of the request is null."))
	case m.method == methodCallTool && m.name == "":
		found(&fault{code: codeInvalidParams, detail: "The call does not name a tool."})
	}
	if first != nil {
		first.id = m.id
		return message{}, first
	}
	return m, nil
}

// params reads the value of params.
func (p *parser) params(m *message) *fault {
	switch t := p.token(); t {
	case nil:
		return nil
	case json.Delim('{'):
	default:
		if t == json.Delim('[') {
			p.rest(1)
		}
		return invalid(`The member "params" is not an object.`)
	}
	var first *fault
	seen := map[string]bool{}
	for p.dec.More() {
		key := p.token().(string)
		f := misspelt(key, []string{"name"})
		if seen[key] {
			f = invalid("The params have the member %.40q twice.", key)
		}
		seen[key] = true
		switch key {
		case "name", "uri":
			text, ok := p.simple().(string)
			if !ok || odd(text) {
				f = &fault{code: codeInvalidParams, detail: fmt.Sprintf("The member %q of the params is not a plain string.", key)}
			}
			if key == "name" {
				m.name = text
			} else {
				m.uri = text
			}
		default:
			if !p.skip() {
				f = tooDeep()
			}
		}
		if first == nil {
			first = f
		}
	}
	p.token() // the brace
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

func tooDeep() *fault { return invalid("The message is nested deeper than %d levels.", maxDepth) }

// simple reads a value and returns it, or its opening delimiter if it has parts.
func (p *parser) simple() json.Token {
	t := p.token()
	if d, ok := t.(json.Delim); ok {
		p.rest(1)
		return d
	}
	return t
}

// skip reads a value. It reports whether it is not too deep.
func (p *parser) skip() bool {
	if _, ok := p.token().(json.Delim); ok {
		return p.rest(1)
	}
	return true
}

// rest reads on until so many open values are closed. It reports whether none inside is too deep.
func (p *parser) rest(open int) bool {
	ok := true
	for open > 0 {
		switch p.token() {
		case json.Delim('{'), json.Delim('['):
			open++
			ok = ok && open <= maxDepth
		case json.Delim('}'), json.Delim(']'):
			open--
		}
	}
	return ok
}
