// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
)

// errUnmerged is a response that answers cannot be added to.
var errUnmerged = errors.New("response to a part of a batch is neither JSON nor an event stream")

// merge adds the answers of the proxy to the response to the rest of a batch. An answer that is an error for the whole of the
// rest passes as it is.
func (x *post) merge(resp *http.Response) error {
	h := resp.Header
	if resp.StatusCode >= 300 {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	joined := bytes.Join(x.answers, []byte{','})
	var body io.Reader
	switch {
	case resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent: // to the rest there is no answer
		resp.StatusCode, resp.Status = http.StatusOK, ""
		form, whole := x.inForm(x.answers)
		h.Set("Content-Type", form)
		body = bytes.NewReader(whole)
	case h.Get("Content-Encoding") != "":
		return errUnmerged
	case kind == "text/event-stream":
		body = io.MultiReader(bytes.NewReader(events(x.answers)), resp.Body)
	case kind == "application/json":
		rest := bufio.NewReader(resp.Body)
		first, err := solid(rest)
		switch {
		case err != nil:
			return err
		case first == '[':
			next, err := solid(rest)
			if err != nil {
				return err
			}
			if err := rest.UnreadByte(); err != nil {
				return err
			}
			if next != ']' {
				joined = append(joined, ',')
			}
			body = io.MultiReader(bytes.NewReader(append([]byte{'['}, joined...)), rest)
		default: // one response
			head := append(append([]byte{'['}, joined...), ',', first)
			body = io.MultiReader(bytes.NewReader(head), rest, bytes.NewReader([]byte{']'}))
		}
	default:
		return errUnmerged
	}
	resp.ContentLength = -1
	h.Del("Content-Length")
	resp.Body = struct {
		io.Reader
		io.Closer
	}{body, resp.Body}
	return nil
}

// solid reads the next byte that is no space.
func solid(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, nil
		}
	}
}
