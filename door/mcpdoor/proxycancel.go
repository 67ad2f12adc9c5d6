// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/signposthq/signpost"
)

// inFlight are the calls of a proxy that have a slot, so that another request can cancel them. It is safe for concurrent use.
type inFlight struct {
	mu    sync.Mutex
	calls map[session][]*sent
}

// session is who can cancel a call: its caller, in the session that the call belongs to, if there are any.
type session struct {
	caller signpost.Key
	id     string
}

func (x *post) session() session {
	return session{x.caller.Key, x.request.Header.Get("Mcp-Session-Id")}
}

// enter makes the calls of a post that have a slot known, until leave.
func (f *inFlight) enter(x *post) {
	if !x.working() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range x.calls {
		if c.hold.Begun() {
			x.entered = true
			f.calls[x.session()] = append(f.calls[x.session()], c)
		}
	}
}

func (f *inFlight) leave(x *post) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x.entered = false
	s := x.session()
	f.calls[s] = slices.DeleteFunc(f.calls[s], func(c *sent) bool { return c.post == x })
	if len(f.calls[s]) == 0 {
		delete(f.calls, s)
	}
}

// find returns a call with an id that was not cancelled yet. Without sessions two may have the same id, but of the slots of one caller one
// is as good as the other.
func (f *inFlight) find(s session, id []byte) []*sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls[s] {
		if sameID(c.message.id, id) && !c.cancelled.Swap(true) {
			return []*sent{c}
		}
	}
	return nil
}

// all returns every call of a session.
func (f *inFlight) all(s session) []*sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls[s])
}

// cancelOthers is called when the server has taken what the post says, and cancels what it cancels: one call, or all of a session that it
// ends. A server does not answer a call that was cancelled, and some never end its response. So the end of the work cannot be
// seen, and the lease is left to end by itself, unless the response ends before. It is not given back at once, or a caller
// could have any number of calls at work in a server that heeds no cancellation.
func (x *post) cancelOthers() {
	if s := x.session(); x.request.Method == http.MethodDelete && s.id != "" {
		x.proxy.neglect(x.proxy.inFlight.all(s))
	}
	for _, n := range x.calls {
		if n.method == methodCancelled && !n.message.request() {
			x.proxy.neglect(x.proxy.inFlight.find(x.session(), n.message.cancels))
		}
	}
}

func (p *Proxy) neglect(calls []*sent) {
	for _, c := range calls {
		c.hold.Neglect()
		time.AfterFunc(p.leaseLife, c.forgo)
	}
}

// forgo ends what is forwarded, if the client has gone and no other call of its post has a slot.
func (c *sent) forgo() {
	c.forgone.Store(true)
	if x := c.post; x.outlives && x.request.Context().Err() != nil && !x.working() {
		x.cancel()
	}
}
