// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"fmt"
	"net"
	"testing"
)

// A run looks at each answer, and at what was charged for them all.
func TestMCPSubjectsAnswerRightInARun(t *testing.T) {
	for _, r := range []MCPRun{
		{Argument: 100, Callers: 3},
		{Argument: 100, Callers: 1, Raw: true},
		{Argument: 256 << 10, Callers: 1},
		{Argument: 100, Callers: 3, Stream: true},
		{Argument: 256 << 10, Callers: 1, Stream: true},
	} {
		t.Run(fmt.Sprintf("%+v", r), func(t *testing.T) {
			r.Subjects = MCPSubjects()
			found, err := r.Do()
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range found {
				if f.Ops < 5*r.Callers || f.Wrong != 0 {
					t.Errorf("%s: %d of %d calls are wrong", r.Subjects[i], f.Wrong, f.Ops)
				}
			}
		})
	}
}

func TestMCPRunKnowsItsSubjects(t *testing.T) {
	if _, err := (MCPRun{Subjects: []string{"another"}, Callers: 1}).Do(); err == nil {
		t.Error("a subject that is not there is measured")
	}
}

// canned is a connection that reads the same answer for ever.
type canned struct {
	net.Conn
	answer string
	at     int
}

func (c *canned) Write(p []byte) (int, error) { return len(p), nil }
func (c *canned) Read(p []byte) (int, error) {
	n := copy(p, c.answer[c.at:])
	c.at = (c.at + n) % len(c.answer)
	return n, nil
}

func TestMCPCallersAllocateNothing(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Type: application/json\r\n\r\n{\"id\":10}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"id\r\n5\r\n\":10}\r\n0\r\n\r\n",
	} {
		c := &mcpClient{conn: &canned{answer: answer}, id: []byte("09")}
		c.r = bufio.NewReader(c.conn)
		if right, err := c.call(); !right || err != nil || string(c.answer) != `{"id":10}` {
			t.Errorf("%q, %v, %v", c.answer, right, err)
		}
		if n := testing.AllocsPerRun(100, func() { c.exchange() }); n != 0 {
			t.Errorf("%v allocations for %q", n, answer)
		}
	}
}
