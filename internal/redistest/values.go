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

// values reads what a server or its client says value by value: each Read returns what is of one. What is not of the protocol, such as
// TLS, it reads as it is.
type values struct {
	in    *bufio.Reader
	drops func(value []byte) bool
	rest  []byte // of a value that has been read
	other bool   // it is not of the protocol
}

// drops reports whether a value is a push that is not to arrive.
func (p *Proxy) drops(value []byte) bool {
	if value[0] != '>' || !p.mute.Load() {
		return false
	}
	p.muted.Add(1)
	return true
}

func dropsNothing([]byte) bool { return false }

// commandOf returns the name of the command that a value is, or "" if it is none.
func commandOf(value []byte) string {
	if parts := strings.SplitN(string(value), "\r\n", 4); len(parts) == 4 && strings.HasPrefix(parts[0], "*") && strings.HasPrefix(parts[1], "$") {
		return strings.ToUpper(parts[2])
	}
	return ""
}

// Read implements [io.Reader].
func (v *values) Read(b []byte) (int, error) {
	for len(v.rest) == 0 {
		if first, err := v.in.Peek(1); err == nil && !strings.Contains("+-:_#,($=!*~>%", string(first)) {
			v.other = true
		}
		if v.other {
			return v.in.Read(b)
		}
		value, err := v.value(nil)
		if err != nil {
			return 0, err
		}
		if !v.drops(value) {
			v.rest = value
		}
	}
	n := copy(b, v.rest)
	v.rest = v.rest[n:]
	return n, nil
}

// value appends the next value of the protocol, whole.
func (v *values) value(b []byte) ([]byte, error) {
	line, err := v.in.ReadBytes('\n')
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
		_, err = io.ReadFull(v.in, b[at:])
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
			b, err = v.value(b)
		}
	}
	return b, err
}
