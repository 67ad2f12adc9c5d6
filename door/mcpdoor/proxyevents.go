// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// eventReader looks at an event stream that goes past, and says which requests the responses in it answer. It remembers no more of the
// stream than an id, however long an event is.
type eventReader struct {
	answered func(id []byte) // called as the last byte of a response is seen

	field     []byte // the name of the line's field, or how it begins
	inValue   bool
	inside    bool // something of an event was seen since the last one ended
	lineBegun bool
	wasCR     bool
	resumable bool // an event had an id: a client that was cut off can come back
	message   idReader
}

// read looks at what comes next.
func (e *eventReader) read(p []byte) {
	for _, b := range p {
		if b == '\n' && e.wasCR {
			e.wasCR = false
			continue
		}
		e.wasCR = b == '\r'
		switch {
		case b == '\n' || b == '\r':
			if !e.lineBegun {
				e.inside, e.message = false, idReader{}
			}
			e.field, e.inValue, e.lineBegun = e.field[:0], false, false
			continue
		case e.inValue:
			if string(e.field) == "data" {
				if id := e.message.read(b); id != nil {
					e.answered(id)
				}
			}
		case b == ':':
			e.inValue = true
			e.resumable = e.resumable || string(e.field) == "id"
		case len(e.field) < 5:
			e.field = append(e.field, b)
		}
		e.lineBegun, e.inside = true, true
	}
}

// maxID is how long an id is looked at. A request with a longer one is taken to be answered when the stream ends.
const maxID = 1024

// idReader finds the id in a response of JSON-RPC, or in each of a batch.
type idReader struct {
	depth    int // of open values
	top      int // the depth inside a message: 1, or 2 in a batch
	inString bool
	escaped  bool
	inKey    bool // of the message, not of something in it
	key, id  []byte
	request  bool // it has a method, and answers nothing
}

// read looks at the next byte. It returns the id of the response that ends with it, or nil.
func (r *idReader) read(b byte) []byte {
	switch {
	case r.inString:
		r.keep(b)
		r.inString = r.escaped || b != '"'
		r.escaped = !r.escaped && b == '\\'
	case b == '"':
		r.keep(b)
		r.inString = true
	case b == '{', b == '[':
		r.depth++
		if r.depth == 1 {
			r.top = 1
			if b == '[' {
				r.top = 2
			}
		}
		if r.depth == r.top {
			r.inKey, r.key, r.id, r.request = true, r.key[:0], r.id[:0], false
		}
	case b == '}', b == ']':
		r.depth--
		if r.depth == r.top-1 && b == '}' && len(r.id) > 0 && len(r.id) <= maxID && !r.request {
			return r.id
		}
	case r.depth == r.top && b == ':':
		r.inKey = false
		r.request = r.request || string(r.key) == `"method"`
	case r.depth == r.top && b == ',':
		r.inKey, r.key = true, r.key[:0]
	case b != ' ' && b != '\t':
		r.keep(b)
	}
	return nil
}

func (r *idReader) keep(b byte) {
	const longest = len(`"method"`)
	switch {
	case r.depth != r.top || r.top == 0:
	case r.inKey:
		if len(r.key) <= longest {
			r.key = append(r.key, b)
		}
	case string(r.key) == `"id"` && len(r.id) <= maxID:
		r.id = append(r.id, b)
	}
}

// sameID reports whether two ids are the same, though a server may have written one anew.
func sameID(a, b []byte) bool {
	return bytes.Equal(a, b) || len(a) > 0 && len(b) > 0 && plainID(a) == plainID(b)
}

// plainID returns an id as a server may write it anew. That of a text begins with a quote, and that of a number does not.
func plainID(id []byte) string {
	if text := ""; id[0] == '"' && json.Unmarshal(id, &text) == nil {
		return `"` + text
	}
	n, err := strconv.ParseFloat(string(id), 64)
	switch {
	case err != nil:
		return string(id)
	case n == 0: // and -0
		return "0"
	}
	return strconv.FormatFloat(n, 'g', -1, 64)
}
