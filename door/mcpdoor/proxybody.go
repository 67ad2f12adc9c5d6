// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// bodyTime is how long a body may take to arrive, if the server of the proxy has no ReadTimeout of its own. No message is read as it is made.
const bodyTime = 30 * time.Second

// read returns the body of a POST, or answers why not.
func (x *post) read(w http.ResponseWriter) ([]byte, bool) {
	r, most := x.request, x.proxy.o.MaxBody
	no := func(status int, code int, format string, args ...any) ([]byte, bool) {
		x.say(w, status, &fault{code: code, detail: fmt.Sprintf(format, args...)})
		return nil, false
	}
	for _, coding := range strings.Split(strings.Join(r.Header["Content-Encoding"], ","), ",") {
		if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
			w.Header().Set("Accept-Encoding", "identity")
			return no(http.StatusUnsupportedMediaType, codeInvalidRequest, "The body is encoded. Send messages of MCP as they are.")
		}
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || kind != "application/json" || len(r.Header["Content-Type"]) != 1 || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return no(http.StatusUnsupportedMediaType, codeInvalidRequest, "The Content-Type is not application/json, in UTF-8.")
	}
	if r.ContentLength > most {
		return no(http.StatusRequestEntityTooLarge, codeInvalidRequest, "The body is larger than %d bytes.", most)
	}
	done := x.hurry(w)
	body, err := readAll(r.Body, r.ContentLength, most)
	if err != nil {
		r.Body.Close() // while it cannot wait, so that nobody waits for the rest
	}
	done()
	switch {
	case int64(len(body)) > most:
		return no(http.StatusRequestEntityTooLarge, codeInvalidRequest, "The body is larger than %d bytes.", most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return no(http.StatusRequestTimeout, codeInvalidRequest, "The body did not arrive in time.")
	case err != nil:
		return no(http.StatusBadRequest, codeParse, "The body ends before its end.")
	}
	return body, true
}

// hurry gives the client a time to send its body in, until done is called.
func (x *post) hurry(w http.ResponseWriter) (done func()) {
	if s, ok := x.request.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ReadTimeout > 0 {
		return func() {}
	}
	rc := http.NewResponseController(w)
	if rc.SetReadDeadline(time.Now().Add(x.proxy.bodyTime)) != nil {
		return func() {}
	}
	return func() { _ = rc.SetReadDeadline(time.Time{}) } // what can fail here failed above
}

// readAll reads a body of a declared length, or of an unknown one below 0, and no more than one byte above a limit. What it holds grows
// with what the client has sent, not with what it has declared: to sixteen times as much if the length is known, which leaves little to copy, and else
// to twice as much.
func readAll(r io.Reader, declared, most int64) ([]byte, error) {
	const begin = 4096 + 1 // one more, to see the end, or that there is more
	first, growth := min(most+1, begin), int64(2)
	if declared >= 0 {
		most, growth = declared, 16
		for first = most + 1; first > begin; {
			first = (first + growth - 1) / growth
		}
	}
	b := make([]byte, 0, first)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF:
			return b, nil
		case err != nil || int64(len(b)) > most:
			return b, err
		case len(b) == cap(b):
			b = append(make([]byte, 0, min(growth*int64(cap(b)), most+1)), b...)
		}
	}
}

// copySize is how much of a response passes at once.
const copySize = 32 << 10

// buffers are what responses pass through. A response of a tool is short, and would otherwise cost more for its buffer than for all else.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[copySize]byte); ok {
		return p[:]
	}
	return make([]byte, copySize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put((*[copySize]byte)(p)) }
