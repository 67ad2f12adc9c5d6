// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package mcpdoor_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
)

// replaced returns the URLs of a proxy and of one that takes its place.
func replaced(t *testing.T, s *store, upstream string, o mcpdoor.ProxyOptions) (before, after string, p *mcpdoor.Proxy) {
	t.Helper()
	p = newProxy(t, s, upstream, "100/min, 1 concurrent", o)
	p.SetLeaseLife(0)
	o.Replaces = p
	successor := newProxy(t, s, upstream, "100/min, 1 concurrent", o)
	successor.SetLeaseLife(0)
	var urls []string
	for _, h := range []http.Handler{p, successor} {
		front := httptest.NewServer(h)
		t.Cleanup(front.Close)
		urls = append(urls, front.URL)
	}
	return urls[0], urls[1], p
}

// A call that came before can be cancelled after. Otherwise it would go on in a server that ends no response to a cancelled call.
func TestCallIsCancelledAtTheSuccessor(t *testing.T) {
	c := &cancelledCall{&bench{t: t, store: newStore()}, startMute(t, true), nil, make(chan struct{})}
	before, after, _ := replaced(t, c.store, c.up.url, oneSlot)
	c.url = before
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(c.gone)
		if res, err := http.DefaultClient.Do(c.request(ctx, callMessage(`"a"`, "slow"), "Mcp-Session-Id", "s")); err == nil {
			_, _ = io.ReadAll(res.Body)
			res.Body.Close()
		}
	}()
	<-c.up.begun
	c.url = after
	c.cancel("alice", "s", `"a"`)
	cancel()
	<-c.gone
	select {
	case <-c.up.hungUp:
	case <-time.After(30 * time.Second):
		t.Fatal("the call goes on without its client")
	}
}

// A stream that was opened before ends after the last call, wherever that came.
func TestStreamOutlivesTheCallsOfTheSuccessor(t *testing.T) {
	server := &talker{make(chan string, 1), make(chan struct{})}
	up := httptest.NewServer(server)
	t.Cleanup(up.Close)
	stopping, stop := context.WithCancel(t.Context())
	defer stop()
	before, after, p := replaced(t, newStore(), up.URL, mcpdoor.ProxyOptions{Stopping: stopping})
	b := &bench{t: t, url: before}
	r := b.request(t.Context(), "")
	r.Method = http.MethodGet
	server.say <- "first" // or there is no answer before a call
	stream, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	b.url = after
	answered := make(chan string, 1)
	go func() {
		_, answer := b.post("alice", "", callMessage("1", "slow"))
		answered <- answer
	}()
	<-server.slow
	stop()
	eventually(t, "the proxy stops", p.IsStopping)
	server.say <- "second"
	events := bufio.NewScanner(stream.Body)
	for _, want := range []string{"data: first", "", "data: second", ""} {
		if !events.Scan() || events.Text() != want {
			t.Fatalf("%q and %v, want %q", events.Text(), events.Err(), want)
		}
	}
	server.slow <- struct{}{}
	if answer := <-answered; !strings.Contains(answer, `"result"`) {
		t.Errorf("the call is answered %s", answer)
	}
}

func TestGuardCountsOnAtTheSuccessor(t *testing.T) {
	rec := &recorder{}
	up := httptest.NewServer(rec)
	t.Cleanup(up.Close)
	b := &bench{t: t, store: newStore()}
	before, after, _ := replaced(t, b.store, up.URL, mcpdoor.ProxyOptions{Guard: signpost.MustParseBound("1/366d")})
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for i, url := range []string{before, after} {
		b.url = url
		if _, body := b.post("alice", "", ping); strings.Contains(body, "free message") != (i == 1) {
			t.Errorf("ping %d: %s", i+1, body)
		}
	}
}

func TestUpstreamsThatAreNone(t *testing.T) {
	for _, upstream := range []string{"/mcp", "127.0.0.1/mcp", "ftp://127.0.0.1/mcp", "http:///mcp", "http://a:b@127.0.0.1/mcp", "http://127.0.0.1/mcp?key=1", "http://127.0.0.1/mcp#a", "http://[::1]:80/a%2Fb", "https://127.0.0.1"} {
		u, err := url.Parse(upstream)
		if err != nil {
			t.Fatal(err)
		}
		_, err = mcpdoor.NewProxy(signpost.New(newStore(), signpost.Options{}), mcpdoor.ProxyOptions{
			Identify: func(*http.Request) (httpdoor.Caller, error) { return callerOf("alice", "1/min"), nil }, Upstream: u})
		if good := strings.HasSuffix(upstream, "%2Fb") || strings.HasPrefix(upstream, "https"); (err == nil) != good || err != nil && strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", upstream, err)
		}
	}
}
