// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/signposthq/signpost/internal/redistest"
)

// fleet starts two daemons that share a server.
func fleet(t *testing.T, server *redistest.Server, more ...string) (a, b *daemon) {
	t.Helper()
	settings := append([]string{"STORE=" + strings.Replace(server.URL(), "redis://", "redis://signpost@", 1), "STORE_PASSWORD=secret"}, more...)
	return serve(t, settings...), serve(t, settings...)
}

func restricted(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--user", "signpost", "on", ">secret", "~signpost:*", "+@all")
}

// Two daemons are one limiter: one count, one concurrency, one set of links.
func TestFleetSharesOneCount(t *testing.T) {
	t.Parallel()
	a, b := fleet(t, restricted(t))
	if a.Link == "" || b.Link != "" {
		t.Errorf("first links %v and %v, want one from the first daemon", a.Link != "", b.Link != "")
	}
	minted := a.mint(t, "50/365d 2 concurrent")
	c := newClient(t)
	var admitted, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		d := []*daemon{a, b}[i%2]
		wg.Go(func() {
			for range 20 {
				switch got, err := c.try(t.Context(), "GET", d.Door+"/read/welcome", "", bearer(minted.Credential)...); {
				case err != nil:
					t.Error(err)
				case got.status == http.StatusOK:
					admitted.Add(1)
				case got.status == http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("status %d: %s", got.status, got.body)
				}
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 50 || refused.Load() != 110 {
		t.Errorf("%d were admitted and %d refused, want 50 and 110", admitted.Load(), refused.Load())
	}

	// A lease of one counts in the other, and goes back through the other.
	other := b.mint(t, "50/365d 1 concurrent")
	question := map[string]any{"link": other.Credential, "expensive": true}
	first := c.take(t, a, question)
	if second := c.take(t, b, question); !first.Admitted || second.Admitted {
		t.Errorf("two expensive takes of one: admitted %v and %v", first.Admitted, second.Admitted)
	}
	if got := c.ask(t, "POST", b.API+"/v1/release", marshal(t, map[string]any{"lease": first.Lease}), "Content-Type", "application/json"); got.status/100 != 2 {
		t.Fatalf("release: %d %s", got.status, got.body)
	}
	eventually(t, "the slot is free", func() bool { return c.take(t, a, question).Admitted })

	// A revocation at one holds at the other.
	b.manage(t, "POST", "/v1/links/"+minted.ID+"/revoke", nil, &struct{}{})
	eventually(t, "the revocation holds", func() bool {
		return c.ask(t, "GET", a.Door+"/read/welcome", "", bearer(minted.Credential)...).status == http.StatusUnauthorized
	})
}

// The server goes away and comes back: requests are answered, marked, and no longer marked.
func TestFleetWithoutItsServer(t *testing.T) {
	t.Parallel()
	server := restricted(t)
	a, b := fleet(t, server)
	minted := a.mint(t, "1000/365d")
	c := newClient(t)
	ask := func(d *daemon) answer {
		return c.ask(t, "GET", d.Door+"/read/welcome", "", bearer(minted.Credential)...)
	}
	degraded := func(got answer) bool { return got.header.Get("X-Signpost-RateLimit") == "degraded" }
	for _, d := range []*daemon{a, b} {
		if got := ask(d); got.status != http.StatusOK || degraded(got) {
			t.Fatalf("before: %d %s", got.status, got.body)
		}
	}
	server.Kill()
	for range 20 {
		for _, d := range []*daemon{a, b} {
			if got := ask(d); got.status != http.StatusOK || !degraded(got) {
				t.Fatalf("without the server: status %d, degraded=%v, %s", got.status, degraded(got), got.body)
			}
		}
	}
	if got := c.ask(t, "GET", a.Admin+"/readyz", ""); got.status != http.StatusOK || !strings.Contains(got.body, "degraded: store") {
		t.Errorf("readyz: %d %q", got.status, got.body)
	}
	if got := c.ask(t, "GET", a.Door+"/read/welcome", "", bearer("sp_"+strings.Repeat("0", 32))...); got.status != http.StatusServiceUnavailable {
		t.Errorf("an unknown link without the server: %d, want 503", got.status)
	}
	metrics := c.ask(t, "GET", a.Admin+"/metrics", "", bearer(adminToken)...).body
	if !strings.Contains(metrics, "signpost_degraded 1\n") || strings.Contains(metrics, `signpost_store_failures_total{kind="connection"} 0`+"\n") {
		t.Errorf("the metrics do not tell of the outage:\n%s", metrics)
	}
	// One that starts meanwhile serves as well.
	late, _ := fleet(t, server)
	if got := ask(late); got.status != http.StatusServiceUnavailable {
		t.Errorf("a daemon that never saw the link: %d, want 503", got.status)
	}
	server.Restart()
	for _, d := range []*daemon{a, b, late} {
		eventually(t, "the server's word is law again", func() bool {
			got := ask(d)
			return got.status == http.StatusOK && !degraded(got)
		})
	}
	// What was admitted without the server is in the count.
	if used := a.inspect(t, minted.ID); used.Windows[0].Used < 40 {
		t.Errorf("%d used after the outage, want at least the 40 of it", used.Windows[0].Used)
	}
	for what, want := range map[string]string{"degrading": "local rules decide", "healing": "store answers again"} {
		eventually(t, "the log has a line on "+what, func() bool { return strings.Contains(a.stderr.String(), want) })
	}
}

// A server that turns the daemon away is no outage.
func TestFleetIsTurnedAway(t *testing.T) {
	t.Parallel()
	server := restricted(t)
	for name, settings := range map[string][]string{
		"wrong password": {"STORE=redis://signpost@" + server.Addr, "STORE_PASSWORD=hunter2"},
		"other keys":     {"STORE=redis://signpost@" + server.Addr, "STORE_PASSWORD=secret", "STORE_PREFIX=elsewhere:"},
	} {
		p := spawn(t, signpost(t, settings, "serve"))
		code := p.wait(t)
		if log := p.stderr.String(); code == 0 || !strings.Contains(log, server.Addr) || strings.Contains(log, "hunter2") {
			t.Errorf("%s: exit code %d, %q", name, code, log)
		}
	}
}
