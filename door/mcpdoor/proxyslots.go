// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"context"
	"io"
	"time"

	"github.com/signposthq/signpost/internal/hold"
)

// closingRevision is the first in which a client cancels a call by closing its response. Before, it may come back for the
// answer, and the work goes on.
const closingRevision = "2026-07-28"

// closingCancels reports whether the client speaks such a revision, as the server reads it. What no client of one would send is not believed:
// the slot would be back while the work goes on. There are no sessions in these revisions.
func (x *post) closingCancels() bool {
	said := x.request.Header.Values("MCP-Protocol-Version")
	if len(said) != 1 || said[0] < closingRevision || x.request.Header.Get("Mcp-Session-Id") != "" {
		return false
	}
	_, err := time.Parse(time.DateOnly, said[0])
	return err == nil
}

// outlive returns the context of what is forwarded. It ends with the client's request, unless there is work that goes on without the client and
// holds a slot: then it ends with that work, or so long after the client has gone. A stream that the client can come back to must end, or a
// server would not let it.
func (x *post) outlive() context.Context {
	ctx := x.request.Context()
	if !x.working() || x.closingCancels() {
		return ctx
	}
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if x.resumable.Load() || !x.working() {
			cancel()
			return
		}
		late := time.AfterFunc(hold.Max, cancel)
		context.AfterFunc(longer, func() { late.Stop() })
	})
	x.outlives, x.cancel = true, func() { stop(); cancel() }
	return longer
}

// working reports whether a call has a slot, and may still give it back.
func (x *post) working() bool {
	for _, c := range x.calls {
		if c.hold.Begun() && !c.ended.Load() && !c.forgone.Load() {
			return true
		}
	}
	return false
}

// incoming is the response of the server on its way to the client. It gives back the slot of each call as the answer to it goes past: to keep
// it until the answer is sent would refuse a caller that has read it and goes on.
type incoming struct {
	io.ReadCloser
	post   *post
	left   int64        // of the length that was declared; below 0 if there is none
	events *eventReader // nil: it is no event stream
	clean  func()       // the trailer
	tail   []byte       // what the proxy adds
	err    error        // sticky
}

// Read implements io.Reader.
func (b *incoming) Read(p []byte) (int, error) {
	if b.err != nil {
		n := copy(p, b.tail)
		if b.tail = b.tail[n:]; len(b.tail) > 0 {
			return n, nil
		}
		return n, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if b.events != nil {
		b.events.read(p[:n])
		b.post.mayResume(b.events.resumable)
	}
	if b.left -= int64(n); b.left == 0 {
		b.post.release()
	}
	if err == nil {
		return n, nil
	}
	if b.post.proxy.listening.ended.Err() != nil && b.post.listens() && (b.events == nil || !b.events.inside) {
		err = io.EOF // as the server itself would end it
	}
	b.err = err
	b.clean()
	if err != io.EOF && b.events != nil && !b.events.resumable && !b.events.inside {
		if b.tail = events(b.post.unanswered(noAnswer)); len(b.tail) > 0 {
			b.err, err = io.EOF, nil
		}
	}
	if err == io.EOF || b.post.request.Context().Err() != nil {
		b.post.lapseIfResumable()
	}
	b.post.release()
	return n, err
}

// lapse leaves the slots of calls without an answer to end by themselves: their work may go on.
func (x *post) lapse() {
	for _, c := range x.calls {
		if !c.ended.Load() {
			c.hold.Lapse()
		}
	}
}

// lapseIfResumable does so if the client can come back for the answers.
func (x *post) lapseIfResumable() {
	if x.outlives && x.resumable.Load() {
		x.lapse()
	}
}

// mayResume notes that the client can come back.
func (x *post) mayResume(is bool) {
	if !is || x.resumable.Swap(true) || !x.outlives {
		return
	}
	if x.request.Context().Err() != nil { // it has gone already
		x.cancel()
	}
}

// Close implements io.Closer. If the client has gone, and work goes on that has a slot, it reads on until that ends.
func (b *incoming) Close() error {
	x := b.post
	if b.err == nil {
		x.lapseIfResumable()
	}
	if b.err != nil || !x.outlives || !x.working() || x.resumable.Load() {
		return b.ReadCloser.Close()
	}
	x.outlived = true
	go func() {
		defer x.cancel()
		defer x.release()
		defer b.ReadCloser.Close()
		buf := make([]byte, 4096)
		for x.working() {
			if _, err := b.Read(buf); err != nil {
				return
			}
		}
	}()
	return nil
}

// answeredID notes that the response to a request has gone past.
func (x *post) answeredID(id []byte) {
	for _, c := range x.calls {
		if c.refusal == nil && c.message.request() && !c.ended.Load() && sameID(c.message.id, id) {
			c.ended.Store(true)
			c.hold.End()
			return
		}
	}
}
