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
	for _, subject := range MCPSubjects() {
		for _, stream := range []bool{false, true} {
			for argument, callers := range map[int]int{100: 3, 256 << 10: 1} {
				t.Run(fmt.Sprintf("%s, stream %v, %d bytes", subject, stream, argument), func(t *testing.T) {
					f, err := MCPRun{Subject: subject, Argument: argument, Stream: stream, Callers: callers}.Do()
					if err != nil {
						t.Fatal(err)
					}
					if f.Ops < 10*callers || f.Wrong != 0 {
						t.Errorf("%d of %d calls are wrong", f.Wrong, f.Ops)
					}
				})
			}
		}
	}
}

func TestMCPRawToolAnswersRight(t *testing.T) {
	f, err := MCPRun{Subject: MCPMiddleware, Argument: 100, Raw: true, Callers: 1}.Do()
	if err != nil || f.Wrong != 0 {
		t.Errorf("%d of %d calls are wrong, %v", f.Wrong, f.Ops, err)
	}
}

func TestMCPRunKnowsItsSubjects(t *testing.T) {
	if _, err := (MCPRun{Subject: "another", Callers: 1}).Do(); err == nil {
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
