// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// upstream runs a service and returns its URL.
func upstream(t *testing.T, serve http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	return s.URL
}

// nowhere is the URL of a service that is not there. A port that was free a moment ago may be another's by now.
const nowhere = "http://127.0.0.1:1"

func TestWhatTheUpstreamSees(t *testing.T) {
	seen := make(chan *http.Request, 1)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Signpost-RateLimit", "degraded")
		w.Header().Set("X-Signpost-Link", "other")
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusServiceUnavailable)
		seen <- r
	})
	d := start(t, "UPSTREAM="+up+"/base", "TRUSTED_PROXIES=192.0.2.1")
	got := ask(t, "POST", d.Door+"/s/"+d.Link+"/a%2Fb?x=1;y=2", "hello",
		"X-Signpost-RateLimit", "degraded", "X-Signpost-Link", "other", "x-signpost-anything", "1",
		"X-Forwarded-For", "203.0.113.9", "X-Forwarded-Host", "evil.example", "Forwarded", "for=203.0.113.9",
		"Referer", d.Door+"/s/"+d.Link+"/page", "Accept", "text/plain")
	r := <-seen
	if r.RequestURI != "/base/a%2Fb?x=1;y=2" {
		t.Errorf("URI %q, want what came after the link, as it was", r.RequestURI)
	}
	for name, want := range map[string]string{
		"Authorization":        "",
		"Referer":              "",
		"X-Signpost-Ratelimit": "",
		"X-Signpost-Anything":  "",
		"Forwarded":            "",
		"Accept":               "text/plain",
		"X-Forwarded-For":      "127.0.0.1",
		"X-Forwarded-Host":     strings.TrimPrefix(d.Door, "http://"),
		"X-Forwarded-Proto":    "http",
	} {
		if got := strings.Join(r.Header[name], "|"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if id := r.Header["X-Signpost-Link"]; len(id) != 1 || len(id[0]) != 16 || strings.Contains(d.Link, id[0]) {
		t.Errorf("X-Signpost-Link: %q, want the public ID alone", id)
	}
	if want := strings.TrimPrefix(up, "http://"); r.Host != want {
		t.Errorf("Host: %q, want %q", r.Host, want)
	}
	if got.status != 503 || strings.Join(got.header["Retry-After"], "|") != "120" {
		t.Errorf("status %d, Retry-After %q; the upstream's own must pass", got.status, got.header["Retry-After"])
	}
	for _, name := range []string{"X-Signpost-Ratelimit", "X-Signpost-Link"} {
		if got.header[name] != nil {
			t.Errorf("%s: %q of the upstream reached the client", name, got.header[name])
		}
	}
}

func TestKeepAuthorizationAndTrustedProxy(t *testing.T) {
	seen := make(chan *http.Request, 1)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { seen <- r })
	d := start(t, "UPSTREAM="+up, "KEEP_AUTHORIZATION=true", "TRUSTED_PROXIES=127.0.0.0/8")
	ask(t, "GET", d.Door+"/", "", "Authorization", "Bearer "+d.Link,
		"X-Forwarded-For", "203.0.113.9", "X-Forwarded-Host", "api.example", "X-Forwarded-Proto", "https")
	r := <-seen
	for name, want := range map[string]string{
		"Authorization":     "Bearer " + d.Link,
		"X-Forwarded-For":   "203.0.113.9, 127.0.0.1",
		"X-Forwarded-Host":  "api.example",
		"X-Forwarded-Proto": "https",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestDeadAndSlowUpstream(t *testing.T) {
	d := start(t, "UPSTREAM="+nowhere)
	for range 3 {
		got := ask(t, "GET", d.Door+"/", "", bearer(d.Link)...)
		wantStatus(t, "dead upstream", got, 502)
		if got.header.Get("Cache-Control") != "no-store" || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("header %v, want a problem that no cache keeps", got.header)
		}
		if !strings.Contains(got.body, "The request may have reached it.") { // which nobody knows of a GET
			t.Errorf("dead upstream: %s", got.body)
		}
	}
	if n := strings.Count(d.log.String(), `"msg":"upstream does not answer"`); n != 1 {
		t.Errorf("%d lines about one outage, want 1", n)
	}

	hang := make(chan struct{})
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { <-hang })
	defer close(hang)
	d = start(t, "UPSTREAM="+up, "UPSTREAM_TIMEOUT=20ms")
	wantStatus(t, "slow upstream", ask(t, "GET", d.Door+"/", "", bearer(d.Link)...), 504)
}

func TestBodyThatTurnsOutTooLarge(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	d := start(t, "UPSTREAM="+up, "SHAPE_MARKDOWN=100")
	for size, want := range map[int]int{400: 200, 401: 413} {
		req, err := http.NewRequest("POST", d.Door+"/", io.MultiReader(strings.NewReader(strings.Repeat("a", size)))) // of no declared size
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+d.Link)
		got := send(t, req)
		wantStatus(t, fmt.Sprintf("%d bytes", size), got, want)
		if want == 413 && member(t, got.body, "maxInputBytes") != "400" {
			t.Errorf("body: %s", got.body)
		}
	}
}

func TestBrokenBodyIsNoOutage(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	d := start(t, "UPSTREAM="+up)
	for encoding, body := range map[string]string{"gzip": "abc", "deflate": "\x78\x9cabc"} {
		got := ask(t, "POST", d.Door+"/", body, append(bearer(d.Link), "Content-Encoding", encoding)...)
		wantStatus(t, "broken "+encoding, got, 400)
		if member(t, got.body, "error") != "malformed_body" {
			t.Errorf("broken %s: %s", encoding, got.body)
		}
	}

	// A chunk that does not end where it says.
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.Door, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n", d.Link)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 400 {
		t.Errorf("broken chunk: %v, %v; want 400", resp, err)
	}

	for _, kind := range []string{"other", "timeout"} {
		if n := metric(t, d, `signpost_upstream_errors_total{kind="`+kind+`"}`); n != "0" && n != "" {
			t.Errorf("%s errors of the upstream: %s, want none", kind, n)
		}
	}
	if log := d.log.String(); strings.Contains(log, "upstream does not answer") {
		t.Errorf("log:\n%s", log)
	}
}

func TestRedirectsStayBehindTheDoor(t *testing.T) {
	var location string
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusFound)
	})
	d := start(t, "UPSTREAM="+up+"/base")
	for _, c := range []struct{ from, plain, inPath string }{
		{"/base/x?q=1", "/x?q=1", "/s/LINK/x?q=1"},
		{"/x/", "/x/", "/s/LINK/x/"},
		{up + "/base/x#f", "/x#f", "/s/LINK/x#f"},
		{up, "/", "/s/LINK/"},
		{"/base//elsewhere.example/x", "/.//elsewhere.example/x", "/s/LINK//elsewhere.example/x"},
		{up + "//elsewhere.example/x", "/.//elsewhere.example/x", "/s/LINK//elsewhere.example/x"},
		{"next", "next", "next"},
		{"https://elsewhere.example/base/x", "https://elsewhere.example/base/x", "https://elsewhere.example/base/x"},
		{"//elsewhere.example/x", "//elsewhere.example/x", "//elsewhere.example/x"},
		{strings.Replace(up, "//", "//u:p@", 1) + "/x", "/x", "/s/LINK/x"},
		{"/base/a%2Fb", "/a%2Fb", "/s/LINK/a%2Fb"},
	} {
		location = c.from
		if got := ask(t, "GET", d.Door+"/", "", bearer(d.Link)...).header.Get("Location"); got != c.plain {
			t.Errorf("%s: %q, want %q", c.from, got, c.plain)
		}
		want := strings.Replace(c.inPath, "LINK", d.Link, 1)
		if got := ask(t, "GET", d.Door+"/s/"+d.Link, "").header.Get("Location"); got != want {
			t.Errorf("%s, with the link in the path: %q, want %q", c.from, got, want)
		}
	}
}

func TestStreamsAndUpgrades(t *testing.T) {
	next := make(chan struct{})
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			rw.Flush()
			io.Copy(conn, rw)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	d := start(t, "UPSTREAM="+up, "EXPENSIVE=/")

	req, err := http.NewRequest("GET", d.Door+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.Link)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(resp.Body)
	for i := range 3 { // each event must arrive before the next one is made
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d: %q, %v", i, line, err)
		}
		lines.ReadString('\n')
		next <- struct{}{}
	}
	resp.Body.Close()
	eventually(t, "the lease of the stream is given back", func() bool { return metric(t, d, "signpost_leases_in_flight") == "0" })

	conn, err := net.Dial("tcp", strings.TrimPrefix(d.Door, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", d.Link)
	r := bufio.NewReader(conn)
	head, err := http.ReadResponse(r, nil)
	if err != nil || head.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v, %v", head, err)
	}
	fmt.Fprint(conn, "ping\n")
	if line, err := r.ReadString('\n'); line != "ping\n" {
		t.Fatalf("echo: %q, %v", line, err)
	}
	if got := metric(t, d, "signpost_leases_in_flight"); got != "1" {
		t.Errorf("%s leases in flight while the connection is open, want 1", got)
	}
	conn.Close()
	eventually(t, "the lease of the connection is given back", func() bool { return metric(t, d, "signpost_leases_in_flight") == "0" })
}

// What an upstream has read is not sent to it again, if it may change something.
func TestRequestsAreSentOnce(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	kept := map[string]bool{}
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path]++
		if kept[r.RemoteAddr] {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		kept[r.RemoteAddr] = true
	})
	d := start(t, "UPSTREAM="+up)
	for i, field := range []string{"X-Nothing", "Idempotency-Key", "X-Idempotency-Key"} {
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			path := fmt.Sprint("/", method, i)
			wantStatus(t, "the first on a connection", ask(t, method, d.Door+"/", "", append(bearer(d.Link), field, "a")...), 200)
			second := ask(t, method, d.Door+path, "", append(bearer(d.Link), field, "a")...)
			wantStatus(t, "the second on it", second, 502)
			if !strings.Contains(second.body, "The request may have reached it.") {
				t.Errorf("%s with %s: %s", method, field, second.body)
			}
			mu.Lock()
			if seen[path] != 1 {
				t.Errorf("%s with %s was sent %d times", method, field, seen[path])
			}
			mu.Unlock()
		}
	}
}
