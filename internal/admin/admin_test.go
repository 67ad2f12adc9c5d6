// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/memory"
)

const token = "a-token-of-this-test"

// fixture is the API on a real listener, over stores in memory.
type fixture struct {
	*httptest.Server
	links *memory.Links
	store *memory.Store
	log   *bytes.Buffer // read it after the server was closed, or when nothing runs
}

func start(t *testing.T, change ...func(*admin.Options)) *fixture {
	t.Helper()
	f := &fixture{links: memory.NewLinks(), store: memory.New(memory.Options{}), log: &bytes.Buffer{}}
	o := admin.Options{
		Token: token,
		Links: f.links,
		Store: f.store,
		Bound: func() signpost.Bound { return signpost.DefaultBound() },
		Log:   slog.New(slog.NewJSONHandler(f.log, nil)),
	}
	for _, c := range change {
		c(&o)
	}
	f.Server = httptest.NewServer(admin.New(o))
	t.Cleanup(f.Close)
	return f
}

// send returns the answer to one request, which carries the token unless told otherwise.
func (f *fixture) send(t *testing.T, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		req.Header[headers[i]] = []string{headers[i+1]}
	}
	res, err := f.Client().Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if cc, cdn := res.Header.Get("Cache-Control"), res.Header.Get("CDN-Cache-Control"); cc != "no-store" || cdn != "no-store" {
		t.Errorf("%s %s: Cache-Control %q, CDN-Cache-Control %q; want no-store", method, path, cc, cdn)
	}
	return res, string(answer)
}

// ask sends a request that must be answered with a status, and decodes the answer.
func ask[T any](t *testing.T, f *fixture, method, path, body string, status int) T {
	t.Helper()
	var out T
	res, answer := f.send(t, method, path, body)
	if res.StatusCode != status {
		t.Fatalf("%s %s %s: %s, want %d\n%s", method, path, body, res.Status, status, answer)
	}
	if err := json.Unmarshal([]byte(answer), &out); err != nil {
		t.Fatalf("%s %s: %v in %s", method, path, err, answer)
	}
	return out
}

func wantProblem(t *testing.T, f *fixture, method, path, body string, status int, code string) admin.Problem {
	t.Helper()
	res, answer := f.send(t, method, path, body)
	var p admin.Problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		t.Fatalf("%s %s: %v in %s", method, path, err, answer)
	}
	if res.StatusCode != status || p.Status != status || p.Code != code || p.Title != http.StatusText(status) ||
		p.Detail == "" || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s %s %s: %s %q\n%s\nwant a problem %d %s", method, path, body, res.Status, res.Header.Get("Content-Type"), answer, status, code)
	}
	return p
}

func TestEverythingButHealthNeedsTheToken(t *testing.T) {
	f := start(t)
	id := mint(t, f, `{}`).ID
	endpoints := []struct{ method, path string }{
		{"POST", "/v1/links"}, {"GET", "/v1/links"}, {"GET", "/v1/links/" + id}, {"POST", "/v1/links/" + id + "/revoke"},
		{"GET", "/v1/keys/" + id}, {"POST", "/v1/keys/" + id + "/reset"}, {"POST", "/v1/keys/inspect"}, {"POST", "/v1/keys/reset"},
		{"GET", "/v1/"}, {"GET", "/v1/nothing"}, {"DELETE", "/v1/links"},
	}
	for _, authorization := range []string{
		"", token, "Bearer", "Bearer ", "Bearer x", "Bearer " + token + "x", "Bearer " + token[:len(token)-1],
		"Basic " + token, "Bearer " + strings.ToUpper(token),
	} {
		for _, e := range endpoints {
			res, answer := f.send(t, e.method, e.path, `{}`, "Authorization", authorization)
			if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") != `Bearer realm="signpost admin"` ||
				!strings.Contains(answer, `"error":"unauthorized"`) || strings.Contains(answer, id) {
				t.Errorf("%s %s with Authorization %q: %s, WWW-Authenticate %q\n%s", e.method, e.path, authorization,
					res.Status, res.Header.Get("WWW-Authenticate"), answer)
			}
		}
	}
	if got := ask[admin.Link](t, f, "GET", "/v1/links/"+id, "", 200); got.State != "live" {
		t.Errorf("a request without the token changed a link: %+v", got)
	}
	if res, _ := f.send(t, "GET", "/v1/links", "", "Authorization", "bearer "+token); res.StatusCode != 200 {
		t.Errorf("a scheme in lower case: %s, want 200", res.Status)
	}
}

func TestPathsAndMethodsAreChecked(t *testing.T) {
	f := start(t)
	for _, test := range []struct {
		method, path, allow string
	}{
		{"GET", "/", ""},
		{"GET", "/nothing", ""},
		{"GET", "/v1/", ""},
		{"GET", "/v1/link", ""},
		{"GET", "/v1/links/", ""},
		{"GET", "/v1/links/0123456789abcdef/label", ""},
		{"DELETE", "/v1/links", "GET, POST"},
		{"DELETE", "/v1/links/0123456789abcdef", "GET"},
		{"GET", "/v1/links/0123456789abcdef/revoke", "POST"},
		{"POST", "/v1/keys/0123456789abcdef", "GET"},
		{"GET", "/v1/keys/0123456789abcdef/reset", "POST"},
		{"GET", "/v1/keys/inspect", "POST"},
		{"GET", "/v1/keys/reset", "POST"},
	} {
		status, code := 404, "no_such_path"
		if test.allow != "" {
			status, code = 405, "method_not_allowed"
		}
		wantProblem(t, f, test.method, test.path, "", status, code)
		if res, _ := f.send(t, test.method, test.path, ""); res.Header.Get("Allow") != test.allow {
			t.Errorf("%s %s: Allow %q, want %q", test.method, test.path, res.Header.Get("Allow"), test.allow)
		}
	}
}

func TestBodiesAreBoundedAndChecked(t *testing.T) {
	f := start(t)
	for _, test := range []struct {
		body   string
		status int
		code   string
	}{
		{``, 400, "bad_request"},
		{`null x`, 400, "bad_request"},
		{`[]`, 400, "bad_request"},
		{`{"label":"a"`, 400, "bad_request"},
		{`{"label":"a"}{}`, 400, "bad_request"},
		{`{"label":7}`, 400, "bad_request"},
		{`{"labels":"a"}`, 400, "bad_request"},
		{`{"label":"` + strings.Repeat("a", 17<<10) + `"}`, 413, "content_too_large"},
		{`{}` + strings.Repeat(" ", 17<<10), 413, "content_too_large"},
	} {
		wantProblem(t, f, "POST", "/v1/links", test.body, test.status, test.code)
		wantProblem(t, f, "POST", "/v1/keys/inspect", strings.ReplaceAll(test.body, "label", "namespace"), test.status, test.code)
	}
	if list := ask[admin.LinkList](t, f, "GET", "/v1/links", "", 200); len(list.Links) != 0 {
		t.Errorf("%d links were minted by requests that were refused", len(list.Links))
	}
}

func TestTroubleIsUnavailableAndSaysSo(t *testing.T) {
	broken := brokenLinks{errors.New("read record: input/output error")}
	f := start(t, func(o *admin.Options) { o.Links = broken })
	for _, e := range []struct{ method, path, body string }{
		{"POST", "/v1/links", `{}`}, {"GET", "/v1/links", ""}, {"GET", "/v1/links/0123456789abcdef", ""},
		{"POST", "/v1/links/0123456789abcdef/revoke", ""}, {"GET", "/v1/keys/0123456789abcdef", ""}, {"POST", "/v1/keys/0123456789abcdef/reset", ""},
	} {
		p := wantProblem(t, f, e.method, e.path, e.body, 503, "unavailable")
		if !strings.Contains(p.Detail, broken.err.Error()) || p.Hint == "" {
			t.Errorf("%s %s: detail %q, hint %q; want the cause and what to do", e.method, e.path, p.Detail, p.Hint)
		}
		if res, _ := f.send(t, e.method, e.path, e.body); res.Header.Get("Retry-After") != "1" {
			t.Errorf("%s %s: Retry-After %q, want 1", e.method, e.path, res.Header.Get("Retry-After"))
		}
	}
	f.Close()
	if got := strings.Count(f.log.String(), `"admin request failed"`); got != 12 {
		t.Errorf("%d lines in the log for 12 failures:\n%s", got, f.log)
	}
}

// brokenLinks is a registry whose disk is gone.
type brokenLinks struct{ err error }

func (b brokenLinks) Resolve(context.Context, link.Hash) (link.Record, error) {
	return link.Record{}, b.err
}
func (b brokenLinks) Add(context.Context, link.Record) error { return b.err }
func (b brokenLinks) Revoke(context.Context, string, time.Time) (link.Record, error) {
	return link.Record{}, b.err
}
func (b brokenLinks) Show(context.Context, string) (link.Entry, error) {
	return link.Entry{}, b.err
}
func (b brokenLinks) List(context.Context, string, int) ([]link.Entry, error) { return nil, b.err }
func (b brokenLinks) Seen(link.Hash, time.Time)                               {}

func TestNewRefusesToServeWithoutAToken(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New accepted an empty token")
		}
	}()
	admin.New(admin.Options{Links: memory.NewLinks(), Store: memory.New(memory.Options{}), Bound: func() signpost.Bound { return signpost.DefaultBound() }})
}

func TestHealth(t *testing.T) {
	disk, listeners := error(nil), error(nil)
	f := start(t, func(o *admin.Options) {
		o.Checks = []admin.Check{
			{Name: "listeners", Vital: true, Err: func() error { return listeners }},
			{Name: "store", Err: func() error { return disk }},
		}
	})
	trouble := errors.New("dial 10.0.0.7: no route")
	for _, step := range []struct {
		listeners, disk error
		path            string
		status          int
		body            string
	}{
		{nil, nil, "/livez", 200, "ok\n"},
		{nil, nil, "/readyz", 200, "ok\n"},
		{nil, nil, "/healthz", 200, "ok\n"},
		{nil, nil, "/readyz?verbose", 200, "[+] listeners ok\n[+] store ok\nok\n"},
		{nil, trouble, "/readyz", 200, "ok, degraded: store\n"},
		{nil, trouble, "/healthz?verbose=1", 200, "[+] listeners ok\n[!] store degraded\nok, degraded: store\n"},
		{trouble, nil, "/readyz", 503, "not ready: listeners\n"},
		{trouble, trouble, "/readyz?verbose", 503, "[-] listeners failed\n[!] store degraded\nnot ready: listeners, store\n"},
		{trouble, trouble, "/livez", 200, "ok\n"},
	} {
		listeners, disk = step.listeners, step.disk
		res, body := f.send(t, "GET", step.path, "", "Authorization", "")
		if res.StatusCode != step.status || body != step.body {
			t.Errorf("listeners %v, store %v: GET %s: %s %q, want %d %q", step.listeners, step.disk, step.path, res.Status, body, step.status, step.body)
		}
	}
}
