// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"errors"
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

// answer writes a problem: the whole answer of the door.
func (p *pass) answer(w http.ResponseWriter, problem render.Problem) {
	h := w.Header()
	p.door.fields.Clear(h)
	if p.degraded {
		render.SetMarker(h)
	}
	switch problem.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", Challenge(p.door.o.Realm, p.outcome))
	case http.StatusTooManyRequests:
		p.door.fields.Set(h, &p.decision, p.degraded)
	}
	p.speak()
	Answer(w, p.request, problem)
}

// Answer writes a problem as the whole answer to a request whose body was not read, so that a client that is still
// sending gets to read it. Fields that outer layers have set stay, but for what is about caching. It is for doors; a Door calls it by itself.
func Answer(w http.ResponseWriter, r *http.Request, problem render.Problem) {
	problem.SetHeader(w.Header())
	AnswerBody(w, r, problem.Status, problem.JSON())
}

// AnswerBody is Answer for a body that is not a problem. Its fields are set.
func AnswerBody(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	linger := stillSending(r) && http.NewResponseController(w).EnableFullDuplex() == nil
	if linger {
		h.Set("Connection", "close")
		h.Set("Content-Length", strconv.Itoa(len(body))) // so that the client knows the end before the handler returns
	}
	if !linger && r.ProtoMajor == 1 && hasBody(r) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restTime)) // the server sets its own for the next request
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that is gone has no use for the error
	}
	if linger {
		lingerOn(w, r)
	}
}

// Unidentified returns what a request is answered with when an Identify returned an error.
func Unidentified(terms *render.Terms, err error) (Outcome, render.Problem) {
	switch {
	case errors.Is(err, ErrNoCredential):
		return NoCredential, terms.NoCredential()
	case errors.Is(err, ErrUnknownCredential):
		return UnknownCredential, terms.UnknownCredential()
	case errors.Is(err, ErrBadCredential):
		return BadCredential, terms.BadCredential()
	}
	return Unavailable, terms.Unavailable()
}

// Challenge returns the value of WWW-Authenticate for a 401 with this outcome.
func Challenge(realm string, o Outcome) string {
	challenge := `Bearer realm="` + realm + `"`
	if o == UnknownCredential {
		challenge += `, error="invalid_token"`
	}
	return challenge
}

// stillSending reports whether the client may be in the middle of a body that is too large for the server
// to read on by itself. Over HTTP/2 it can be told to stop, and one that waits for "100 Continue" has not begun.
func stillSending(r *http.Request) bool {
	return r.ProtoMajor == 1 && hasBody(r) && (r.ContentLength < 0 || r.ContentLength > serverReads) && r.Header.Get("Expect") == ""
}

// lingerOn reads on for a while after the answer. To close at once would reset the connection, and a client that
// sends everything before it reads would never see why.
func lingerOn(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	if rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, lingerBytes)
}
