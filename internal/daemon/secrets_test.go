// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/signposthq/signpost/internal/daemon"
	"github.com/signposthq/signpost/link"
)

// A link goes through every door, with debug logging, refusals, faults, a dead upstream and a panic; afterwards no
// output holds it but what was sent to its holder.
func TestNoOutputHoldsALink(t *testing.T) {
	var upstreamSaw syncBuffer // a request can still be here when its client has gone
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		r.Write(&upstreamSaw)
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
	})
	data := t.TempDir()
	d := start(t, "UPSTREAM="+up, "BOUNDS_LINKS=20/365d 10 concurrent", "DATA="+data, "EXPENSIVE=/", "TRY=true")
	minted := ask(t, "POST", d.Admin+"/v1/links", `{"label":"another"}`, bearer(adminToken)...)
	wantStatus(t, "mint", minted, 201)
	tried := ask(t, "POST", d.Door+"/try", "")
	wantStatus(t, "try", tried, 201)
	links := []string{d.Link, member(t, minted.body, "link"), member(t, tried.body, "link")}

	var answers strings.Builder
	note := func(got response) { fmt.Fprintf(&answers, "%v %s\n", got.header, got.body) }
	for _, l := range links {
		if _, err := link.Parse(l); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		for range 25 { // five of them are refused
			note(ask(t, "GET", d.Door+"/s/"+l+"/page?x=%zz;y", "", "Referer", d.Door+"/s/"+l+"/"))
		}
		note(ask(t, "GET", d.Door+"/%73/"+l+"/page", "", bearer(l)...))
		note(ask(t, "GET", d.Door+"//s/"+l+"/page", ""))
		note(ask(t, "GET", d.Door+"/s/"+l+"x/page", ""))
		note(ask(t, "GET", d.Door+"/page", "", "Authorization", "Bearer "+l+", "+l))
		note(ask(t, "GET", d.Door+"/page", "", "Authorization", "bearer  "+l))
		note(ask(t, "GET", d.Door+"/s/"+l+"/.well-known/limits", ""))
		for _, path := range []string{"/v1/take", "/v1/peek"} {
			note(ask(t, "POST", d.API+path, fmt.Sprintf(`{"link":%q}`, l)))
			note(ask(t, "POST", d.API+path, fmt.Sprintf(`{"link":%q,"bound":%q}`, l, l)))
			note(ask(t, "POST", d.API+path, fmt.Sprintf(`{%q:1}`, l)))
			note(ask(t, "POST", d.API+path, fmt.Sprintf(`{"lin":%q`, l)))
		}
		note(ask(t, "POST", d.API+"/v1/release", fmt.Sprintf(`{"lease":%q}`, l)))
		note(ask(t, "GET", d.API+"/"+l, ""))
		note(ask(t, "GET", d.Admin+"/v1/links", "", bearer(adminToken)...))
		note(ask(t, "GET", d.Admin+"/v1/links/"+l, "", bearer(adminToken)...))
		note(ask(t, "GET", d.Admin+"/v1/keys/"+l, "", bearer(adminToken)...))
		note(ask(t, "GET", d.Admin+"/v1/keys/"+l, "", bearer(l)...))
		raw(t, d.Door, "GET /s/"+l+"/a b HTTP/1.1\r\nHost: x\r\n\r\n")
		raw(t, d.Door, "GET /s/"+l+"/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+l+"\r\nbad header\r\n\r\n")
	}
	note(ask(t, "GET", d.Door+"/abort", "", bearer(links[2])...))
	note(ask(t, "GET", d.Admin+"/metrics", "", bearer(adminToken)...))
	note(ask(t, "GET", d.Admin+"/readyz?verbose", ""))
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	for what, text := range map[string]string{"the log": d.log.String(), "an answer": answers.String(), "a request to the upstream": upstreamSaw.String()} {
		for i, l := range links {
			if at := strings.Index(text, l[len("sp_"):]); at >= 0 {
				t.Errorf("%s holds link %d: ...%s", what, i, text[max(0, at-100):at])
			}
		}
		if text == "" {
			t.Errorf("%s: nothing was looked at", what)
		}
	}
}

// raw sends bytes that no client would.
func raw(t *testing.T, url, text string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, text)
	conn.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, conn)
}

// What net/http logs of a panic goes through the log of the daemon, which lets no link out.
func TestAPanicThatNamesALinkIsLoggedWithoutIt(t *testing.T) {
	l := link.Mint().Reveal()
	var log syncBuffer
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("cannot serve " + l) }))
	s.Config.ErrorLog = daemon.ErrorLog(&log)
	s.Start()
	defer s.Close()
	http.Get(s.URL)
	eventually(t, "the panic is in the log", func() bool { return strings.Contains(log.String(), "cannot serve sp_...") })
	if strings.Contains(log.String(), l) {
		t.Error("the log holds the link")
	}
}

func TestSecretsPrintAsNothing(t *testing.T) {
	c, err := daemon.Load(daemon.Sources{Env: []string{"SIGNPOST_ADMIN_TOKEN=" + adminToken}})
	if err != nil {
		t.Fatal(err)
	}
	if c.AdminToken.Reveal() != adminToken {
		t.Fatalf("token %q", c.AdminToken.Reveal())
	}
	var printed strings.Builder
	c.Print(&printed)
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v", c, c), printed.String()} {
		if strings.Contains(text, adminToken) {
			t.Errorf("the token is in: %s", text)
		}
	}
}
