// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/signposthq/signpost/door/render"
)

const (
	// The server reads on by itself up to this much of a body that was not read, and keeps the connection.
	serverReads = 256 << 10
	// Beyond it, a client that is still sending gets this long, in bytes and time, to notice the answer.
	lingerBytes = 16 << 20
	lingerTime  = 10 * time.Second
	// The server reads the rest of a small body before it sends an answer. A client that does not send it gets the answer
	// after this long, and its connection ends.
	restTime = 5 * time.Second
)

// answer writes a problem: the whole answer of the door. What outer layers have set stays, but
// for what is about caching.
func (p *pass) answer(w http.ResponseWriter, problem render.Problem) {
	h := w.Header()
	p.door.fields.Clear(h)
	problem.SetHeader(h)
	if p.degraded {
		render.SetMarker(h)
	}
	switch problem.Status {
	case http.StatusUnauthorized:
		challenge := p.door.challenge
		if p.outcome == UnknownCredential {
			challenge += `, error="invalid_token"`
		}
		h.Set("WWW-Authenticate", challenge)
	case http.StatusTooManyRequests:
		p.door.fields.Set(h, &p.decision, p.degraded)
	}
	p.speak()
	body := problem.JSON()
	linger := p.stillSending() && http.NewResponseController(w).EnableFullDuplex() == nil
	if linger {
		h.Set("Connection", "close")
		h.Set("Content-Length", strconv.Itoa(len(body))) // so that the client knows the end before the handler returns
	}
	if !linger && p.request.ProtoMajor == 1 && hasBody(p.request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restTime)) // the server sets its own for the next request
	}
	w.WriteHeader(problem.Status)
	if p.request.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that is gone has no use for the error
	}
	if linger {
		p.linger(w)
	}
}

// stillSending reports whether the client may be in the middle of a body that is too large for the server
// to read on by itself. Over HTTP/2 it can be told to stop, and one that waits for "100 Continue" has not begun.
func (p *pass) stillSending() bool {
	r := p.request
	return r.ProtoMajor == 1 && hasBody(r) && (r.ContentLength < 0 || r.ContentLength > serverReads) && r.Header.Get("Expect") == ""
}

// linger reads on for a while after the answer. To close at once would reset the connection, and a client that
// sends everything before it reads would never see why.
func (p *pass) linger(w http.ResponseWriter) {
	rc := http.NewResponseController(w)
	if rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, p.request.Body, lingerBytes)
}
