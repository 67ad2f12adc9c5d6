// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
)

// reply answers in place of the server, in the form that the client reads.
func (x *post) reply(w http.ResponseWriter) {
	h := w.Header()
	render.NoStore(h)
	if len(x.answers) == 0 {
		x.mark(h, http.StatusAccepted)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	x.mark(h, http.StatusOK)
	kind, body := x.inForm(x.answers)
	h.Set("Content-Type", kind)
	httpdoor.AnswerBody(w, x.request, http.StatusOK, body)
}

// inForm returns responses in the form that the client reads.
func (x *post) inForm(responses [][]byte) (contentType string, body []byte) {
	switch {
	case x.wantsEvents():
		return "text/event-stream", events(responses)
	case x.batch:
		return "application/json", append(append([]byte{'['}, bytes.Join(responses, []byte{','})...), ']')
	}
	return "application/json", responses[0]
}

// wantsEvents reports whether the client reads event streams alone.
func (x *post) wantsEvents() bool {
	accept := strings.ToLower(strings.Join(x.request.Header.Values("Accept"), ","))
	return strings.Contains(accept, "text/event-stream") && !strings.Contains(accept, "application/") && !strings.Contains(accept, "*/*")
}

// events returns responses as events of a stream.
func events(responses [][]byte) []byte {
	var b []byte
	for _, r := range responses {
		b = append(b, "event: message\ndata: "...)
		b = append(b, r...) // of one line: encoding/json made it, and ids have no line break
		b = append(b, "\n\n"...)
	}
	return b
}

// say turns a request away for what it is.
func (x *post) say(w http.ResponseWriter, status int, f *fault) {
	outcomes := map[int]httpdoor.Outcome{
		http.StatusBadRequest: Malformed, http.StatusRequestTimeout: Malformed,
		http.StatusRequestEntityTooLarge: httpdoor.TooLarge, http.StatusUnsupportedMediaType: httpdoor.BadEncoding,
	}
	if o, ok := outcomes[status]; ok && x.proxy.o.Observe != nil {
		x.proxy.o.Observe(Event{Outcome: o, Caller: x.caller})
	}
	object := struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{f.code, f.detail + " Nothing was executed."}
	x.sendError(w, status, f.id, mustMarshal(object))
}

// sendError answers with an error and nothing else.
func (x *post) sendError(w http.ResponseWriter, status int, id, object []byte) {
	h := w.Header()
	deleteOurs(h)
	x.proxy.o.Fields.Clear(h)
	render.NoStore(h)
	h.Set("Content-Type", "application/json")
	httpdoor.AnswerBody(w, x.request, status, response(id, "error", object))
}

// failed answers for a server that does not. Its calls count, as they may have reached it.
func (x *post) failed(w http.ResponseWriter, err error) {
	timeout := net.Error(nil)
	late := errors.As(err, &timeout) && timeout.Timeout()
	dial := (*net.OpError)(nil)
	unreached := errors.As(err, &dial) && dial.Op == "dial"
	if late && !unreached { // it may be at work, and heed no end of its request
		x.lapse()
	}
	if err := x.request.Context().Err(); err != nil {
		x.abort(err)
	}
	why := noAnswer
	switch {
	case errors.Is(err, errElsewhere):
		why = elsewhere
	case x.request.Method == http.MethodGet:
		// As it would be without the door: a client tries again to open its stream, where it may take an error of HTTP for the end of the session.
		x.abort(err)
	case unreached:
		why = notThere
	}
	if err := x.settle(); err != nil {
		x.abort(err)
	}
	if x.answers = append(x.unanswered(why), x.answers...); len(x.answers) > 0 {
		x.reply(w)
		return
	}
	status := http.StatusBadGateway // to a request that carried none, nothing else speaks
	if late {
		status = http.StatusGatewayTimeout
	}
	x.sendError(w, status, nil, why)
}

// Why a request has no answer of the server.
var (
	noAnswer  = unanswered("The server behind this door does not answer. The call may have reached it.")
	notThere  = unanswered("The server behind this door cannot be reached. Nothing was executed.")
	elsewhere = unanswered("The server behind this door redirects. The door has to be told the URL that it redirects to.")
)

func unanswered(why string) []byte {
	return mustMarshal(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{http.StatusBadGateway, why})
}

// unanswered returns an error for each request that was forwarded and not answered.
func (x *post) unanswered(why []byte) (responses [][]byte) {
	for _, c := range x.calls {
		if c.refusal == nil && c.message.request() && !c.ended.Load() {
			responses = append(responses, response(c.message.id, "error", why))
		}
	}
	return responses
}
