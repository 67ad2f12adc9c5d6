// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signposthq/signpost/door/httpdoor"
)

func compress(t testing.TB, encoding, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	case "flate":
		w, _ = flate.NewWriter(&b, flate.BestCompression)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCompressedBodies(t *testing.T) {
	const limit = 1 << 17
	fits, bomb := strings.Repeat("x", limit), strings.Repeat("x", limit+1)
	huge := strings.Repeat("x", 4<<20)
	random := func() string { // does not compress
		var b strings.Builder
		x := uint32(1)
		for b.Len() < 100_000 {
			x = x*1664525 + 1013904223
			b.WriteByte(byte(x >> 24))
		}
		return b.String()
	}()
	two := append(compress(t, "gzip", fits[:limit/2]), compress(t, "gzip", fits[limit/2:])...)
	for _, c := range []struct {
		name     string
		encoding []string
		body     []byte
		want     int
	}{
		{"gzip", []string{"gzip"}, compress(t, "gzip", fits), 200},
		{"gzip that does not compress", []string{"GZIP"}, compress(t, "gzip", random), 200},
		{"x-gzip, and identity", []string{"identity, x-gzip"}, compress(t, "gzip", "small"), 200},
		{"gzip of nothing", []string{"gzip"}, compress(t, "gzip", ""), 200},
		{"gzip, one more", []string{"gzip"}, compress(t, "gzip", bomb), 413},
		{"gzip, a bomb", []string{"gzip"}, compress(t, "gzip", huge), 413},
		{"gzip of two members", []string{"gzip"}, two, 200},
		{"gzip of two members, one more", []string{"gzip"}, append(bytes.Clone(two), compress(t, "gzip", "x")...), 413},
		{"zlib", []string{"deflate"}, compress(t, "zlib", fits), 200},
		{"zlib, one more", []string{"deflate"}, compress(t, "zlib", bomb), 413},
		{"bare deflate", []string{"deflate"}, compress(t, "flate", fits), 200},
		{"bare deflate, a bomb", []string{"deflate"}, compress(t, "flate", huge), 413},
		{"bare deflate that begins like zlib", []string{"deflate"}, []byte{0x08, 1, 0, 0xfe, 0xff, 'x', 1, 0, 0, 0xff, 0xff}, 200},
		{"what is no gzip", []string{"gzip"}, []byte("hello"), 400},
		{"half a gzip", []string{"gzip"}, compress(t, "gzip", random)[:50_000], 400},
		{"gzip and more", []string{"gzip"}, append(compress(t, "gzip", "small"), "more"...), 400},
		{"zlib and more", []string{"deflate"}, append(compress(t, "zlib", "small"), "more"...), 400},
		{"bare deflate and more", []string{"deflate"}, append(compress(t, "flate", "small"), "more"...), 400},
		{"unknown", []string{"br"}, []byte("hello"), 415},
		{"two", []string{"gzip, gzip"}, compress(t, "gzip", "small"), 415},
		{"two lines", []string{"gzip", "deflate"}, compress(t, "gzip", "small"), 415},
		{"none of it", []string{"identity"}, []byte("hello"), 200},
		{"no body", []string{"br"}, nil, 200},
	} {
		for _, declared := range []bool{true, false} {
			s := newStore()
			door := wrap(t, s, httpdoor.Options{Identify: caller("9/min"), MaxBody: limit}, func(w http.ResponseWriter, r *http.Request) {
				got, err := io.ReadAll(r.Body)
				if err != nil {
					w.WriteHeader(400)
					return
				}
				if !bytes.Equal(got, c.body) {
					t.Errorf("%s: the handler got %d bytes that are not the %d that were sent", c.name, len(got), len(c.body))
				}
			})
			server := serve(t, door, false)
			var body io.Reader
			switch {
			case c.body == nil:
			case declared:
				body = bytes.NewReader(c.body)
			default:
				body = chunked{bytes.NewReader(c.body)}
			}
			r := request(t, "POST", server.URL, body)
			r.Header["Content-Encoding"] = c.encoding
			res, _ := do(t, server, r)
			if res.StatusCode != c.want {
				t.Errorf("%s, declared %v: %d, want %d", c.name, declared, res.StatusCode, c.want)
			}
			if c.want == 415 && (res.Header.Get("Accept-Encoding") != "gzip, deflate" || s.takes() != 0) {
				t.Errorf("%s: %v after %d takes", c.name, res.Header, s.takes())
			}
		}
	}
}

// A compressed stream does not have to end before the handler sees its beginning.
func TestCompressedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, in := io.Pipe()
		got := 0
		door := wrap(t, newStore(), httpdoor.Options{Identify: caller("9/min")}, func(w http.ResponseWriter, r *http.Request) {
			for buf := make([]byte, 1<<10); ; {
				n, err := r.Body.Read(buf)
				if got += n; err != nil {
					return
				}
			}
		})
		r := httptest.NewRequest("POST", "/", out)
		r.Header.Set("Content-Encoding", "gzip")
		done := make(chan struct{})
		go func() {
			defer close(done)
			record(door, r)
		}()
		stream := gzip.NewWriter(in)
		sent := []int{}
		for _, piece := range []string{"one", "two", "three"} {
			io.WriteString(stream, piece)
			stream.Flush()
			synctest.Wait()
			sent = append(sent, got)
		}
		stream.Close()
		in.Close()
		<-done
		if sent[1] == 0 || sent[2] <= sent[1] || got <= sent[2] {
			t.Errorf("the handler had %d bytes after each piece, and %d at the end", sent, got)
		}
	})
}

// Whatever is sent as gzip or deflate: the handler gets exactly those bytes, or an error, and never
// what decodes to more than the limit.
func FuzzEncodedBody(f *testing.F) {
	f.Add("gzip", compress(f, "gzip", strings.Repeat("hello", 300)))
	f.Add("gzip", append(compress(f, "gzip", "a"), compress(f, "gzip", "b")...))
	f.Add("deflate", compress(f, "zlib", "hello"))
	f.Add("deflate", compress(f, "flate", strings.Repeat("hello", 300)))
	f.Add("deflate", []byte{0x78})
	f.Add("identity", []byte("hello"))
	const limit = 1000
	var sent []byte
	var encoding string
	door := wrap(f, newStore(), httpdoor.Options{Identify: caller("4294967294/hour"), MaxBody: limit}, func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if !bytes.HasPrefix(sent, got) || err == nil && len(got) != len(sent) {
			panic(fmt.Sprintf("sent %x, got %x, %v", sent, got, err))
		}
		if err != nil {
			w.WriteHeader(400)
			return
		}
		if encoding == "gzip" && len(got) > 0 {
			decoder, err := gzip.NewReader(bytes.NewReader(got))
			if err != nil {
				panic(err)
			}
			if n, err := io.Copy(io.Discard, decoder); n > limit || err != nil {
				panic(fmt.Sprintf("let through what decodes to %d bytes, %v", n, err))
			}
		}
	})
	f.Fuzz(func(t *testing.T, enc string, body []byte) {
		sent, encoding = body, strings.ToLower(strings.Trim(enc, " \t"))
		r := httptest.NewRequest("POST", "/", chunked{bytes.NewReader(body)})
		r.Header.Set("Content-Encoding", enc)
		switch got := record(door, r).Code; got {
		case 200, 400, 413, 415:
		default:
			t.Errorf("%d", got)
		}
	})
}
