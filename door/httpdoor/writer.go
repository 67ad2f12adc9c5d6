// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// writer is the response that the handler sees. It holds the first byte back until the decision is durable, and
// decides what fields go with the status. It has no Unwrap: whatever leaves has to pass it.
// Like every ResponseWriter it is for one goroutine at a time.
type writer struct {
	inner    http.ResponseWriter
	pass     *pass
	begun    bool // the final status is decided
	replaced bool // the door has answered instead of the handler
	hijacked bool
}

// begin settles the decision and marks the fields, before the final status leaves. On an error nothing may leave.
func (w *writer) begin(status int) error {
	if w.begun {
		return w.pass.err
	}
	w.begun = true
	if err := w.pass.settle(); err != nil {
		return err
	}
	if status >= 400 && w.pass.body.tooLarge.Load() {
		w.replace()
		return nil
	}
	w.pass.mark(w.inner.Header(), status)
	return nil
}

// replace answers 413 for a handler that was given too large a body and made another error of it.
func (w *writer) replace() {
	w.replaced = true
	h := w.inner.Header()
	for _, name := range []string{"Content-Encoding", "Content-Range", "Accept-Ranges", "Trailer"} {
		h.Del(name)
	}
	w.pass.answer(w.inner, w.pass.door.o.Terms.TooLarge(w.pass.door.o.MaxBody))
}

// finish is called when the handler has returned.
func (w *writer) finish() {
	if !w.begun && w.pass.body.tooLarge.Load() {
		w.begin(http.StatusRequestEntityTooLarge)
		return
	}
	if err := w.begin(http.StatusOK); err != nil {
		w.pass.abort(err)
	}
}

// abandon is called when the handler has panicked. Somebody further out may recover and answer for it: that is
// an answer to this request too.
func (w *writer) abandon() {
	if !w.begun && w.pass.settle() == nil {
		w.pass.mark(w.inner.Header(), http.StatusInternalServerError)
	}
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.inner.Header() }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	informational := status < 200 && status != http.StatusSwitchingProtocols
	switch {
	case informational:
		if w.pass.settle() != nil || w.replaced {
			return
		}
		w.pass.door.fields.Clear(w.inner.Header())
	case !w.begun:
		w.begin(status)
	}
	// A second status goes on, so that the server complains about it as it would without the door.
	if w.pass.err == nil && !w.replaced {
		w.inner.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (int, error) {
	if err := w.begin(http.StatusOK); err != nil {
		return 0, err
	}
	if w.replaced {
		return len(b), nil
	}
	return w.inner.Write(b)
}

// WriteString implements io.StringWriter.
func (w *writer) WriteString(s string) (int, error) {
	if err := w.begin(http.StatusOK); err != nil {
		return 0, err
	}
	if w.replaced {
		return len(s), nil
	}
	return io.WriteString(w.inner, s)
}

// SetReadDeadline is what http.ResponseController calls.
func (w *writer) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(w.inner).SetReadDeadline(t)
}

// SetWriteDeadline is what http.ResponseController calls.
func (w *writer) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(w.inner).SetWriteDeadline(t)
}

// EnableFullDuplex is what http.ResponseController calls.
func (w *writer) EnableFullDuplex() error {
	return http.NewResponseController(w.inner).EnableFullDuplex()
}

// The faces below are shown only if the inner writer has them: see faces. Something that fails before a byte
// has left must not decide what fields go with the status: the handler may still choose another answer.

func (w *writer) flush() error {
	if err := w.begin(http.StatusOK); err != nil {
		return err
	}
	return http.NewResponseController(w.inner).Flush()
}

func (w *writer) readFrom(src io.Reader) (int64, error) {
	if err := w.begin(http.StatusOK); err != nil {
		return 0, err
	}
	if w.replaced {
		return io.Copy(io.Discard, src)
	}
	return w.inner.(io.ReaderFrom).ReadFrom(src)
}

func (w *writer) push(target string, o *http.PushOptions) error {
	if err := w.pass.settle(); err != nil {
		return err
	}
	return w.inner.(http.Pusher).Push(target, o)
}

func (w *writer) hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := w.pass.settle(); err != nil {
		return nil, nil, err
	}
	if w.replaced {
		return nil, nil, http.ErrHijacked
	}
	conn, rw, err := http.NewResponseController(w.inner).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hijacked = true
	_ = w.begin(http.StatusSwitchingProtocols) // it has settled; a handler may send the fields by itself
	return until(&w.pass.hold, conn), rw, nil
}

// reaches reports whether w, or what it wraps, has a face that http.ResponseController looks for.
func reaches[Face any](w http.ResponseWriter) bool {
	for {
		if _, ok := w.(Face); ok {
			return true
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = wrapper.Unwrap()
	}
}
