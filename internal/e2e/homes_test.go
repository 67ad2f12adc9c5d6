// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
	// Those that nobody chose a home for are at home where they were minted: the first, and those of strangers.
	c := newClient(t)
	if got := c.ask(t, "POST", inUS.Door+"/try", ""); got.status != http.StatusCreated {
		t.Errorf("try: %d %s", got.status, got.body)
	}
	var all admin.LinkList
	inEU.manage(t, "GET", "/v1/links", nil, &all)
	wanted := map[string]string{"first": "eu", "try": "us"} // by label
	for _, l := range all.Links {
		if want, ok := wanted[l.Label]; ok && l.Home.String() != want {
			t.Errorf("the link %q is at home in %q, want %q", l.Label, l.Home, want)
		}
		delete(wanted, l.Label)
	}
	if len(wanted) > 0 {
		t.Errorf("no links of these labels: %v", wanted)
	}
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

	// The debt of an outage goes home, once: take counts what passed.
	var debtor admin.MintedLink
	inEU.manage(t, "POST", "/v1/links", admin.MintRequest{Bound: "100000/365d"}, &debtor)
	passed := uint32(0)
	take := func(d *daemon) (degraded bool) {
		t.Helper()
		status, degraded := ask(d, debtor)
		if status != http.StatusOK {
			t.Errorf("take of a link with room: %d", status)
		}
		passed++
		return degraded
	}
	take(inEU)
	take(inUS)

	eu.Freeze()
	for _, d := range []*daemon{inEU, inUS} {
		if status, degraded := ask(d, told); status != http.StatusOK || !degraded {
			t.Errorf("a link whose home is frozen: %d, degraded=%v", status, degraded)
		}
		if status, degraded := ask(d, american); status != http.StatusOK || degraded {
			t.Errorf("a link of the other home: %d, degraded=%v", status, degraded)
		}
		eventually(t, "readyz tells of this home alone", func() bool { return ready(c.ask(t, "GET", d.Admin+"/readyz", "")) == "degraded: home:eu" })
		eventually(t, "the log names the home", func() bool { return strings.Contains(d.stderr.String(), `"home":"eu"`) })
		for range 5 {
			take(d)
		}
	}
	metrics := c.ask(t, "GET", inUS.Admin+"/metrics", "", bearer(adminToken)...).body
	for _, want := range []string{`signpost_store_servers_down{home="eu"} 1`, `signpost_store_servers_down{home="us"} 0`, `signpost_store_servers_down{home=""} 0`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if log := inUS.stderr.String(); strings.Contains(log, "of-eu") {
		t.Errorf("the log holds a password:\n%s", log)
	}
	eu.Thaw()
	for _, d := range []*daemon{inEU, inUS} {
		eventually(t, "the home is back", func() bool { return !take(d) }) // a key's debt goes before its next take
		if status, _ := ask(d, european); status != http.StatusTooManyRequests {
			t.Errorf("the count of 40 was lost: status %d", status)
		}
	}
	if used := inUS.inspect(t, debtor.ID).Windows[0].Used; used != passed {
		t.Errorf("%d are counted, want the %d that passed", used, passed)
	}

	// Without the registry, links that were read before go on at their homes, and no other is turned away for good.
	unread := mint(inEU, "")
	registry.Kill()
	for range 20 {
		for _, d := range []*daemon{inEU, inUS} {
			if take(d) {
				t.Fatal("a link at home is degraded though only the registry is away")
			}
		}
	}
	got := c.ask(t, "GET", inUS.Door+"/read/welcome", "", bearer(debtor.Credential)...)
	if left, want := got.header.Get("X-RateLimit-Remaining"), fmt.Sprint(100_000-passed-1); left != want {
		t.Errorf("%s remain without the registry, want %s", left, want)
	}
	if status, _ := ask(inUS, unread); status != http.StatusServiceUnavailable {
		t.Errorf("a link that was never read: %d, want 503", status)
	}
	// No count is missing then, and whoever runs the daemon hears of it all the same.
	eventually(t, "readyz tells of links", func() bool { return ready(c.ask(t, "GET", inUS.Admin+"/readyz", "")) == "degraded: links" })
	if metrics := c.ask(t, "GET", inUS.Admin+"/metrics", "", bearer(adminToken)...).body; !strings.Contains(metrics, "signpost_degraded 1\n") {
		t.Error("the metrics do not tell of the registry")
	}
	registry.Restart()
	eventually(t, "links can be read again", func() bool { return ready(c.ask(t, "GET", inUS.Admin+"/readyz", "")) == "ok" })
	for _, want := range []string{"links cannot be read; ", "links can be read again"} {
		eventually(t, "the log says "+want, func() bool { return strings.Count(inUS.stderr.String(), want) == 1 })
	}
}

// ready returns what /readyz says, without the "ok, " of a daemon that serves in spite of it.
func ready(a answer) string { return strings.TrimPrefix(strings.TrimSpace(a.body), "ok, ") }

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
	eventually(t, "the log names the home", func() bool { return strings.Contains(stray.stderr.String(), `home is not known to this process: eu`) })
	metrics := c.ask(t, "GET", stray.Admin+"/metrics", "", bearer(adminToken)...).body
	// Each take is counted, and nothing is left that would stay after the last one.
	for _, want := range []string{
		`signpost_store_failures_total{kind="home"} 7`, `signpost_takes_total{class="cheap",door="http",outcome="degraded_admitted"} 5`,
		`signpost_store_failures_total{kind="connection"} 0`, `signpost_store_servers_down{home=""} 0`, "signpost_degraded 0",
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("the metrics lack %s:\n%s", want, grep(metrics, "signpost_(degraded|store|takes)"))
		}
	}
	if got := ready(c.ask(t, "GET", stray.Admin+"/readyz", "")); got != "ok" {
		t.Errorf("readyz: %q", got)
	}
	if n := strings.Count(stray.stderr.String(), `"home":"eu"`); n != 1 {
		t.Errorf("%d lines of the log tell of the home, want 1", n)
	}
	if used := inEU.inspect(t, european.ID).Windows[0].Used; used != 0 {
		t.Errorf("%d are counted at home, want none", used)
	}
}

// At the start a home that cannot be reached is an outage of that home, and one that turns the daemon away an error that names it.
func TestHomesAtTheStart(t *testing.T) {
	t.Parallel()
	registry, eu, us := redistest.Start(t), redistest.Start(t), redistest.Start(t, "--user", "signpost", "on", ">of-us", "~signpost:*", "+@all")
	all := []string{"STORE=" + registry.URL(), "HOMES=eu=" + eu.URL() + ",us=redis://signpost@" + us.Addr, "HOME=eu"}

	p := spawn(t, signpost(t, append(all, "STORE_PASSWORD_US=hunter2"), "serve"))
	code := p.wait(t)
	if log := p.stderr.String(); code != 1 || !strings.Contains(log, "home us: ") || strings.Contains(log, "hunter2") {
		t.Errorf("a wrong password of a home: exit code %d, %q", code, log)
	}

	eu.Kill()
	d := serve(t, append(all, "STORE_PASSWORD_US=of-us")...)
	c := newClient(t)
	eventually(t, "readyz tells of this home alone, before any request", func() bool { return ready(c.ask(t, "GET", d.Admin+"/readyz", "")) == "degraded: home:eu" })
	for home, want := range map[string]string{"eu": "degraded", "us": ""} {
		var l admin.MintedLink
		d.manage(t, "POST", "/v1/links", admin.MintRequest{Home: home}, &l)
		got := c.ask(t, "GET", d.Door+"/read/welcome", "", bearer(l.Credential)...)
		if got.status != http.StatusOK || got.header.Get("X-Signpost-RateLimit") != want {
			t.Errorf("a link of home %s: %d, degraded=%q, want %q", home, got.status, got.header.Get("X-Signpost-RateLimit"), want)
		}
	}
	eu.Restart()
	eventually(t, "the home that was away at the start is there", func() bool {
		return ready(c.ask(t, "GET", d.Admin+"/readyz", "")) == "ok"
	})
}

// A reload changes where links are minted, and neither the homes that there are nor where a link is counted.
func TestHomesReload(t *testing.T) {
	t.Parallel()
	registry, eu, us := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	file := filepath.Join(t.TempDir(), "signpost.yaml")
	write := func(homes, home string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("store: "+registry.URL()+"\nhomes:\n"+homes+"home: "+home+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inEU, inUS := "  - eu="+eu.URL()+"\n", "  - us="+us.URL()+"\n"
	write(inEU+inUS, "eu")
	d := serve(t, "STORE=", "CONFIG="+file)
	c := newClient(t)
	mint := func() (l admin.MintedLink) {
		t.Helper()
		d.manage(t, "POST", "/v1/links", admin.MintRequest{Bound: "3/365d"}, &l)
		return l
	}
	ask := func(l admin.MintedLink) int {
		t.Helper()
		got := c.ask(t, "GET", d.Door+"/read/welcome", "", bearer(l.Credential)...)
		if got.header.Get("X-Signpost-RateLimit") != "" {
			t.Error("degraded")
		}
		return got.status
	}
	reload := func(says string) {
		t.Helper()
		before := strings.Count(d.stderr.String(), says)
		d.signal(t, syscall.SIGHUP)
		eventually(t, "the log says "+says, func() bool { return strings.Count(d.stderr.String(), says) > before })
	}

	first := mint()
	ask(first)
	write(inEU+inUS, "us")
	reload(`"msg":"reload"`)
	second := mint()
	if first.Home.String() != "eu" || second.Home.String() != "us" {
		t.Errorf("homes %q and, after the reload, %q; want eu and us", first.Home, second.Home)
	}
	write(inUS, "us") // waits for a restart: links of the other home are counted as before
	reload(`"these changes wait for a restart"`)
	ask(first)
	ask(first)
	if status := ask(first); status != http.StatusTooManyRequests {
		t.Errorf("the fourth take of three, over two reloads: %d", status)
	}
	write(inUS, "mars")
	reload(`"msg":"reload failed`)
	if third := mint(); third.Home.String() != "us" {
		t.Errorf("home %q after a reload that failed, want us", third.Home)
	}
}
