// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost/door/httpdoor"
)

// endless sends a beginning, and then the same piece again and again.
type endless struct {
	begin, piece string
	sent         int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.begin)
	e.begin = e.begin[n:]
	for n+len(e.piece) <= len(p) {
		n += copy(p[n:], e.piece)
	}
	if e.sent += n; e.sent > 1<<24 {
		return 0, errors.New("somebody reads on for ever")
	}
	return n, nil
}

// What decodes to nothing has a size as well.
func TestEncodedBodyThatDecodesToNothing(t *testing.T) {
	const limit = 100_000
	gzipHead := "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	emptyBlock := "\x00\x00\x00\xff\xff"
	emptyMember := gzipHead + "\x01\x00\x00\xff\xff" + "\x00\x00\x00\x00\x00\x00\x00\x00"
	for name, body := range map[string]*endless{
		"gzip blocks":    {begin: gzipHead, piece: emptyBlock},
		"gzip members":   {piece: emptyMember},
		"deflate blocks": {begin: "\x78\x9c", piece: emptyBlock},
		"bare blocks":    {piece: emptyBlock},
	} {
		encoding, _, _ := strings.Cut(name, " ")
		if encoding == "bare" {
			encoding = "deflate"
		}
		var tooLarge *http.MaxBytesError
		h := wrap(t, newStore(), httpdoor.Options{MaxBody: limit, Identify: caller("10/min")}, func(w http.ResponseWriter, r *http.Request) {
			if n, err := io.Copy(io.Discard, r.Body); !errors.As(err, &tooLarge) || n > limit {
				t.Errorf("%s: read %d bytes, %v", name, n, err)
			}
		})
		r := httptest.NewRequest("POST", "/", body)
		r.ContentLength = -1
		r.Header.Set("Content-Encoding", encoding)
		if w := record(h, r); w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d, want 413", name, w.Code)
		}
		if body.sent > 3*limit {
			t.Errorf("%s: %d bytes were read of a body that may have %d", name, body.sent, limit)
		}
	}
}

// A client that promises a body and sends none gets its answer all the same, and holds no connection.
func TestRefusalOfABodyThatNeverComes(t *testing.T) {
	t.Parallel()
	stranger := func(*http.Request) (httpdoor.Caller, error) { return httpdoor.Caller{}, httpdoor.ErrNoCredential }
	server := httptest.NewServer(wrap(t, newStore(), httpdoor.Options{Identify: stranger}, hello))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: door\r\nContent-Length: 1000\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("%v, %v", resp, err)
	}
	io.Copy(io.Discard, resp.Body)
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("the connection goes on: %v", err)
	}
}
