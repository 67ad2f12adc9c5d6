// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/mcpdoor"
)

var oneSlot = mcpdoor.ProxyOptions{Charges: mcpdoor.Charges{Expensive: []string{"slow", "echo"}}}

// request returns a POST of a body as alice.
func (b *bench) request(ctx context.Context, body string, fields ...string) *http.Request {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", b.url, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer alice")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

// A caller that has read the answer may call again at once: the slot is free before the answer has left.
func TestProxySlotIsFreeBeforeTheAnswerHasLeft(t *testing.T) {
	each(t, overHTTP, func(t *testing.T, m mode) {
		b := behindProxy(t, m, "10000/min, 1 concurrent", oneSlot)
		s := b.connect("alice", nil)
		for i := range 100 {
			if res := call(t, s, "echo"); res.IsError {
				t.Fatalf("call %d: %s", i, text(res))
			}
		}
	})
}

// transport is a way to a server, in a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Over HTTP/2 the end of a body comes after its last byte. If its length was declared, that byte is enough.
func TestProxySlotIsFreeAtTheLastByte(t *testing.T) {
	s := newStore()
	answer := `{"jsonrpc":"2.0","id":1,"result":{}}`
	o := oneSlot
	o.Transport = transport(func(r *http.Request) (*http.Response, error) {
		end := readerFunc(func([]byte) (int, error) {
			if s.releases() != 1 {
				t.Error("the slot was not given back when the whole answer was read")
			}
			return 0, io.EOF
		})
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(answer)), Request: r,
			Body: io.NopCloser(io.MultiReader(strings.NewReader(answer), end))}, nil
	})
	b := &bench{t: t, store: s}
	b.url = startProxy(t, s, "http://upstream", "5/min, 1 concurrent", o)
	if _, body := b.post("alice", "", callMessage("1", "slow")); body != answer {
		t.Errorf("answered %s", body)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// An event stream that goes on after the answer holds no slot. One that has said something else does.
func TestProxySlotEndsWithTheAnswerNotTheStream(t *testing.T) {
	next := make(chan string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			w.(http.Flusher).Flush()
			select {
			case event := <-next:
				io.WriteString(w, event)
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer s.Close()
	b := &bench{t: t, store: newStore()}
	b.url = startProxy(t, b.store, s.URL, "5/min, 1 concurrent", oneSlot)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := http.DefaultClient.Do(b.request(ctx, callMessage(`"é"`, "echo"), "MCP-Protocol-Version", "2026-07-28"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for _, event := range []string{
		"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"id\":\"é\"}}\n\n",
		"data: {\"jsonrpc\":\"2.0\",\"id\":\"é\",\"method\":\"sampling/createMessage\"}\n\n",
		"data: {\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":{}}\n\n",
	} {
		next <- event
		for lines.Scan() && lines.Text() != "" { // the client has all of it
		}
		if n := b.store.releases(); n != 0 {
			t.Fatalf("the slot was given back after %s", event)
		}
	}
	next <- "id: 1\r\nevent: message\r\ndata:{\"result\":{\"content\":[{\"id\":1}]},\r\ndata: \"id\":\"\\u00e9\",\"jsonrpc\":\"2.0\"}\r\n\r\n"
	eventually(t, "the slot is free", func() bool { return b.store.releases() == 1 })
}

// In revisions where a client may come back for the answer, the work goes on without it, and so does its slot. Later ones cancel the work.
func TestProxyHoldsTheSlotOfWorkThatGoesOn(t *testing.T) {
	for _, m := range overHTTP[2:] {
		t.Run(m.name, func(t *testing.T) {
			for _, revision := range []string{"", "2025-11-25", "2026-07-28"} {
				b := behindProxy(t, m, "100/min, 1 concurrent", oneSlot)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				body, fields := callMessage("1", "slow"), []string(nil)
				if revision != "" {
					fields = []string{"MCP-Protocol-Version", revision}
				}
				if revision == "2026-07-28" {
					fields = append(fields, "Mcp-Method", "tools/call", "Mcp-Name", "slow")
					body = strings.Replace(body, `"arguments":{}`, `"arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
						`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`, 1)
				}
				gone := make(chan error, 1)
				go func() {
					res, err := http.DefaultClient.Do(b.request(ctx, body, fields...))
					if err == nil {
						_, err = io.ReadAll(res.Body)
						res.Body.Close()
					}
					gone <- err
				}()
				<-b.running
				cancel()
				if err := <-gone; err == nil {
					t.Fatalf("%q: a call that nobody lets end was answered", revision)
				}
				if revision != "2026-07-28" {
					if _, body := b.post("alice", "", callMessage("2", "echo")); !strings.Contains(body, "Concurrency limit exceeded") {
						t.Errorf("%q: the slot of work that goes on was given back: %s", revision, body)
					}
					<-b.slow
				}
				eventually(t, "the slot is free", func() bool { return b.store.releases() == 1 })
			}
		})
	}
}

// Nobody waits for ever for work whose client has gone.
func TestProxyGivesWorkOfNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.at = 0 // the clock of the bubble
		o := oneSlot
		o.Transport = transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		p := newProxy(t, s, "http://upstream", "100/min, 1 concurrent", o)
		b := &bench{t: t, url: "http://proxy/"}
		ctx, hangUp := context.WithCancel(t.Context())
		begun := time.Now()
		time.AfterFunc(time.Minute, hangUp)
		func() {
			defer func() {
				if r := recover(); r != http.ErrAbortHandler {
					t.Errorf("panics with %v", r)
				}
			}()
			p.ServeHTTP(httptest.NewRecorder(), b.request(ctx, callMessage("1", "slow")))
		}()
		if took := time.Since(begun); took != 11*time.Minute || s.releases() != 1 {
			t.Errorf("it was waited for %v, and %d slots were given back", took, s.releases())
		}
	})
}

// A stream that breaks off ends with an error for each request without an answer, unless the client can come back for it.
func TestProxyServerDiesInMidCall(t *testing.T) {
	for _, c := range []struct {
		name, sent, read string
		whole            bool
		encoding         string
	}{
		{"nothing sent", ": begun\n\n", ": begun\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":502,", true, ""},
		{"in mid-event", "data: {\"json", "data: {\"json", false, ""},
		{"resumable", "id: 1\ndata: {}\n\n", "id: 1\ndata: {}\n\n", false, ""},
		{"encoded", ": begun\n\n", ": begun\n\n", false, "br"},
	} {
		t.Run(c.name, func(t *testing.T) {
			die := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				if c.encoding != "" {
					w.Header().Set("Content-Encoding", c.encoding)
				}
				io.WriteString(w, c.sent)
				w.(http.Flusher).Flush()
				<-die
				panic(http.ErrAbortHandler)
			}))
			defer s.Close()
			b := &bench{t: t, store: newStore()}
			b.url = startProxy(t, b.store, s.URL, "5/min, 1 concurrent", oneSlot)
			res, err := http.DefaultClient.Do(b.request(t.Context(), callMessage("7", "echo")))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if n := b.store.releases(); n != 0 {
				t.Error("the slot was given back when the answer began")
			}
			close(die)
			all, err := io.ReadAll(res.Body)
			if got := string(all); (err == nil) != c.whole || !strings.HasPrefix(got, c.read) || !c.whole && got != c.read {
				t.Errorf("read %q, %v", all, err)
			}
			eventually(t, "the slot is free", func() bool { return b.store.releases() == 1 })
		})
	}
}

// That work goes on is no less so if the server begins its answer when the client has gone, and the count is not durable yet.
func TestProxyHoldsTheSlotOfWorkThatIsNotYetDurable(t *testing.T) {
	running, begin, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var called atomic.Bool
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if called.Swap(true) {
			return
		}
		close(running)
		<-begin
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-end // and heeds no end of its request
	}))
	defer up.Close()
	defer close(end)
	durable := newPromise()
	b := &bench{t: t, store: newStore()}
	b.store.set(func(s *store) { s.commit = durable.commit() })
	b.url = startProxy(t, b.store, up.URL, "100/min, 1 concurrent", oneSlot)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(b.request(ctx, callMessage("1", "slow")))
		gone <- err
	}()
	<-running
	b.store.set(func(s *store) { s.commit = signpost.Commit{} })
	cancel()
	if err := <-gone; err == nil {
		t.Fatal("a call that nobody lets end was answered")
	}
	close(begin)
	for i := range 100 {
		if _, body := b.post("alice", "", callMessage("2", "slow")); !strings.Contains(body, "Concurrency limit exceeded") {
			t.Fatalf("the slot of work that goes on was given back: %s", body)
		}
		if i == 50 {
			durable.settle(nil)
		}
	}
}

// A server that has no answer for a call may do the work later.
func TestProxyKeepsTheSlotOfWorkToCome(t *testing.T) {
	for _, status := range []int{http.StatusAccepted, http.StatusNoContent} {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(status)
		}))
		for _, call := range []string{callMessage("1", "slow"), strings.Replace(callMessage("1", "slow"), `"id":1,`, "", 1)} {
			b := &bench{t: t, store: newStore()}
			b.url = startProxy(t, b.store, up.URL, "100/min, 1 concurrent", oneSlot)
			if res, body := b.post("alice", "", call); res.StatusCode != status {
				t.Errorf("%d: %s is answered %d %s", status, call, res.StatusCode, body)
			}
			if _, body := b.post("alice", "", callMessage("2", "slow")); !strings.Contains(body, "Concurrency limit exceeded") {
				t.Errorf("%d: after %s the slot was given back: %s", status, call, body)
			}
		}
		up.Close()
	}
}

// A server that takes too long may be at work still, so the slot is left to end by itself. One that cannot be reached is not.
func TestProxyKeepsTheSlotOfWorkThatTakesTooLong(t *testing.T) {
	for reached, want := range map[bool]string{true: "does not answer. The call may have reached it.", false: "cannot be reached. Nothing was executed."} {
		end := make(chan struct{})
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-end
		}))
		b := &bench{t: t, store: newStore()}
		transport := &http.Transport{ResponseHeaderTimeout: 20 * time.Millisecond}
		if !reached {
			transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
			}
		}
		o := oneSlot
		o.Transport = transport
		b.url = startProxy(t, b.store, up.URL, "100/min, 1 concurrent", o)
		if _, body := b.post("alice", "", callMessage("1", "slow")); !strings.Contains(body, want) {
			t.Errorf("reached=%v: the first call: %s", reached, body)
		}
		if _, body := b.post("alice", "", callMessage("2", "slow")); strings.Contains(body, "Concurrency limit exceeded") != reached {
			t.Errorf("reached=%v: the second call: %s", reached, body)
		}
		if res, body := b.post("alice", "", `{"jsonrpc":"2.0","method":"notifications/progress"}`); res.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("reached=%v: a notification is answered %d %s", reached, res.StatusCode, body)
		}
		close(end)
		up.Close()
		transport.CloseIdleConnections()
	}
}
