// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestValues(t *testing.T) {
	const (
		before = "%2\r\n+server\r\n$5\r\nredis\r\n+proto\r\n:3\r\n"
		push   = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\n>a\n\r\n"
		after  = "*3\r\n$-1\r\n_\r\n*0\r\n-ERR no\r\n$4\r\n>\r\n>\r\n"
		sealed = "\x16\x03\x03\x00>2\r\n+a\r\n"
	)
	for _, mute := range []bool{false, true} {
		for said, want := range map[string]string{before + push + after: before + after, push + push: "", after: after, sealed: sealed} {
			if !mute {
				want = said
			}
			p := &Proxy{}
			p.Mute(mute)
			v := &values{in: bufio.NewReader(iotest.OneByteReader(strings.NewReader(said))), drops: p.drops}
			got, err := io.ReadAll(iotest.OneByteReader(v))
			if err != nil || string(got) != want {
				t.Errorf("mute=%v, of %q: %q, error %v; want %q", mute, said, got, err, want)
			}
			if n := p.Muted(); mute && n != strings.Count(said, "invalidate") || !mute && n != 0 {
				t.Errorf("mute=%v, of %q: %d pushes were dropped", mute, said, n)
			}
		}
	}
}

func TestCommandOf(t *testing.T) {
	for value, want := range map[string]string{
		"*1\r\n$4\r\nPING\r\n":                           "PING",
		"*3\r\n$7\r\nevalsha\r\n$2\r\nab\r\n$1\r\n0\r\n": "EVALSHA",
		"*0\r\n": "", "*1\r\n:1\r\n": "", "+OK\r\n": "", "*2\r\n*1\r\n$1\r\na\r\n": "", "GET / HTTP/1.1\r\nHost: x\r\n\r\n": "", "": "",
	} {
		if got := commandOf([]byte(value)); got != want {
			t.Errorf("%q is the command %q, want %q", value, got, want)
		}
	}
}
