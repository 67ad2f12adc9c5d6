// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// mcpClient calls a tool again and again, over one connection. It knows as much of HTTP as the servers here
// write, and allocates nothing per call, so that what is measured is theirs.
type mcpClient struct {
	conn    net.Conn
	r       *bufio.Reader
	session string
	request []byte // whole, with an id that each call overwrites
	id      []byte // its digits in request
	text    []byte // of the right answer
	answer  []byte // the body of the last one
}

const (
	firstID     = 1_000_000_000 // so that no run needs more digits
	mcpRevision = "2025-11-25"
)

// dialMCP opens a session for the holder of a link, whose calls have an argument of so many bytes.
func dialMCP(addr, token string, argument int) (*mcpClient, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial MCP subject: %w", err)
	}
	c := &mcpClient{conn: conn, r: bufio.NewReader(conn)}
	for _, hello := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + mcpRevision + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		c.request = c.post(addr, token, hello)
		if status, err := c.exchange(); err != nil || status/100 != 2 {
			conn.Close()
			return nil, fmt.Errorf("open session: status %d: %w", status, errors.Join(err, errors.New(string(c.answer))))
		}
	}
	c.request = c.post(addr, token, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":"%s"}}}`,
		firstID, mcpTool, strings.Repeat("x", argument)))
	at := bytes.Index(c.request, []byte(strconv.Itoa(firstID)))
	c.id = c.request[at : at+len(strconv.Itoa(firstID))]
	c.text = fmt.Appendf(nil, `"text":"%d"`, argument)
	return c, nil
}

// post returns a request.
func (c *mcpClient) post(addr, token, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", mcpPath, addr, token)
	if c.session != "" {
		fmt.Fprintf(&b, "Mcp-Session-Id: %s\r\nMcp-Protocol-Version: %s\r\n", c.session, mcpRevision)
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return b.Bytes()
}

// call calls the tool, and reports whether the answer was right: that of the tool to this very call.
func (c *mcpClient) call() (right bool, _ error) {
	for i := len(c.id) - 1; ; i-- {
		if c.id[i]++; c.id[i] <= '9' {
			break
		}
		c.id[i] = '0'
	}
	status, err := c.exchange()
	return err == nil && status == 200 && bytes.Contains(c.answer, c.id) && bytes.Contains(c.answer, c.text) && !bytes.Contains(c.answer, isError), err
}

var isError = []byte(`"isError":true`)

// exchange sends the request, and reads the whole answer.
func (c *mcpClient) exchange() (status int, err error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return 0, fmt.Errorf("send: %w", err)
	}
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	if _, rest, ok := bytes.Cut(line, []byte(" ")); ok && len(rest) >= 3 {
		status = number(rest[:3], 10)
	}
	length, chunked := 0, false
	for {
		if line, err = c.line(); err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(name, contentLength):
			length = number(value, 10)
		case bytes.EqualFold(name, transferEncoding):
			chunked = true
		case c.session == "" && bytes.EqualFold(name, sessionID):
			c.session = string(value)
		}
	}
	c.answer = c.answer[:0]
	if !chunked {
		return status, c.take(length)
	}
	for {
		if line, err = c.line(); err != nil {
			return 0, err
		}
		n := number(line, 16)
		if err := c.take(n); err != nil {
			return 0, err
		}
		if _, err := c.line(); err != nil || n == 0 { // the servers here send no trailer
			return status, err
		}
	}
}

var (
	contentLength    = []byte("Content-Length")
	transferEncoding = []byte("Transfer-Encoding")
	sessionID        = []byte("Mcp-Session-Id")
)

// line reads a line without its end.
func (c *mcpClient) line() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("read line of an answer: %w", err)
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// take reads so many bytes of the answer's body.
func (c *mcpClient) take(n int) error {
	at := len(c.answer)
	for cap(c.answer) < at+n {
		c.answer = append(c.answer[:cap(c.answer)], 0)
	}
	c.answer = c.answer[:at+n]
	if _, err := io.ReadFull(c.r, c.answer[at:]); err != nil {
		return fmt.Errorf("read body of an answer: %w", err)
	}
	return nil
}

// number reads one, and returns 0 for anything else.
func number(text []byte, base int) int {
	n, _ := strconv.ParseInt(string(text), base, 32)
	return int(n)
}
