// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// acceptedEncodings is what a 415 says in Accept-Encoding.
const acceptedEncodings = "gzip, deflate"

// encoding returns the content encoding of a request's body, "" for none. It reports false if the body's
// decoded size cannot be measured.
func encoding(r *http.Request) (name string, known bool) {
	fields := r.Header["Content-Encoding"]
	if len(fields) == 0 || !hasBody(r) {
		return "", true
	}
	for coding := range strings.SplitSeq(strings.Join(fields, ","), ",") {
		coding = strings.ToLower(strings.Trim(coding, " \t"))
		if coding == "" || coding == "identity" {
			continue
		}
		if name != "" {
			return "", false
		}
		name = coding
	}
	switch name {
	case "x-gzip":
		return "gzip", true
	case "", "gzip", "deflate":
		return name, true
	}
	return "", false
}

// meter lets a compressed body through as it was sent, and decodes a copy of it to know its size. It lets a
// piece through only once that piece has been decoded, so nobody can be given what decodes to too much.
type meter struct {
	tap      tap
	encoding string
	decoder  io.Reader // nil until the first read
	left     int64     // of the decoded size
	scratch  [4096]byte
	err      error
}

// tap gives the decoder what it reads of the body and keeps it for the handler.
type tap struct {
	src   io.Reader
	left  int64  // of the size on the wire: what decodes to nothing is kept as well
	ready []byte // decoded to the end
	ahead []byte // what the decoder has read last
}

// Read implements io.Reader. To read on, the decoder must be done with what it had.
func (t *tap) Read(p []byte) (int, error) {
	t.pass()
	n, err := t.src.Read(p)
	if t.left -= int64(n); t.left < 0 {
		return 0, errTooLarge
	}
	t.ahead = append(t.ahead, p[:n]...)
	return n, err
}

func (t *tap) pass() {
	t.ready = append(t.ready, t.ahead...)
	t.ahead = t.ahead[:0]
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	for len(m.tap.ready) == 0 && m.err == nil {
		m.advance()
	}
	if len(m.tap.ready) == 0 {
		return 0, m.err
	}
	n := copy(p, m.tap.ready)
	m.tap.ready = append(m.tap.ready[:0], m.tap.ready[n:]...)
	return n, nil
}

func (m *meter) advance() {
	if m.decoder == nil {
		if m.decoder, m.err = decode(m.encoding, &m.tap); m.err != nil {
			return
		}
	}
	n, err := m.decoder.Read(m.scratch[:])
	m.left -= int64(n)
	switch {
	case m.left < 0:
		m.err = errTooLarge
	case err == io.EOF:
		m.tap.pass()
		m.err = io.EOF
	case err != nil:
		m.err = fmt.Errorf("decode request body: %w", err)
	}
}

// decode returns a reader of what src decodes to. It ends where src ends, and nowhere before.
func decode(encoding string, src io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(src)
	if encoding == "gzip" {
		r, err := gzip.NewReader(buffered) // of all members, one after another
		if err != nil {
			return nil, fmt.Errorf("decode request body: %w", err)
		}
		return r, nil
	}
	// "deflate" means zlib, but there have always been senders of the bare stream.
	begin, _ := buffered.Peek(2)
	if len(begin) == 2 && begin[0]&0x0f == 8 && (int(begin[0])<<8|int(begin[1]))%31 == 0 {
		r, err := zlib.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("decode request body: %w", err)
		}
		return &whole{r, buffered}, nil
	}
	return &whole{flate.NewReader(buffered), buffered}, nil
}

// whole is a decoded stream after which nothing may come.
type whole struct {
	io.Reader
	src *bufio.Reader
}

// Read implements io.Reader.
func (w *whole) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err == io.EOF {
		if _, more := w.src.ReadByte(); more == nil {
			return n, errors.New("data after the end of the stream")
		} else if more != io.EOF {
			return n, more
		}
	}
	return n, err
}
