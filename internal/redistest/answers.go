// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// answers reads what a server says value by value, and leaves out pushes while the proxy is mute. What is not of the protocol, such as
// TLS, it reads as it is.
type answers struct {
	in    *bufio.Reader
	proxy *Proxy
	rest  []byte // of a value that has been read
	other bool   // it is not of the protocol
}

// Read implements [io.Reader].
func (a *answers) Read(b []byte) (int, error) {
	for len(a.rest) == 0 {
		if first, err := a.in.Peek(1); err == nil && !strings.Contains("+-:_#,($=!*~>%", string(first)) {
			a.other = true
		}
		if a.other {
			return a.in.Read(b)
		}
		value, err := a.value(nil)
		if err != nil {
			return 0, err
		}
		if value[0] == '>' && a.proxy.mute.Load() {
			a.proxy.muted.Add(1)
			continue
		}
		a.rest = value
	}
	n := copy(b, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// value appends the next value of the protocol, whole.
func (a *answers) value(b []byte) ([]byte, error) {
	line, err := a.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	b = append(b, line...)
	count := func() (int, error) { return strconv.Atoi(strings.TrimSpace(string(line[1:]))) }
	parts := 0
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		return b, nil
	case '$', '=', '!':
		n, err := count()
		if err != nil || n < 0 {
			return b, err
		}
		at := len(b)
		b = append(b, make([]byte, n+2)...)
		_, err = io.ReadFull(a.in, b[at:])
		return b, err
	case '*', '~', '>':
		parts = 1
	case '%':
		parts = 2
	default:
		return nil, fmt.Errorf("server said %q", line)
	}
	n, err := count()
	for range n * parts {
		if err == nil {
			b, err = a.value(b)
		}
	}
	return b, err
}
