// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor

import (
	"context"
	"net/http"
	"sync"
)

// methodListen opens a stream on which the server speaks unasked, from revision 2026-07-28 on. Before, that is a GET.
const methodListen = "subscriptions/listen"

// listening are the streams of a proxy on which the server speaks unasked. They end only with their clients, so a program that stops would
// wait for them in vain. It ends them itself, once nothing else is under way: until then a call may ask its user something there.
type listening struct {
	ended context.Context
	end   context.CancelFunc

	mu       sync.Mutex
	others   int // requests that are forwarded and are no such streams
	stopping bool
}

func newListening() *listening {
	s := &listening{}
	s.ended, s.end = context.WithCancel(context.Background())
	return s
}

// stop ends the streams as soon as nothing else is under way.
func (s *listening) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	s.look()
}

// count notes that n more requests are under way, or that they are no more.
func (s *listening) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others += n
	s.look()
}

// look requires mu.
func (s *listening) look() {
	if s.stopping && s.others == 0 {
		s.end()
	}
}

// listens reports whether the request is one for such a stream and nothing else.
func (x *post) listens() bool {
	if x.request.Method == http.MethodGet {
		return true
	}
	for _, c := range x.calls {
		if c.method != methodListen {
			return false
		}
	}
	return len(x.calls) > 0
}

// bounded returns the context of a request that is forwarded, which ends with a program that stops if the request is for such a stream, and
// what is to be called when the request is over.
func (x *post) bounded(ctx context.Context) (context.Context, func()) {
	s, stopping := x.proxy.listening, x.proxy.o.Stopping
	if stopping == nil {
		return ctx, func() {}
	}
	if !x.listens() {
		s.count(1)
		return ctx, func() { s.count(-1) }
	}
	ctx, cancel := context.WithCancel(ctx)
	ended, stopped := context.AfterFunc(s.ended, cancel), context.AfterFunc(stopping, s.stop)
	return ctx, func() {
		stopped()
		ended()
		cancel()
	}
}
