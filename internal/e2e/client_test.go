// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/link"
)

// answer is a response whose body has been read.
type answer struct {
	status int
	header http.Header
	body   string
}

// client sends requests over connections of its own.
type client struct{ http http.Client }

func newClient(t testing.TB) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}}
}

// try sends a request and returns its answer once it has come to its end. Header is a list of names and values.
func (c *client) try(ctx context.Context, method, url, body string, header ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

func (c *client) ask(t testing.TB, method, url, body string, header ...string) answer {
	t.Helper()
	a, err := c.try(t.Context(), method, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// into decodes a body of JSON.
func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
}

func (a answer) isDegraded() bool { return a.header.Get("X-Signpost-RateLimit") == "degraded" }

// counters returns the names of the fields of an answer that tell of one caller's counts.
func (a answer) counters() []string {
	var names []string
	for name := range a.header {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "ratelimit") || strings.HasPrefix(lower, "x-ratelimit") || strings.HasPrefix(lower, "x-signpost") {
			names = append(names, name)
		}
	}
	return names
}

func bearer(link string) []string { return []string{"Authorization", "Bearer " + link} }

// manage asks the admin API, and asks again if a machine or a disk that stood still made the store too slow.
func (d *daemon) manage(t testing.TB, method, path string, in, out any) {
	t.Helper()
	var text []byte
	eventually(t, "the store answers "+method+" "+path, func() (answered bool) {
		var p *admin.Problem
		var err error
		text, err = d.admin.Do(t.Context(), method, path, in)
		if answered = !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable; answered && err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return answered
	})
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatalf("%s %s answers %q: %v", method, path, text, err)
	}
}

// mint returns a new link that is held to a bound; "": that of all links.
func (d *daemon) mint(t testing.TB, bound string) admin.MintedLink {
	t.Helper()
	var l admin.MintedLink
	d.manage(t, "POST", "/v1/links", admin.MintRequest{Bound: bound}, &l)
	return l
}

// inspect returns the counts of a link by its ID.
func (d *daemon) inspect(t testing.TB, id string) admin.Key {
	t.Helper()
	var k admin.Key
	d.manage(t, "GET", "/v1/keys/"+id, nil, &k)
	return k
}

// linkID returns the public ID of a link.
func linkID(t testing.TB, credential string) string {
	t.Helper()
	l, err := link.Parse(credential)
	if err != nil {
		t.Fatal(err)
	}
	return l.Hash().ID()
}

// take is the body of a take's answer.
type take struct {
	Admitted          bool
	Degraded          bool
	At                time.Time
	RetryAfterSeconds int64
	ViolatedPolicies  []string
	Lease             string
	LeaseExpiresAt    time.Time
	Concurrency       struct{ Limit, InUse int }
}

// take asks the decision API.
func (c *client) take(t testing.TB, d *daemon, question map[string]any) take {
	t.Helper()
	a := c.ask(t, "POST", d.API+"/v1/take", marshal(t, question), "Content-Type", "application/json")
	if a.status != http.StatusOK && a.status != http.StatusTooManyRequests {
		t.Fatalf("take: %d %s", a.status, a.body)
	}
	var answered take
	a.into(t, &answered)
	return answered
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
