// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/internal/redistest"
)

// Two regions have a server of their own each, and links in common. A link is counted at its home, whichever daemon its holder
// asks, and a home that is lost degrades its own links only.
func TestHomes(t *testing.T) {
	t.Parallel()
	registry, eu, us := redistest.Start(t), redistest.Start(t, "--user", "signpost", "on", ">of-eu", "~signpost:*", "+@all"), redistest.Start(t)
	ocean := redistest.NewProxy(t, eu.Addr) // between the daemon in us and the server in eu
	ocean.Delay(20 * time.Millisecond)
	start := func(home, toEU string) *daemon {
		return serve(t, "STORE="+registry.URL(), "HOME="+home, "HOMES=eu="+strings.Replace(toEU, "//", "//signpost@", 1)+",us="+us.URL(), "STORE_PASSWORD_EU=of-eu")
	}
	inEU, inUS := start("eu", eu.URL()), start("us", ocean.URL())

	mint := func(d *daemon, home string) (l admin.MintedLink) {
		t.Helper()
		d.manage(t, "POST", "/v1/links", admin.MintRequest{Bound: "40/365d", Home: home}, &l)
		return l
	}
	european, told, american := mint(inEU, ""), mint(inUS, "eu"), mint(inUS, "")
	for l, want := range map[*admin.MintedLink]string{&european: "eu", &told: "eu", &american: "us"} {
		if l.Home.String() != want {
			t.Errorf("a link is at home in %q, want %q", l.Home, want)
		}
	}
	c := newClient(t)
	if got := c.ask(t, "POST", inUS.Admin+"/v1/links", `{"home":"mars"}`, bearer(adminToken)...); got.status != http.StatusBadRequest || !strings.Contains(got.body, "eu us") {
		t.Errorf("mint for a home that is not there: %d %s", got.status, got.body)
	}

	ask := func(d *daemon, l admin.MintedLink) (status int, degraded bool) {
		t.Helper()
		got := c.ask(t, "GET", d.Door+"/read/welcome", "", bearer(l.Credential)...)
		return got.status, got.header.Get("X-Signpost-RateLimit") == "degraded"
	}
	admitted := 0
	for i := range 60 {
		if status, degraded := ask([]*daemon{inEU, inUS}[i%2], european); degraded {
			t.Fatal("degraded though every server answers")
		} else if status == http.StatusOK {
			admitted++
		}
	}
	if admitted != 40 {
		t.Errorf("%d were admitted from both sides, want 40", admitted)
	}
	if used := inUS.inspect(t, european.ID).Windows[0].Used; used != 40 {
		t.Errorf("%d are counted, want 40", used)
	}

	eu.Freeze()
	for _, d := range []*daemon{inEU, inUS} {
		if status, degraded := ask(d, told); status != http.StatusOK || !degraded {
			t.Errorf("a link whose home is frozen: %d, degraded=%v", status, degraded)
		}
		if status, degraded := ask(d, american); status != http.StatusOK || degraded {
			t.Errorf("a link of the other home: %d, degraded=%v", status, degraded)
		}
	}
	metrics := c.ask(t, "GET", inUS.Admin+"/metrics", "", bearer(adminToken)...).body
	for _, want := range []string{`signpost_store_servers_down{home="eu"} 1`, `signpost_store_servers_down{home="us"} 0`, `signpost_store_servers_down{home=""} 0`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if log := inUS.stderr.String(); !strings.Contains(log, `"home":"eu"`) || strings.Contains(log, "of-eu") {
		t.Errorf("the log does not name the home, or holds a password:\n%s", log)
	}
	eu.Thaw()
	for _, d := range []*daemon{inEU, inUS} {
		eventually(t, "the home is back", func() bool {
			_, degraded := ask(d, told)
			return !degraded
		})
		if status, _ := ask(d, european); status != http.StatusTooManyRequests {
			t.Errorf("the count of 40 was lost: status %d", status)
		}
	}
}

// A daemon that was not told of the homes does not count their links anywhere else: it decides them by itself, and says so.
func TestHomesThatADaemonDoesNotKnow(t *testing.T) {
	t.Parallel()
	registry, eu := redistest.Start(t), redistest.Start(t)
	inEU, stray := serve(t, "STORE="+registry.URL(), "HOMES=eu="+eu.URL(), "HOME=eu"), serve(t, "STORE="+registry.URL())
	var european admin.MintedLink
	inEU.manage(t, "POST", "/v1/links", admin.MintRequest{Bound: "5/365d"}, &european)
	homeless := stray.mint(t, "5/365d")
	c := newClient(t)
	for i := range 7 {
		got := c.ask(t, "GET", stray.Door+"/read/welcome", "", bearer(european.Credential)...)
		if degraded := got.header.Get("X-Signpost-RateLimit") == "degraded"; !degraded || (got.status == http.StatusOK) != (i < 5) {
			t.Errorf("take %d of 5 at a home that is not known: %d, degraded=%v", i+1, got.status, degraded)
		}
		if got := c.ask(t, "GET", stray.Door+"/read/welcome", "", bearer(homeless.Credential)...); got.header.Get("X-Signpost-RateLimit") != "" {
			t.Error("a link of no home is degraded too")
		}
	}
	metrics := c.ask(t, "GET", stray.Admin+"/metrics", "", bearer(adminToken)...).body
	for _, want := range []string{`signpost_store_servers_down{home="?"} 1`, `signpost_store_servers_down{home=""} 0`, "signpost_degraded 1"} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if strings.Contains(metrics, `signpost_store_failures_total{kind="home"} 0`) || !strings.Contains(metrics, `signpost_store_failures_total{kind="connection"} 0`) {
		t.Error("the metrics take a home that is not known for a lost connection")
	}
	if log := stray.stderr.String(); !strings.Contains(log, `home is not known to this process: eu`) {
		t.Errorf("the log does not name the home:\n%s", log)
	}
	if got := c.ask(t, "GET", stray.Admin+"/readyz", "").body; !strings.Contains(got, "degraded: home:?\n") {
		t.Errorf("readyz: %q", got)
	}
	if used := inEU.inspect(t, european.ID).Windows[0].Used; used != 0 {
		t.Errorf("%d are counted at home, want none", used)
	}
}
