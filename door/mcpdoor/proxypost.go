// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"sync/atomic"

	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
)

// post is one HTTP request on its way through a proxy, with the messages that came in it.
type post struct {
	proxy   *Proxy
	request *http.Request
	caller  httpdoor.Caller
	batch   bool
	calls   []*sent  // every message
	answers [][]byte // those of the proxy, each a whole response of JSON-RPC

	outlives bool   // what is forwarded goes on without the client
	outlived bool   // it does, and ends by itself
	cancel   func() // ends it; nil: the client's going does
	entered  bool   // a call of it can be cancelled

	resumable atomic.Bool // the client can come back for what it has missed
}

// sent is one message that came in a post.
type sent struct {
	call
	post      *post
	message   message
	refusal   *refusal    // nil: it is forwarded
	ended     atomic.Bool // its answer has gone past
	cancelled atomic.Bool // by its caller, in another post
	forgone   atomic.Bool // it was, so long ago that its lease has ended
}

func (x *post) call(m message) *sent {
	c := &sent{call: call{door: x.proxy.door, method: m.method, caller: x.caller}, post: x, message: m}
	if m.method == methodCallTool {
		c.tool = m.name
	}
	c.ctx = callContext{x.request.Context(), &c.call}
	return c
}

// guarded lets a free message through, unless its caller floods. It returns the refusal.
func (c *sent) guarded() *refusal {
	d, ok := c.door.guard.passes(c.caller.Key, c.method)
	c.outcome = httpdoor.Uncounted
	if !ok {
		c.outcome = Flooded
		r := flooded(&c.door.o.Terms, &d, c.caller.Kind)
		c.refusal = &r
	}
	return c.refusal
}

// post serves a request that sends messages.
func (x *post) post(w http.ResponseWriter) {
	body, ok := x.read(w)
	if !ok {
		return
	}
	messages, batch, err := parse(body)
	if err != nil {
		x.say(w, http.StatusBadRequest, err.(*fault))
		return
	}
	if f := contradicted(x.request.Header, messages, batch); f != nil {
		x.say(w, http.StatusBadRequest, f)
		return
	}
	x.batch = batch
	var admitted [][]byte
	for _, m := range messages {
		c := x.call(m)
		x.calls = append(x.calls, c)
		if err := x.decide(c); err != nil {
			x.abort(err)
		}
		switch {
		case c.refusal == nil:
			admitted = append(admitted, m.raw)
		case m.request(): // else nobody waits for an answer
			x.answers = append(x.answers, c.answered())
		}
	}
	if len(admitted) == 0 {
		x.reply(w)
		return
	}
	if x.proxy.o.BeforeHandler {
		if err := x.settle(); err != nil {
			x.abort(err)
		}
	}
	if len(admitted) < len(messages) {
		body = append(append([]byte{'['}, bytes.Join(admitted, []byte{','})...), ']')
	}
	x.forward(w, body)
}

// decide takes what a message needs. The error says why its caller gets no answer.
func (x *post) decide(c *sent) error {
	work, charged := c.door.charges.of(c.method, c.tool)
	if !charged {
		c.guarded()
		return nil
	}
	r, err := c.take(work)
	if err != nil {
		return err
	}
	if c.refusal = r; r == nil {
		c.hold.Begin(c.door.limiter, c.decision.Lease)
	}
	return nil
}

// answered returns the response to a refused request.
func (c *sent) answered() []byte {
	if c.refusal.isResult(c.method) {
		return response(c.message.id, "result", c.refusal.result())
	}
	return response(c.message.id, "error", c.refusal.rpcError())
}

// response returns a response of JSON-RPC. Without an id it is null.
func response(id []byte, member string, value []byte) []byte {
	if id == nil {
		id = []byte("null")
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"`+member+`":`...)
	return append(append(b, value...), '}')
}

// settle waits until all decisions are durable, or known not to be for now.
func (x *post) settle() error {
	for _, c := range x.calls {
		if c.counted && c.refusal == nil {
			if err := c.settle(); err != nil {
				return err
			}
		}
	}
	return nil
}

// abort ends the request without a byte of an answer. It does not return.
func (x *post) abort(err error) {
	for _, c := range x.calls {
		if c.refusal == nil && c.counted {
			c.outcome, c.err = httpdoor.Aborted, err
		}
	}
	panic(http.ErrAbortHandler)
}

// end gives the leases back and tells Observe, when all is over.
func (x *post) end() {
	if !x.outlived {
		x.release()
		if x.cancel != nil {
			x.cancel()
		}
	}
	if x.proxy.o.Observe == nil {
		return
	}
	for _, c := range x.calls {
		c.report()
	}
}

func (x *post) release() {
	for _, c := range x.calls {
		c.hold.End()
	}
	if x.entered {
		x.proxy.inFlight.leave(x)
	}
}

// mark sets the fields that go with the answer.
func (x *post) mark(h http.Header, status int) {
	deleteOurs(h)
	x.proxy.o.Fields.Clear(h)
	for _, c := range x.calls {
		if c.degraded {
			render.SetMarker(h)
		}
	}
	if x.batch || len(x.calls) == 0 || len(x.calls[0].decision.Windows()) == 0 {
		return
	}
	if c := x.calls[0]; !render.MayBeShared(h, status, c.decision.At) {
		x.proxy.o.Fields.Set(h, &c.decision, c.degraded)
	}
}

// forward passes the request on, with the bytes of its body. Nothing else of what the client sent as a body is.
func (x *post) forward(w http.ResponseWriter, body []byte) {
	ctx, over := x.bounded(x.outlive())
	defer over()
	for _, c := range x.calls {
		c.ctx.Context = ctx // its count is waited for as long as its work goes on
	}
	ctx = context.WithValue(ctx, postKey{}, x)
	x.proxy.inFlight.enter(x)
	r := x.request.WithContext(&callContext{ctx, &call{caller: x.caller}})
	r.TransferEncoding, r.Trailer, r.ContentLength, r.Body = nil, nil, int64(len(body)), http.NoBody
	if body != nil {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil } // for a connection that had ended unseen
		r.Body, _ = r.GetBody()
	}
	x.proxy.reverse.ServeHTTP(&final{inner: w, header: http.Header{}}, r)
}

// final is a response without informational ones before it: no byte may leave before the count is durable.
type final struct {
	inner  http.ResponseWriter
	header http.Header // until the status is written
	begun  bool
}

// Header implements http.ResponseWriter.
func (f *final) Header() http.Header {
	if f.begun {
		return f.inner.Header() // for trailers
	}
	return f.header
}

// WriteHeader implements http.ResponseWriter.
func (f *final) WriteHeader(status int) {
	if status < 200 {
		return
	}
	if !f.begun {
		f.begun = true
		maps.Copy(f.inner.Header(), f.header)
	}
	f.inner.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (f *final) Write(b []byte) (int, error) {
	if !f.begun {
		f.WriteHeader(http.StatusOK)
	}
	return f.inner.Write(b)
}

// Unwrap is what http.ResponseController calls, after the status.
func (f *final) Unwrap() http.ResponseWriter { return f.inner }

var (
	// errUnasked is the answer of a server that leaves HTTP.
	errUnasked = errors.New("upstream switched protocols without being asked")
	// errElsewhere is that of one that sends the client away: to where nothing is counted.
	errElsewhere = errors.New("upstream redirects")
)

// answered is called with the response of the server.
func (x *post) answered(resp *http.Response) error {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return errUnasked
	}
	if resp.StatusCode/100 == 3 && resp.Header.Get("Location") != "" {
		return errElsewhere
	}
	if err := x.settle(); err != nil {
		return err
	}
	if resp.StatusCode/100 == 2 {
		x.cancelOthers()
	}
	if resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent { // the work is yet to be done
		x.lapse()
	}
	x.mark(resp.Header, resp.StatusCode)
	if len(x.answers) > 0 {
		if err := x.merge(resp); err != nil {
			return err
		}
	}
	body := &incoming{ReadCloser: resp.Body, post: x, left: resp.ContentLength, clean: func() {
		deleteOurs(resp.Trailer)
		render.Fields{}.Clear(resp.Trailer)
	}}
	body.clean()
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" && resp.Header.Get("Content-Encoding") == "" {
		body.events = &eventReader{answered: x.answeredID}
	}
	resp.Body = body
	return nil
}
