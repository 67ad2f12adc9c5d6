// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/link"
)

const apiToken = "an-api-token-for-tests"

// secrets are the credentials of one test, by what they are.
type secrets map[string]string

// in reports which credentials a text holds, in any form that a program could have made of them.
func (s secrets) in(text string) (found []string) {
	for what, secret := range s {
		for _, form := range []string{
			strings.TrimPrefix(secret, "sp_"), // also where its head is percent-encoded
			base64.StdEncoding.EncodeToString([]byte(secret + ":x"))[:len(secret)],
			hex.EncodeToString([]byte(secret)),
		} {
			if strings.Contains(text, form) {
				found = append(found, what)
				break
			}
		}
	}
	return found
}

// Links and tokens leave the daemon where they are minted, and nowhere else: however they come in, and whatever goes
// wrong on the way.
func TestCredentialsStayInside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	up := startUpstream(t)
	config := filepath.Join(t.TempDir(), "signpost.yaml")
	writeFile(t, config, "log: debug\n")
	settings := onDisk(dir, "UPSTREAM="+up.URL, "CONFIG="+config, "API_TOKEN="+apiToken, "TRY=true", "SHAPE_MARKDOWN=16",
		"UPSTREAM_TIMEOUT=300ms")
	d := serve(t, settings...)
	c := newClient(t)
	greeting := d.stdout.String()

	s := secrets{"the admin token": adminToken, "the API token": apiToken, "the first link": d.Link, "a link that is not known": link.Mint().Reveal()}
	s["a link"] = d.mint(t, "").Credential
	s["a link without quota"] = d.mint(t, "1/"+longWindow()).Credential
	revoked := d.mint(t, "")
	s["a revoked link"] = revoked.Credential
	d.manage(t, "POST", "/v1/links/"+revoked.ID+"/revoke", nil, new(admin.Link))
	var try struct{ Link string }
	c.ask(t, "POST", d.Door+"/try", "").into(t, &try)
	s["a try link"] = try.Link
	for what, secret := range s {
		if len(s.in("<"+secret+">")) == 0 || len(secret) < 16 {
			t.Fatalf("%s is not looked for", what)
		}
	}

	var told []exchange
	ask := func(method, url, body string, header ...string) {
		t.Helper()
		a, err := c.try(t.Context(), method, url, body, header...)
		told = append(told, exchange{method + " " + url, fmt.Sprint(a, err)})
		if err != nil {
			told[len(told)-1].answer = fmt.Sprint(a) // what the client says of it has the URL
		}
	}
	admins := bearer(adminToken)
	for _, what := range []string{"a link", "a link without quota", "a link that is not known", "a revoked link"} {
		l := s[what]
		s.throughTheDoor(d, l, ask)
		throughTheAPI(d, l, ask)
		throughTheAdminAPI(d, l, admins, ask)
		told = append(told, garbage(t, d, l)...)
	}
	told = append(told, exchange{"a daemon that waits for its upstream", s.vanish(t, c, up)})
	if found := s.in(up.c.ask(t, "GET", up.URL+"/control/seen", "").body); found != nil {
		t.Errorf("the upstream has seen %v", found)
	}

	// The upstream is slow, then down.
	up.signal(t, syscall.SIGSTOP)
	ask("GET", d.Door+"/s/"+d.Link+"/slow", "")
	up.kill(t)
	ask("GET", d.Door+"/s/"+d.Link+"/down", "")
	ask("GET", d.Door+"/down", "", bearer(d.Link)...)
	// A reload, and one that fails.
	for i, text := range []string{"log: debug\nbounds:\n  links: 5/min\n", "log: " + s["a link"] + "\n"} {
		writeFile(t, config, text)
		d.signal(t, syscall.SIGHUP)
		eventually(t, "the daemon has reloaded", func() bool { return strings.Count(d.stderr.String(), `"msg":"reload`) > i })
	}
	for _, args := range [][]string{
		{"link", "list"}, {"link", "show", s["a link"]}, {"link", "show", s["a link"] + "x"}, {"link", "show", s["a link that is not known"]},
		{"key", "inspect", s["a link"]}, {"key", "reset", s["a link"]}, {"link", "revoke", s["a link"]}, {"link", s["a link"]},
	} {
		cmd := signpost(t, []string{"ADMIN=" + d.Admin}, args...)
		p := spawn(t, cmd)
		p.wait(t)
		told = append(told, exchange{"signpost " + args[0] + " " + strings.Join(args[1:], " "), p.stdout.String() + p.stderr.String()})
	}
	told = append(told, exchange{"metrics", d.metrics(t)})
	ask("GET", d.Admin+"/v1/links?limit=1000", "", admins...)
	ask("GET", d.Admin+"/readyz?verbose", "", admins...)
	d.signal(t, syscall.SIGTERM)
	if code := d.wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}

	if d.stdout.String() != greeting || strings.Count(greeting, d.Link) != 1 {
		t.Errorf("the standard output is more than the greeting: %q", d.stdout.String())
	}
	told = append(told, exchange{"greeting", strings.Replace(greeting, d.Link, "", 1)}, exchange{"log", d.stderr.String()})
	for _, e := range told {
		if found := s.in(e.answer); found != nil {
			t.Errorf("%s: answered with %v:\n%s", e.question, found, e.answer)
		}
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if found := s.in(path + string(text)); found != nil {
			t.Errorf("%s holds %v", path, found)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(d.stderr.String(), "upstream does not answer") || !strings.Contains(d.stderr.String(), "first refusal") {
		t.Errorf("the log has little to say, so that little was looked at:\n%s", d.stderr.String())
	}
}

// vanish has a client go away while its request hangs in the upstream, behind a daemon that would wait for it, and
// returns the daemon's log once it has ended.
func (s secrets) vanish(t *testing.T, c *client, up *served) (log string) {
	t.Helper()
	d := serve(t, "UPSTREAM="+up.URL, "EXPENSIVE=/hang")
	s["the link of a client that goes away"] = d.Link
	ctx, gone := context.WithCancel(t.Context())
	defer gone()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.try(ctx, "POST", d.Door+"/s/"+d.Link+"/hang", "a body")
	}()
	eventually(t, "a request hangs", func() bool { return up.hanging(t) > 0 })
	gone()
	<-ended
	eventually(t, "nothing hangs", func() bool { return up.hanging(t) == 0 })
	d.signal(t, syscall.SIGTERM)
	if code := d.wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	return d.stderr.String()
}

// exchange is something that was asked, and all that came back.
type exchange struct{ question, answer string }

type asking func(method, url, body string, header ...string)

// throughTheDoor shows a link in every place that somebody may put one.
func (s secrets) throughTheDoor(d *daemon, l string, ask asking) {
	spelled := "%73p_" + strings.TrimPrefix(l, "sp_")
	for _, path := range []string{"/", "/panic", "/panic?late", say("/moved", "", "Location: /elsewhere"), "/.well-known/limits", "/try"} {
		ask("GET", d.Door+path, "", bearer(l)...)
		ask("POST", d.Door+path, "a body", bearer(l)...)
	}
	ask("POST", d.Door+"/", strings.Repeat("x", 100), bearer(l)...)
	ask("POST", d.Door+"/", "x", append(bearer(l), "Content-Encoding", "br")...)
	ask("OPTIONS", d.Door+"/", "", append(bearer(l), "Origin", "https://example.com", "Access-Control-Request-Method", "POST")...)
	for _, path := range []string{"", "/", "/panic", "/.well-known/limits", "/try"} {
		ask("GET", d.Door+"/s/"+l+path, "")
		ask("GET", d.Door+"/s/"+spelled+path, "")
		ask("GET", d.Door+"//s/"+l+path, "")
		ask("GET", d.Door+"/s/"+l+path, "", bearer(l)...)
		ask("GET", d.Door+"/s/"+l+path, "", bearer(s["a try link"])...)
		ask("GET", d.Door+"/s/"+l+path, "", "Referer", d.Door+"/s/"+l+"/before")
		ask("GET", d.Door+"/s/"+l+path, "", "Referer", d.Door+"/s/"+spelled+"/before")
		ask("GET", d.Door+"/s/"+l+"x"+path, "")
	}
	// Where it is no credential, and so is told to nobody.
	for _, place := range []string{"/?link=" + l, "/?token=" + spelled, "/read/" + l, "/try?link=" + l, "/.well-known/limits?link=" + l, "/" + l} {
		ask("GET", d.Door+place, "")
		ask("POST", d.Door+place, l)
	}
	for _, header := range [][]string{
		{"Referer", "https://example.com/?link=" + l}, {"Cookie", "link=" + l}, {"X-Api-Key", l}, {"User-Agent", l}, {"Authorization", l},
		{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(l+":x"))}, {"Authorization", "Bearer " + l + ", " + l},
		{"Authorization", "Bearer  " + l + " "}, {"Authorization", "Bearer " + l, "Authorization", "Bearer " + l}, {"Authorization", "Bearer " + l + "x"},
		{"X-Forwarded-For", l}, {"X-Request-Id", l},
	} {
		ask("GET", d.Door+"/", "", header...)
	}
}

func throughTheAPI(d *daemon, l string, ask asking) {
	token := bearer(apiToken)
	for _, path := range []string{"/v1/take", "/v1/peek", "/v1/renew", "/v1/release"} {
		for _, body := range []any{
			map[string]any{"link": l}, map[string]any{"link": l, "expensive": true}, map[string]any{"link": l + "x"}, map[string]any{"link": []string{l}},
			map[string]any{"namespace": l, "key": l}, map[string]any{"link": l, "key": l}, map[string]any{"link": l, "bound": l},
			map[string]any{"link": l, "bound": "5/" + l}, map[string]any{"link": l, "cost": l}, map[string]any{"lease": l}, map[string]any{l: l}, l,
		} {
			text, _ := json.Marshal(body) // of strings
			ask("POST", d.API+path, string(text), token...)
			ask("POST", d.API+path, string(text[:len(text)-1]), token...)
			ask("POST", d.API+path, string(text)+l, token...)
		}
		ask("POST", d.API+path, `{"link": "`+l+`"}`, bearer(l)...)
		ask("GET", d.API+path+"?link="+l, "", token...)
		ask("GET", d.API+path+"/"+l, "", token...)
	}
}

func throughTheAdminAPI(d *daemon, l string, token []string, ask asking) {
	for _, path := range []string{"/v1/links/", "/v1/keys/", "/"} {
		ask("GET", d.Admin+path+l, "", token...)
		ask("POST", d.Admin+path+l+"/revoke", "", token...)
		ask("POST", d.Admin+path+l+"/reset", "", token...)
		ask("GET", d.Admin+path+l, "", bearer(l)...)
	}
	ask("GET", d.Admin+"/v1/links?after="+l, "", token...)
	ask("GET", d.Admin+"/v1/links?limit="+l, "", token...)
	ask("GET", d.Admin+"/v1/links?"+l, "", token...)
	for _, body := range []string{
		`{"expires": "` + l + `"}`, `{"bound": "` + l + `"}`, `{"bound": "5/` + l + `"}`, `{"origin": "` + l + `"}`, `{"label": ["` + l + `"]}`,
		`{"` + l + `": 1}`, `{"label": "` + l, `"` + l + `"`, l, `{"label": "` + l + `"}`,
	} {
		ask("POST", d.Admin+"/v1/links", body, token...)
	}
	for _, verb := range []string{"inspect", "reset"} {
		for _, body := range []string{
			`{"namespace": "` + l + `", "key": "` + l + `"}`, `{"namespace": "n", "key": "k", "bound": "` + l + `"}`, `{"` + l + `": 1}`, l,
		} {
			ask("POST", d.Admin+"/v1/keys/"+verb, body, token...)
		}
	}
}

// garbage sends what is no HTTP to every listener.
func garbage(t *testing.T, d *daemon, l string) (told []exchange) {
	t.Helper()
	for _, listener := range []string{d.Door, d.API, d.Admin} {
		for _, text := range []string{
			"GET /s/" + l + "\r\n\r\n",
			"GET /s/" + l + " HTTP/9.9\r\n\r\n",
			l + "\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: " + l + "/" + l + "\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: x\r\nAuthorization Bearer " + l + "\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: x\r\n" + l + ": " + l + "\x00\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + l + "\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + l + "\r\nTransfer-Encoding: chunked\r\n\r\n" + l + "\r\n",
			"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + l + "\r\nContent-Length: " + l + "\r\n\r\n",
		} {
			u, err := url.Parse(listener)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := net.Dial("tcp", u.Host)
			if err != nil {
				t.Fatal(err)
			}
			conn.SetDeadline(time.Now().Add(patience))
			io.WriteString(conn, text) // it may be refused in the middle
			conn.(*net.TCPConn).CloseWrite()
			answer, _ := io.ReadAll(conn) // or cut off
			conn.Close()
			told = append(told, exchange{fmt.Sprintf("%.100q", text), string(answer)})
		}
	}
	return told
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
