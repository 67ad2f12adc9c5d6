// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

// exchange sends the bytes of one request to the door and returns what comes back, less its body.
func exchange(t *testing.T, d *running, request string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.Door, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(conn, request)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// A protocol other than WebSocket would carry requests past the count.
func TestNoUpgradeButWebSocket(t *testing.T) {
	seen := make(chan http.Header, 1)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { seen <- r.Header })
	d := start(t, "UPSTREAM="+up)
	for offer, want := range map[string]string{
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk":       "",
		"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk":                       "",
		"Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket":                             "",
		"Connection: Upgrade\r\nUpgrade: websocket, h2c":                                        "",
		"Connection: Upgrade\r\nUpgrade: TLS/1.0":                                               "",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk": "websocket",
		"Connection: upgrade\r\nUpgrade: WebSocket":                                             "WebSocket",
	} {
		exchange(t, d, fmt.Sprintf("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", d.Link, offer))
		h := <-seen
		if got := strings.Join(h["Upgrade"], "|"); got != want {
			t.Errorf("%q reached the upstream as Upgrade: %q, want %q", offer, got, want)
		}
		if (h["Connection"] != nil) != (want != "") || h["Http2-Settings"] != nil {
			t.Errorf("%q reached the upstream with %v", offer, h)
		}
	}
}

func TestUpstreamThatUpgradesUnasked(t *testing.T) {
	for _, fields := range []string{"", "Connection: Upgrade\r\nUpgrade: h2c\r\n"} {
		ended := make(chan error, 1)
		up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n"+fields+"\r\n")
			_, err = conn.Read(make([]byte, 1))
			ended <- err
		})
		d := start(t, "UPSTREAM="+up)
		if resp := exchange(t, d, "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "+d.Link+"\r\n\r\n"); resp.StatusCode != 502 {
			t.Errorf("%q: status %d, want 502", fields, resp.StatusCode)
		}
		if err := <-ended; err != io.EOF {
			t.Errorf("%q: the connection to the upstream is left: %v", fields, err)
		}
	}
}

// An upstream that reads _ as - sees nothing that only Signpost or a proxy may say.
func TestNoSpellingSaysWhoAsks(t *testing.T) {
	seen := make(chan http.Header, 1)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { seen <- r.Header })
	plain := []string{"X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Ssl", "X-Real-Ip", "X-Original-Url", "X-Rewrite-Url", "True-Client-Ip"}
	twisted := []string{"X_Signpost_Link", "X-Signpost_link", "x_signpost_ratelimit", "X.Signpost.Link", "X_Forwarded_For", "X-Forwarded_Host", "X_Real_IP", "X_Original-URL"}
	for trusted, wantPlain := range map[string]string{"192.0.2.1": "", "127.0.0.1": "victim"} {
		d := start(t, "UPSTREAM="+up, "TRUSTED_PROXIES="+trusted)
		header := bearer(d.Link)
		for _, name := range append(plain, twisted...) {
			header = append(header, name, "victim")
		}
		ask(t, "GET", d.Door+"/", "", header...)
		h := <-seen
		for _, name := range plain {
			if got := h.Get(name); got != wantPlain {
				t.Errorf("trusted %s: %s: %q, want %q", trusted, name, got, wantPlain)
			}
		}
		for name, values := range h {
			if strings.Contains(strings.Join(values, ""), "victim") && strings.ContainsAny(name, "_.") {
				t.Errorf("trusted %s: %s: %q reached the upstream", trusted, name, values)
			}
		}
	}
}

func TestPathThatLeavesTheBase(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) })
	d := start(t, "UPSTREAM="+up+"/base")
	for target, want := range map[string]int{
		"/../admin": 400, "/%2e%2e/admin": 400, "/s/" + d.Link + "/../admin": 400, "/a/../b": 200, "/s/" + d.Link + "/a/../b": 200,
	} {
		request := "GET " + target + " HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + d.Link + "\r\n\r\n"
		if resp := exchange(t, d, request); resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", strings.ReplaceAll(target, d.Link, "LINK"), resp.StatusCode, want)
		}
	}
	if resp := exchange(t, d, "CONNECT a:80 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "+d.Link+"\r\n\r\n"); resp.StatusCode != 501 {
		t.Errorf("CONNECT: status %d, want 501", resp.StatusCode)
	}
}

// Trailers and informational responses are headers too.
func TestWhatOnlyTheDoorSaysInTrailersAndHints(t *testing.T) {
	announced := make(chan http.Header, 1)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		announced <- r.Trailer
		h := w.Header()
		h.Set("X-Signpost-Link", "victim")
		h.Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		h.Set("Trailer", "X-Signpost-Ratelimit, Ratelimit, Grpc-Status")
		w.WriteHeader(http.StatusOK)
		io.WriteString(w, "body")
		w.(http.Flusher).Flush()
		for _, name := range []string{"X-Signpost-Ratelimit", "Ratelimit", "Grpc-Status", http.TrailerPrefix + "X-Signpost-Link", http.TrailerPrefix + "Ratelimit-Policy"} {
			h.Set(name, "victim")
		}
	})
	d := start(t, "UPSTREAM="+up)
	hints := make(chan http.Header, 1)
	req, err := http.NewRequest("POST", d.Door+"/s/"+d.Link+"/", io.MultiReader(strings.NewReader("hello")))
	if err != nil {
		t.Fatal(err)
	}
	req.Trailer = http.Header{"X-Signpost-Link": {"victim"}}
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { hints <- http.Header(h); return nil },
	}))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if got := <-announced; len(got) != 0 {
		t.Errorf("trailer %v reached the upstream", got)
	}
	if h := <-hints; h["X-Signpost-Link"] != nil || h["Link"] == nil {
		t.Errorf("hints %v, want the Link alone", h)
	}
	if len(resp.Trailer) != 1 || resp.Trailer.Get("Grpc-Status") != "victim" {
		t.Errorf("trailer %v, want that of the service alone", resp.Trailer)
	}
	if got := resp.Header["Referrer-Policy"]; len(got) != 1 || got[0] != "no-referrer" {
		t.Errorf("Referrer-Policy after a hint: %q", got)
	}
}

// What a library writes to the log of the process passes the redactor, while a daemon runs.
func TestTheGlobalLogHoldsNoLink(t *testing.T) {
	before := log.Writer()
	d := start(t)
	log.Printf("Unsolicited response: %s", d.Link)
	if got := d.log.String(); !strings.Contains(got, `"msg":"Unsolicited response: sp_...`) || strings.Contains(got, d.Link) {
		t.Errorf("log: %s", strings.ReplaceAll(got, d.Link, "LINK"))
	}
	d.stop()
	if log.Writer() != before {
		t.Error("the log of the process is not given back")
	}
}
