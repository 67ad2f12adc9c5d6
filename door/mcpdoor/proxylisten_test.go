// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/signposthq/signpost/door/mcpdoor"
)

// talker is a server that says on each stream what it is given, and answers a call when it can receive.
type talker struct {
	say  chan string
	slow chan struct{}
}

func (s *talker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if strings.Contains(string(body), "tools/call") {
		s.slow <- struct{}{} // it runs
		select {
		case <-s.slow:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		select {
		case text := <-s.say:
			fmt.Fprintf(w, "data: %s\n\n", text)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// A stream that would never end ends when the program stops, but not before a call that is under way, which may ask for something there.
func TestProxyThatStopsEndsStreams(t *testing.T) {
	for name, body := range map[string]string{
		"GET":                  "",
		"subscriptions/listen": `{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen"}`,
	} {
		t.Run(name, func(t *testing.T) {
			server := &talker{make(chan string), make(chan struct{})}
			up := httptest.NewServer(server)
			t.Cleanup(up.Close)
			stopping, stop := context.WithCancel(t.Context())
			defer stop()
			p := newProxy(t, newStore(), up.URL, "5/min", mcpdoor.ProxyOptions{Stopping: stopping})
			front := httptest.NewServer(p)
			t.Cleanup(front.Close)
			b := &bench{t: t, url: front.URL}

			r := b.request(t.Context(), body)
			if body == "" {
				r.Method = http.MethodGet
			}
			go func() { server.say <- "first" }()
			stream, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Body.Close()
			events := bufio.NewReader(stream.Body)
			hears := func(want string) {
				t.Helper()
				line, err := events.ReadString('\n')
				if err != nil || line != "data: "+want+"\n" {
					t.Fatalf("%v %q, want %q", err, line, want)
				}
				if line, err = events.ReadString('\n'); err != nil || line != "\n" {
					t.Fatalf("%v %q, want the end of the event", err, line)
				}
			}
			hears("first")

			answered := make(chan string, 1)
			go func() {
				_, answer := b.post("alice", "", callMessage("1", "slow"))
				answered <- answer
			}()
			<-server.slow
			stop()
			eventually(t, "the proxy stops", p.IsStopping)
			go func() { server.say <- "while the call runs" }()
			hears("while the call runs")
			server.slow <- struct{}{}
			if answer := <-answered; !strings.Contains(answer, `"result"`) {
				t.Errorf("the call is answered %s", answer)
			}
			if rest, err := io.ReadAll(events); err != nil || len(rest) > 0 {
				t.Errorf("the stream ends with %v and %q", err, rest)
			}
		})
	}
}

// lateStreams is a transport that reaches the server, but for the first stream on which it speaks unasked.
type lateStreams struct{ gets atomic.Int32 }

func (l *lateStreams) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && l.gets.Add(1) == 1 {
		return nil, errors.New("the server is away")
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A client whose stream cannot be opened tries again, and its session goes on.
func TestProxyStreamThatCannotBeOpened(t *testing.T) {
	for _, m := range overHTTP[:2] {
		late := &lateStreams{}
		b := behindProxy(t, m, "5/min", mcpdoor.ProxyOptions{Transport: late})
		s := b.connect("alice", nil)
		eventually(t, "the client tries again", func() bool { return late.gets.Load() > 1 })
		if res := call(t, s, "echo"); res.IsError {
			t.Errorf("a call says %s", text(res))
		}
	}
}
