// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signposthq/signpost/internal/daemon"
)

const adminToken = "an-admin-token-for-tests"

// running is a daemon that runs in this process.
type running struct {
	Door, API, Admin string // URLs
	MCP              string // where clients of MCP connect, if they do
	Link             string // of the first start, or ""
	log              *syncBuffer
	stop             func() error // as SIGTERM does; returns what Run returned
}

// start runs a daemon on free ports with a memory store, unless the settings, NAME=value without the
// prefix SIGNPOST_, say otherwise.
func start(t *testing.T, settings ...string) *running {
	t.Helper()
	env := []string{"SIGNPOST_ADMIN_TOKEN=" + adminToken, "SIGNPOST_STORE=memory", "SIGNPOST_LOG=debug",
		"SIGNPOST_DOOR=127.0.0.1:0", "SIGNPOST_API=127.0.0.1:0", "SIGNPOST_ADMIN=127.0.0.1:0"}
	for _, s := range settings {
		env = append(env, "SIGNPOST_"+s)
	}
	return startWith(t, daemon.Sources{Env: env})
}

func startWith(t *testing.T, s daemon.Sources) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stdout, greeting := io.Pipe()
	r := &running{log: new(syncBuffer)}
	ended := make(chan error, 1)
	go func() {
		err := daemon.Run(ctx, daemon.Options{Sources: s, Stdout: greeting, Stderr: r.log, JSON: true})
		greeting.CloseWithError(io.EOF)
		ended <- err
	}()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { r.stop() })
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the daemon did not start: %v", r.stop())
	}
	if err := json.Unmarshal(line, r); err != nil {
		t.Fatalf("greeting %q: %v", line, err)
	}
	return r
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// response is an answer whose body has been read.
type response struct {
	status int
	header http.Header
	body   string
}

// ask sends a request. Header is a list of names and values.
func ask(t *testing.T, method, url, body string, header ...string) response {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host // where the client takes it from
	}
	return send(t, req)
}

func send(t *testing.T, req *http.Request) response {
	t.Helper()
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       20 * time.Second,
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{resp.StatusCode, resp.Header, string(text)}
}

func bearer(link string) []string { return []string{"Authorization", "Bearer " + link} }

// member returns a member of a JSON object as text.
func member(t *testing.T, body, name string) string {
	t.Helper()
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if object[name] == nil {
		return ""
	}
	return fmt.Sprint(object[name])
}

func wantStatus(t *testing.T, what string, got response, want int) {
	t.Helper()
	if got.status != want {
		t.Fatalf("%s: status %d, want %d; body: %s", what, got.status, want, got.body)
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "signpost.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestSampleBehindTheDoor(t *testing.T) {
	d := start(t)
	agents := ask(t, "GET", d.Door+"/AGENTS.md", "", bearer(d.Link)...)
	wantStatus(t, "AGENTS.md", agents, 200)
	if cc := agents.header.Get("Cache-Control"); cc != "public, max-age=60" || agents.header["Ratelimit"] != nil {
		t.Errorf("AGENTS.md: Cache-Control %q, RateLimit %q; others may cache it, so it must carry no counters", cc, agents.header["Ratelimit"])
	}
	read := ask(t, "GET", d.Door+"/s/"+d.Link+"/read/welcome", "")
	wantStatus(t, "read with the link in the path", read, 200)
	if read.header["Ratelimit"] == nil || read.header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("read: header %v, want RateLimit and Referrer-Policy: no-referrer", read.header)
	}
	wantStatus(t, "remember", ask(t, "POST", d.Door+"/remember/milk", "Buy milk.", bearer(d.Link)...), 201)
	wantStatus(t, "remember again", ask(t, "POST", d.Door+"/remember/milk", "Buy milk.", bearer(d.Link)...), 409)
	wantStatus(t, "edit", ask(t, "POST", d.Door+"/edit/milk", "Buy oat milk.", bearer(d.Link)...), 200)
	recall := ask(t, "GET", d.Door+"/recall?q=oat", "", bearer(d.Link)...)
	if recall.body != `{"notes":["milk"]}`+"\n" {
		t.Errorf("recall: %s", recall.body)
	}
	if policy := recall.header["Ratelimit"]; len(policy) != 1 || !strings.Contains(policy[0], `"concurrency";r=9`) {
		t.Errorf("recall: RateLimit %q; it is expensive, so it must tell the concurrency", policy)
	}
	for _, shape := range []struct{ what, body string }{
		{"too many relations", strings.Repeat("[[a]] ", 101)},
		{"too many blocks", strings.Repeat("a\n\n", 2001)},
		{"not UTF-8", "\xff"},
	} {
		wantStatus(t, shape.what, ask(t, "POST", d.Door+"/edit/milk", shape.body, bearer(d.Link)...), 422)
	}
	wantStatus(t, "a long name", ask(t, "POST", d.Door+"/remember/"+strings.Repeat("a", 101), "", bearer(d.Link)...), 422)
	wantStatus(t, "the longest markdown", ask(t, "POST", d.Door+"/edit/milk", strings.Repeat("\U0001f95b", 262_144), bearer(d.Link)...), 200)
	wantStatus(t, "one byte more than the longest body", ask(t, "POST", d.Door+"/edit/milk", strings.Repeat("a", 4*262_144+1), bearer(d.Link)...), 413)
}

// A listener reads no more of a header than a caller of ours needs, whoever sends it.
func TestNobodySendsALargeHeader(t *testing.T) {
	d := start(t)
	for _, url := range []string{d.Door, d.API, d.Admin} {
		wantStatus(t, url, ask(t, "GET", url+"/", "", "X-Long", strings.Repeat("a", 128<<10)), 431)
	}
}

func TestWhoMayNotPass(t *testing.T) {
	d := start(t)
	unknown := "sp_" + strings.Repeat("x", 32)
	for _, c := range []struct {
		what, path string
		header     []string
		status     int
	}{
		{"no link", "/read/welcome", nil, 401},
		{"unknown link", "/read/welcome", bearer(unknown), 401},
		{"unknown link in the path", "/s/" + unknown + "/read/welcome", nil, 401},
		{"half a link in the path", "/s/sp_abc/read/welcome", nil, 401},
		{"two links that differ", "/s/" + d.Link + "/read/welcome", bearer(unknown), 400},
		{"a link and another scheme", "/s/" + d.Link + "/read/welcome", []string{"Authorization", "Basic eDp5"}, 400},
		{"a link in the query", "/recall?q=" + d.Link, bearer(d.Link), 400},
		{"the limits of an unknown link", "/s/" + unknown + "/.well-known/limits", nil, 401},
		{"the same link twice", "/s/" + d.Link + "/read/welcome", bearer(d.Link), 200},
		{"the admin token", "/read/welcome", bearer(adminToken), 401},
	} {
		got := ask(t, "GET", d.Door+c.path, "", c.header...)
		wantStatus(t, c.what, got, c.status)
		if c.status != 200 && (got.header.Get("Cache-Control") != "no-store" || got.header.Get("Content-Type") != "application/problem+json") {
			t.Errorf("%s: header %v, want a problem that no cache keeps", c.what, got.header)
		}
		if inPath := strings.Contains(got.body, "/s/LINK/"); inPath != (c.what == "no link" || c.status == 400) {
			t.Errorf("%s: the body names the form in the path: %v: %s", c.what, inPath, got.body)
		}
		challenge := ""
		if c.status == 401 {
			challenge = `Bearer realm="api"`
			if c.what != "no link" {
				challenge += `, error="invalid_token"`
			}
		}
		if got := got.header.Get("WWW-Authenticate"); got != challenge {
			t.Errorf("%s: WWW-Authenticate %q, want %q", c.what, got, challenge)
		}
	}
	if got := metric(t, d, `signpost_takes_total{class="cheap",door="http",outcome="admitted"}`); got != "1" {
		t.Errorf("%s takes were admitted, want 1: who is not known touches no count", got)
	}
	for reason, want := range map[string]string{"no_credential": "1", "unknown_credential": "4", "bad_credential": "3"} {
		if got := metric(t, d, `signpost_turned_away_total{door="http",reason="`+reason+`"}`); got != want {
			t.Errorf("%s were turned away with %s, want %s", got, reason, want)
		}
	}
}

// A client that sends everything before it reads sees why it was turned away, wherever the link is that is wrong.
func TestWhoMayNotPassReadsSoAfterALargeBody(t *testing.T) {
	d := start(t)
	body := strings.Repeat("x", 4<<20)
	for path, want := range map[string]int{"/s/sp_short/x": 401, "/?link=" + d.Link: 400, "/x": 401} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(d.Door, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		what := strings.ReplaceAll(path, d.Link, "LINK")
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body); err != nil {
			t.Errorf("%s: the body was cut off: %v", what, err)
		}
		if got, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || got.StatusCode != want {
			t.Errorf("%s: %v, %v; want %d", what, got, err, want)
		}
	}
}

func TestRefusalTellsTheExactWait(t *testing.T) {
	d := start(t, "BOUNDS_LINKS=600/365d 10 concurrent")
	for i := range 600 {
		wantStatus(t, "request "+strconv.Itoa(i+1), ask(t, "GET", d.Door+"/read/welcome", "", bearer(d.Link)...), 200)
	}
	before := time.Now()
	got := ask(t, "GET", d.Door+"/read/welcome", "", bearer(d.Link)...)
	after := time.Now()
	wantStatus(t, "request 601", got, 429)
	const length = 365 * 24 * 3600
	end := time.Unix((before.Unix()/length+1)*length, 0)
	wait, err := strconv.Atoi(got.header.Get("Retry-After"))
	longest, shortest := end.Sub(before).Seconds()+1, end.Sub(after).Seconds()
	if err != nil || float64(wait) < shortest || float64(wait) > longest {
		t.Errorf("Retry-After %q, want %.1f to %.1f: the seconds until the window ends, rounded up", got.header.Get("Retry-After"), shortest, longest)
	}
	if body := member(t, got.body, "retryAfterSeconds"); body != strconv.Itoa(wait) {
		t.Errorf("the body says %s and the header %d", body, wait)
	}
	eventually(t, "one line about the first refusal", func() bool {
		return strings.Count(d.log.String(), `"msg":"first refusal of a key"`) == 1
	})
	ask(t, "GET", d.Door+"/read/welcome", "", bearer(d.Link)...)
	if n := strings.Count(d.log.String(), `"msg":"first refusal of a key"`); n != 1 {
		t.Errorf("%d lines about one refused key in one window, want 1", n)
	}
	if got := metric(t, d, `signpost_takes_total{class="cheap",door="http",outcome="refused"}`); got != "2" {
		t.Errorf("%s takes were refused, want 2", got)
	}
}

func TestConcurrencyThroughTheProxy(t *testing.T) {
	release := make(chan struct{})
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { <-release })
	d := start(t, "UPSTREAM="+up, "EXPENSIVE=POST /work", "BOUNDS_LINKS=600/day 2 concurrent")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { ask(t, "POST", d.Door+"/work", "", bearer(d.Link)...) })
	}
	defer wg.Wait()
	eventually(t, "two leases in flight", func() bool { return metric(t, d, "signpost_leases_in_flight") == "2" })
	refused := ask(t, "POST", d.Door+"//work", "", bearer(d.Link)...) // another spelling of the path is as expensive
	wantStatus(t, "third at once", refused, 429)
	if code := member(t, refused.body, "error"); code != "concurrency_limit_exceeded" {
		t.Errorf("error %q", code)
	}
	close(release)
	eventually(t, "no lease in flight", func() bool { return metric(t, d, "signpost_leases_in_flight") == "0" })
	wantStatus(t, "after they ended", ask(t, "POST", d.Door+"/work", "", bearer(d.Link)...), 200)
}

// metric returns the value of one series, or "" if there is none.
func metric(t *testing.T, d *running, series string) string {
	t.Helper()
	got := ask(t, "GET", d.Admin+"/metrics", "", bearer(adminToken)...)
	wantStatus(t, "metrics", got, 200)
	for line := range strings.Lines(got.body) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func TestHeaderFamiliesCanBeTurnedOff(t *testing.T) {
	for _, c := range []struct {
		setting           string
		ratelimit, legacy bool
	}{
		{"HEADERS_RATELIMIT=true", true, true},
		{"HEADERS_RATELIMIT=false", false, true},
		{"HEADERS_X_RATELIMIT=false", true, false},
	} {
		d := start(t, c.setting, "BEFORE_HANDLER=true")
		h := ask(t, "GET", d.Door+"/read/welcome", "", bearer(d.Link)...).header
		if got := h["Ratelimit"] != nil; got != c.ratelimit {
			t.Errorf("%s: RateLimit %v", c.setting, h["Ratelimit"])
		}
		if got := h["X-Ratelimit-Limit"] != nil; got != c.legacy {
			t.Errorf("%s: X-RateLimit-Limit %v", c.setting, h["X-Ratelimit-Limit"])
		}
		tried := ask(t, "POST", d.Door+"/try", "")
		wantStatus(t, "try", tried, 201)
		if ratelimit, legacy := tried.header["Ratelimit"] != nil, tried.header["X-Ratelimit-Limit"] != nil; ratelimit != c.ratelimit || legacy != c.legacy {
			t.Errorf("%s: POST /try answers %v", c.setting, tried.header)
		}
	}
}

// A preflight carries no link, and has none to be counted for.
func TestPreflights(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	preflight := []string{"Origin", "https://app.example", "Access-Control-Request-Method", "POST"}
	d := start(t, "UPSTREAM="+up)
	wantStatus(t, "preflight", ask(t, "OPTIONS", d.Door+"/", "", preflight...), 204)
	wantStatus(t, "OPTIONS that is none", ask(t, "OPTIONS", d.Door+"/", ""), 401)
	d = start(t, "UPSTREAM="+up, "PREFLIGHTS=false")
	wantStatus(t, "preflight where they are counted", ask(t, "OPTIONS", d.Door+"/", "", preflight...), 401)
}

// A preflight passes unidentified, so what its URL says of links is judged before any door.
func TestNoLinkReachesTheUpstreamInAURL(t *testing.T) {
	seen := make(chan *http.Request, 1)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { seen <- r })
	d := start(t, "UPSTREAM="+up)
	coded := "%73p_" + d.Link[len("sp_"):]
	for _, method := range []string{"GET", "OPTIONS"} {
		for path, want := range map[string]int{
			"/?link=" + d.Link: 400, "/read/" + d.Link: 400, "/?t=" + coded: 400, "/?t=" + coded + "&x=%zz": 400, "/s/" + d.Link + "x/": 401, "/try?t=" + d.Link: 400,
			"/.well-known/limits?t=" + d.Link: 400,
		} {
			got := ask(t, method, d.Door+path, "", append([]string{"Origin", "https://app.example", "Access-Control-Request-Method", "POST"}, bearer(d.Link)...)...)
			wantStatus(t, method+" "+strings.ReplaceAll(path, d.Link, "LINK"), got, want)
		}
	}
	for _, referer := range []string{d.Door + "/s/" + d.Link + "/", d.Door + "/s/" + coded + "/", d.Door + "/s/" + coded + "/?x=%zz"} {
		wantStatus(t, "referer", ask(t, "GET", d.Door+"/", "", append([]string{"Referer", referer}, bearer(d.Link)...)...), 200)
		if r := <-seen; r.Header.Get("Referer") != "" {
			t.Errorf("the upstream is told of the page %q", r.Header.Get("Referer"))
		}
	}
	select {
	case r := <-seen:
		t.Errorf("%s %s reached the upstream", r.Method, r.RequestURI)
	default:
	}
	if got := metric(t, d, `signpost_turned_away_total{door="http",reason="bad_credential"}`); got != "12" {
		t.Errorf("%s were turned away with bad_credential, want 12", got)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A first link that nobody was shown is not the first.
func TestAGreetingThatFailsCostsNoFirstLink(t *testing.T) {
	env := []string{"SIGNPOST_ADMIN_TOKEN=" + adminToken, "SIGNPOST_DATA=" + t.TempDir(),
		"SIGNPOST_DOOR=127.0.0.1:0", "SIGNPOST_API=127.0.0.1:0", "SIGNPOST_ADMIN=127.0.0.1:0"}
	err := daemon.Run(t.Context(), daemon.Options{Sources: daemon.Sources{Env: env}, Stdout: brokenPipe{}, Stderr: io.Discard})
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Fatalf("Run without a stdout: %v", err)
	}
	d := startWith(t, daemon.Sources{Env: env})
	wantStatus(t, "the first link of the second start", ask(t, "GET", d.Door+"/read/welcome", "", bearer(d.Link)...), 200)
}
