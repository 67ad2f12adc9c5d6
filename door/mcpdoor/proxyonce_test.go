// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/signposthq/signpost/door/mcpdoor"
)

// dying is a server that answers the first request. The connection of any other ends as it has been read, with end before that. It keeps the bodies that
// it was sent.
type dying struct {
	url string
	end func()

	mu   sync.Mutex
	seen []string
}

// newDying returns one that dies as a whole, or a connection at a time.
func newDying(t *testing.T, whole bool) *dying {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dying{url: "http://" + l.Addr().String(), end: func() {}}
	if whole {
		d.end = func() { l.Close() }
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { d.serve(c) })
		}
	})
	t.Cleanup(all.Wait)
	t.Cleanup(func() { l.Close() })
	return d
}

func (d *dying) serve(c net.Conn) {
	defer c.Close()
	for r := bufio.NewReader(c); ; {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		d.mu.Lock()
		d.seen = append(d.seen, string(body))
		first := len(d.seen) == 1
		d.mu.Unlock()
		if !first {
			d.end()
			return
		}
		const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
	}
}

func (d *dying) times(body string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.seen {
		if b == body {
			n++
		}
	}
	return n
}

// A call that a server has read is not sent again, whatever its client says of repeating it. It was counted once.
func TestProxySendsACallOnce(t *testing.T) {
	for _, field := range []string{"", "Idempotency-Key", "X-Idempotency-Key", "iDEMPOTENCY-kEY"} {
		t.Run(field, func(t *testing.T) {
			up, s, transport := newDying(t, false), newStore(), &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			b := &bench{t: t, store: s, url: startProxy(t, s, up.url, "10/min", mcpdoor.ProxyOptions{Transport: transport})}
			var fields []string
			if field != "" {
				fields = []string{field, "a"}
			}
			if _, body := b.post("alice", "", callMessage("1", "first"), fields...); !strings.Contains(body, `"result":{}`) {
				t.Fatalf("the first call: %s", body)
			}
			second := callMessage("1", "second")
			if _, body := b.post("alice", "", second, fields...); !strings.Contains(body, "The call may have reached it.") {
				t.Errorf("the second call: %s", body)
			}
			if n := up.times(second); n != 1 {
				t.Errorf("the second call was sent %d times", n)
			}
			if n := s.takes(); n != 2 {
				t.Errorf("%d takes for two calls", n)
			}
		})
	}
}

// A server that dies of a call, and is not there any more when the call could be sent again, has seen it.
func TestProxyOfAServerThatDiesOfACall(t *testing.T) {
	for _, field := range []string{"X-Nothing", "Idempotency-Key"} {
		up, transport := newDying(t, true), &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		b := &bench{t: t, store: newStore()}
		b.url = startProxy(t, b.store, up.url, "10/min", mcpdoor.ProxyOptions{Transport: transport})
		b.post("alice", "", callMessage("1", "first"), field, "a")
		for _, want := range []string{"The call may have reached it.", "Nothing was executed."} { // of the one that it died of, and of the next
			if _, body := b.post("alice", "", callMessage("1", "next"), field, "a"); !strings.Contains(body, want) {
				t.Errorf("with %s: %s, want %q", field, body, want)
			}
		}
	}
}
