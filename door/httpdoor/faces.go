// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Handlers ask a ResponseWriter what else it can do by asserting interfaces, so the writer must have
// exactly those that the one inside it has: sixteen types, put together from these four.
type (
	flusher    struct{ w *writer }
	hijacker   struct{ w *writer }
	readerFrom struct{ w *writer }
	pusher     struct{ w *writer }
)

// Flush implements http.Flusher.
func (f flusher) Flush() { _ = f.w.flush() }

// FlushError is what http.ResponseController calls.
func (f flusher) FlushError() error { return f.w.flush() }

// Hijack implements http.Hijacker.
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.w.hijack() }

// ReadFrom implements io.ReaderFrom, by which files are sent without copying them.
func (r readerFrom) ReadFrom(src io.Reader) (int64, error) { return r.w.readFrom(src) }

// Push implements http.Pusher.
func (p pusher) Push(target string, o *http.PushOptions) error { return p.w.push(target, o) }

// faces returns w with the interfaces of the writer inside it. What can be flushed or hijacked through Unwrap
// can be so here, as there is no Unwrap to do it by.
func (w *writer) faces() http.ResponseWriter {
	const flush, hijack, read, push = 1, 2, 4, 8
	has := 0
	if reaches[http.Flusher](w.inner) || reaches[interface{ FlushError() error }](w.inner) {
		has |= flush
	}
	if reaches[http.Hijacker](w.inner) {
		has |= hijack
	}
	if _, ok := w.inner.(io.ReaderFrom); ok {
		has |= read
	}
	if _, ok := w.inner.(http.Pusher); ok {
		has |= push
	}
	f, h, r, p := flusher{w}, hijacker{w}, readerFrom{w}, pusher{w}
	switch has {
	case flush:
		return struct {
			*writer
			flusher
		}{w, f}
	case hijack:
		return struct {
			*writer
			hijacker
		}{w, h}
	case flush | hijack:
		return struct {
			*writer
			flusher
			hijacker
		}{w, f, h}
	case read:
		return struct {
			*writer
			readerFrom
		}{w, r}
	case flush | read:
		return struct {
			*writer
			flusher
			readerFrom
		}{w, f, r}
	case hijack | read:
		return struct {
			*writer
			hijacker
			readerFrom
		}{w, h, r}
	case flush | hijack | read:
		return struct {
			*writer
			flusher
			hijacker
			readerFrom
		}{w, f, h, r}
	case push:
		return struct {
			*writer
			pusher
		}{w, p}
	case flush | push:
		return struct {
			*writer
			flusher
			pusher
		}{w, f, p}
	case hijack | push:
		return struct {
			*writer
			hijacker
			pusher
		}{w, h, p}
	case flush | hijack | push:
		return struct {
			*writer
			flusher
			hijacker
			pusher
		}{w, f, h, p}
	case read | push:
		return struct {
			*writer
			readerFrom
			pusher
		}{w, r, p}
	case flush | read | push:
		return struct {
			*writer
			flusher
			readerFrom
			pusher
		}{w, f, r, p}
	case hijack | read | push:
		return struct {
			*writer
			hijacker
			readerFrom
			pusher
		}{w, h, r, p}
	case flush | hijack | read | push:
		return struct {
			*writer
			flusher
			hijacker
			readerFrom
			pusher
		}{w, f, h, r, p}
	}
	return w
}
