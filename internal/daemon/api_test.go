// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/daemon"
	"github.com/signposthq/signpost/store/memory"
)

const apiToken = "an-api-token-for-tests"

// documented holds a server to its OpenAPI document, and remembers what it was seen to answer.
type documented struct {
	doc  *openapi3.T
	seen map[string]bool // "POST /v1/take 200"
}

func readDocument(t *testing.T, api string) *documented {
	t.Helper()
	got := ask(t, "GET", api+"/openapi.json", "", bearer(apiToken)...)
	wantStatus(t, "openapi.json", got, 200)
	doc, err := openapi3.NewLoader().LoadFromData([]byte(got.body))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return &documented{doc, map[string]bool{}}
}

// ask sends a request and checks it, unless the server is to refuse it, and the answer against the document.
func (d *documented) ask(t *testing.T, method, api, path, body string, want int, header ...string) response {
	t.Helper()
	got := ask(t, method, api+path, body, header...)
	what := fmt.Sprintf("%s %s %s", method, path, body)
	wantStatus(t, what, got, want)
	item := d.doc.Paths.Find(path)
	if item == nil || item.GetOperation(method) == nil {
		t.Fatalf("%s: not in the document", what)
	}
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	options := &openapi3filter.Options{
		IncludeResponseStatus: true,
		AuthenticationFunc:    func(context.Context, *openapi3filter.AuthenticationInput) error { return nil },
	}
	input := &openapi3filter.RequestValidationInput{
		Request: req, Options: options,
		Route: &routers.Route{Spec: d.doc, Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method)},
	}
	if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil && want != 400 && want != 413 {
		t.Errorf("%s: the server took what the document does not allow: %v", what, err)
	}
	err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: got.status, Header: got.header, Body: nopCloser(got.body), Options: options,
	})
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	d.seen[fmt.Sprintf("%s %s %d", method, path, got.status)] = true
	return got
}

func nopCloser(s string) readCloser { return readCloser{bytes.NewReader([]byte(s))} }

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

func TestTheAPIIsWhatItsDocumentSays(t *testing.T) {
	d := start(t, "API_TOKEN="+apiToken, "BOUNDS_LINKS=100/day 1 concurrent")
	doc := readDocument(t, d.API)
	auth := bearer(apiToken)
	byLink := fmt.Sprintf(`{"link":%q}`, d.Link)
	for _, path := range []string{"/v1/take", "/v1/peek"} {
		post := func(body string, want int, header ...string) response {
			return doc.ask(t, "POST", d.API, path, body, want, append(header, auth...)...)
		}
		post(byLink, 200)
		post(`{"namespace":"user","key":"7","bound":"5/day","cost":2}`, 200)
		post(`{"namespace":"user","key":"8","bound":"0/day"}`, 429)
		post(`{"link":"sp_`+strings.Repeat("x", 32)+`"}`, 404)
		for _, bad := range []string{
			``, `{`, `[]`, `null`, `{}`, `{} {}`, byLink + "x", `{"link":"sp_short"}`, `{"link":7}`, `{"namespace":"user"}`, `{"key":"7"}`,
			`{"NAMESPACE":"user","key":"7"}`, `{"namespace":"user","key":"7","key":"8"}`, `{"namespace":"user","key":"\ud800"}`, "{\"namespace\":\"user\",\"key\":\"\xff\"}",
			fmt.Sprintf(`{"link":%q,"namespace":"user","key":"7"}`, d.Link),
			fmt.Sprintf(`{"link":%q,"at":1768471200000}`, d.Link),
			fmt.Sprintf(`{"link":%q,"cost":-1}`, d.Link),
			fmt.Sprintf(`{"link":%q,"cost":4294967296}`, d.Link),
			fmt.Sprintf(`{"link":%q,"cost":1.5}`, d.Link),
			fmt.Sprintf(`{"link":%q,"bound":"60/fortnight"}`, d.Link),
			fmt.Sprintf(`{"link":%q,"bound":""}`, d.Link),
		} {
			if got := post(bad, 400); strings.Contains(got.body, d.Link) {
				t.Errorf("%s: the problem repeats the link", bad)
			}
		}
		post(`{"link":"`+strings.Repeat("x", 16<<10)+`"}`, 413)
		doc.ask(t, "POST", d.API, path, byLink, 401)
		doc.ask(t, "POST", d.API, path, byLink, 401, bearer(apiToken+"x")...)
		post(byLink, 403, "Sec-Fetch-Site", "cross-site")
	}

	expensive := fmt.Sprintf(`{"link":%q,"expensive":true}`, d.Link)
	granted := doc.ask(t, "POST", d.API, "/v1/take", expensive, 200, auth...)
	lease := fmt.Sprintf(`{"lease":%q}`, member(t, granted.body, "lease"))
	full := doc.ask(t, "POST", d.API, "/v1/take", expensive, 429, auth...)
	wait := full.header.Get("Retry-After")
	if n, err := strconv.Atoi(wait); err != nil || n < 1 || n > 30 || member(t, full.body, "retryAfterSeconds") != wait {
		t.Errorf("Retry-After %q, body %s; want the rest of the lease's 30 seconds in both", wait, full.body)
	}
	doc.ask(t, "POST", d.API, "/v1/peek", expensive, 429, auth...)
	doc.ask(t, "POST", d.API, "/v1/renew", lease, 200, auth...)
	doc.ask(t, "POST", d.API, "/v1/release", lease, 204, auth...)
	doc.ask(t, "POST", d.API, "/v1/release", lease, 204, auth...)
	doc.ask(t, "POST", d.API, "/v1/renew", lease, 410, auth...)
	doc.ask(t, "POST", d.API, "/v1/take", expensive, 200, auth...)
	for _, path := range []string{"/v1/renew", "/v1/release"} {
		doc.ask(t, "POST", d.API, path, `{"lease":"abc"}`, 400, auth...)
		doc.ask(t, "POST", d.API, path, `{"lease":""}`, 400, auth...)
		doc.ask(t, "POST", d.API, path, `{"lease":"`+strings.Repeat("a", 1<<20)+`"}`, 413, auth...)
		doc.ask(t, "POST", d.API, path, lease, 401)
		doc.ask(t, "POST", d.API, path, lease, 403, append([]string{"Origin", "https://evil.example"}, auth...)...)
	}
	doc.ask(t, "GET", d.API, "/v1/limits", "", 200, auth...)
	doc.ask(t, "GET", d.API, "/v1/limits", "", 401)
	doc.ask(t, "GET", d.API, "/openapi.json", "", 200, auth...)
	doc.ask(t, "GET", d.API, "/openapi.json", "", 401)

	// A store that is closed, and one that cannot renew.
	closed := memory.New(memory.Options{})
	closed.Close()
	broken := apiOver(t, closed)
	for _, path := range []string{"/v1/limits", "/openapi.json"} { // without a token
		doc.ask(t, "GET", broken, path, "", 403, "Host", "rebound.example")
	}
	for _, path := range []string{"/v1/take", "/v1/peek"} {
		doc.ask(t, "POST", broken, path, `{"namespace":"user","key":"7"}`, 503)
	}
	doc.ask(t, "POST", broken, "/v1/renew", lease, 503)
	doc.ask(t, "POST", apiOver(t, struct{ signpost.Store }{memory.New(memory.Options{})}), "/v1/renew", lease, 501)

	for path, item := range doc.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			for status := range operation.Responses.Map() {
				if answer := fmt.Sprintf("%s %s %s", method, path, status); !doc.seen[answer] {
					t.Errorf("%s is in the document, and no test has seen it", answer)
				}
			}
		}
	}
	if t.Failed() {
		t.Logf("seen: %q", slices.Sorted(maps.Keys(doc.seen)))
	}
}

// apiOver serves the decision API over a store.
func apiOver(t *testing.T, s signpost.Store) string {
	t.Helper()
	server := httptest.NewServer(daemon.NewAPIOver(s, memory.NewLinks()))
	t.Cleanup(server.Close)
	return server.URL
}

func TestAPISaysWhatIsWrongInWordsOfJSON(t *testing.T) {
	d := start(t)
	for body, want := range map[string]string{
		`[]`:                            "the body is not a JSON object",
		`7`:                             "the body is not a JSON object",
		`{"link":7}`:                    "link: want a text between quotes",
		`{"bound":7}`:                   "bound: want a text between quotes",
		`{"cost":-6}`:                   "cost: want a whole number from 0 to 4294967295",
		`{"cost":"6"}`:                  "cost: want a whole number from 0 to 4294967295",
		`{"expensive":"yes"}`:           "expensive: want true or false",
		`{"name":"x"}`:                  `"name": no such field; here can stand: link, namespace, key, bound, cost, expensive`,
		`{"` + d.Link + `":"x"}`:        `"sp_...": no such field`,
		`{"namespace":"x"} {}`:          "the body holds more than one JSON value",
		`{"namespace":"x","key":"y`:     "the body is not a whole JSON object",
		`{"namespace":"x","key":"y",,}`: "the body is not JSON, at byte 28",
	} {
		got := ask(t, "POST", d.API+"/v1/take", body)
		wantStatus(t, body, got, 400)
		if detail := member(t, got.body, "detail"); !strings.HasPrefix(detail, want) {
			t.Errorf("%s: %q, want %q", body, detail, want)
		}
	}
	got := ask(t, "POST", d.API+"/v1/renew", `{"namespace":"x"}`)
	if detail := member(t, got.body, "detail"); detail != `"namespace": no such field; here can stand: lease` {
		t.Errorf("renew: %q", detail)
	}
}

func TestAPIPathsAndMethods(t *testing.T) {
	d := start(t)
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/v1/take", 405},
		{"POST", "/v1/limits", 405},
		{"GET", "/", 404},
		{"POST", "/v1/nothing", 404},
		{"HEAD", "/v1/limits", 200},
	} {
		got := ask(t, c.method, d.API+c.path, "")
		wantStatus(t, c.method+" "+c.path, got, c.status)
		if c.status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
}

// One link has one count, whichever way it is asked about.
func TestWhoTakesThroughTheAPIIsSeen(t *testing.T) {
	d := start(t)
	if links := ask(t, "GET", d.Admin+"/v1/links", "", bearer(adminToken)...); strings.Contains(links.body, "lastSeen") {
		t.Fatalf("used before it was: %s", links.body)
	}
	wantStatus(t, "take", ask(t, "POST", d.API+"/v1/take", fmt.Sprintf(`{"link":%q}`, d.Link)), 200)
	eventually(t, "the link was seen", func() bool {
		return strings.Contains(ask(t, "GET", d.Admin+"/v1/links", "", bearer(adminToken)...).body, `"lastSeen":"`)
	})
}

func TestDoorAndAPIShareTheCount(t *testing.T) {
	d := start(t, "BOUNDS_LINKS=10/366d")
	for range 3 {
		wantStatus(t, "door", ask(t, "GET", d.Door+"/read/welcome", "", bearer(d.Link)...), 200)
	}
	take := ask(t, "POST", d.API+"/v1/take", fmt.Sprintf(`{"link":%q,"cost":4}`, d.Link))
	wantStatus(t, "api", take, 200)
	if !strings.Contains(take.body, `"used":7,"remaining":3`) {
		t.Errorf("take: %s; want 7 used, 3 through the door and 4 through the api", take.body)
	}
	id := ask(t, "GET", d.Admin+"/v1/links", "", bearer(adminToken)...)
	wantStatus(t, "admin", id, 200)
	if !strings.Contains(id.body, `"label":"first"`) {
		t.Errorf("links: %s; want the first one", id.body)
	}
	wantStatus(t, "too much", ask(t, "POST", d.API+"/v1/take", fmt.Sprintf(`{"link":%q,"cost":11}`, d.Link)), http.StatusTooManyRequests)
}

// Without a token the API answers nobody who was led to it under another name: the page of a name that
// was made to resolve to this machine would pass as its own origin.
func TestAPIWithoutATokenAnswersOnlyAsThisMachine(t *testing.T) {
	d := start(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(d.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"link":%q}`, d.Link)
	for host, want := range map[string]int{
		"127.0.0.1:" + port: 200, "localhost:" + port: 200, "LocalHost": 200, "127.8.9.10": 200, "[::1]:" + port: 200, "[::ffff:127.0.0.1]": 200,
		"evil.example:" + port: 403, "localhost.evil.example": 403, "192.0.2.1:" + port: 403, "0.0.0.0:" + port: 403, "127.0.0.1.evil.example": 403, "::1": 403,
	} {
		wantStatus(t, host, ask(t, "POST", d.API+"/v1/take", body, "Host", host, "Origin", "http://"+host), want)
		wantStatus(t, host, ask(t, "GET", d.API+"/v1/limits", "", "Host", host), want)
	}
	wantStatus(t, "a page of another origin", ask(t, "POST", d.API+"/v1/take", body, "Origin", "https://evil.example"), 403)
	d = start(t, "API_TOKEN="+apiToken)
	body = fmt.Sprintf(`{"link":%q}`, d.Link)
	wantStatus(t, "with a token", ask(t, "POST", d.API+"/v1/take", body, append(bearer(apiToken), "Host", "api.example")...), 200)
}

func TestNobodyRaisesTheBoundOfATryLink(t *testing.T) {
	d := start(t)
	tried := member(t, ask(t, "POST", d.Door+"/try", "").body, "link")
	for _, path := range []string{"/v1/take", "/v1/peek"} {
		got := ask(t, "POST", d.API+path, fmt.Sprintf(`{"link":%q,"bound":"1000000/min"}`, tried))
		wantStatus(t, path+" with a bound beside a try link", got, 400)
		if !strings.Contains(member(t, got.body, "detail"), "bound of all try links") {
			t.Errorf("%s: %s does not say why", path, got.body)
		}
		wantStatus(t, path+" of a try link", ask(t, "POST", d.API+path, fmt.Sprintf(`{"link":%q}`, tried)), 200)
		wantStatus(t, path+" with a bound beside an owner's link", ask(t, "POST", d.API+path, fmt.Sprintf(`{"link":%q,"bound":"1000000/min"}`, d.Link)), 200)
	}
}
