// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync/atomic"

	"github.com/signposthq/signpost"
)

// ErrBody is wrapped by every error of reading a request's body that is the client's: its encoding is
// broken, or it ends before its end. A proxy tells it from a failure of what is behind it.
var ErrBody = errors.New("request body cannot be read")

// errTooLarge is how a meter says that what it measures is above the limit.
var errTooLarge = errors.New("request body is too large")

// body is the request's body, held to the limit. It may be read on another goroutine than the
// handler's, as the transport of a reverse proxy does.
type body struct {
	io.Closer
	src      io.Reader
	request  *http.Request
	encoding string // "" if the bytes mean themselves
	max      int64
	left     int64
	err      error // sticky
	tooLarge atomic.Bool

	// Reading the body of a client that waits for "100 Continue" sends it: the first byte of an answer.
	expected bool
	commit   signpost.Commit
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// limit prepares b to stand for the body of r, and reports whether there is one.
func (b *body) limit(r *http.Request, most int64, c signpost.Commit) bool {
	if !hasBody(r) {
		return false
	}
	if most < 0 {
		most = math.MaxInt64 - 1
	}
	b.Closer, b.src, b.request = r.Body, r.Body, r
	b.max, b.left = most, most
	if b.encoding != "" {
		b.src = &meter{tap: tap{src: r.Body, left: most}, encoding: b.encoding, left: most}
	}
	b.expected, b.commit = r.Header.Get("Expect") != "", c
	return true
}

// Read implements io.Reader. Beyond the limit it returns an *http.MaxBytesError, of a body that is broken an [ErrBody].
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.expected {
		b.expected = false
		if err := b.commit.Wait(b.request.Context()); err != nil && !errors.Is(err, signpost.ErrNotDurable) {
			b.err = err
			return 0, err
		}
	}
	if int64(len(p)) > b.left+1 { // one more than may be, to see whether there is more
		p = p[:b.left+1]
	}
	n, err := b.src.Read(p)
	if int64(n) > b.left || errors.Is(err, errTooLarge) {
		n, err = int(min(int64(n), b.left)), &http.MaxBytesError{Limit: b.max}
		b.tooLarge.Store(true)
	} else if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrBody, err)
	}
	b.left -= int64(n)
	b.err = err
	return n, err
}
