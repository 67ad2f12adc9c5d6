// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost/link"
)

const nginxConf = `
daemon off;
master_process off;
pid nginx.pid;
events {}
http {
	access_log off;
	client_body_temp_path body;
	client_max_body_size 0;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	proxy_cache_path cache keys_zone=all:1m;
	server {
		listen unix:%s;
		location / {
			proxy_pass %s;
			proxy_http_version 1.1;
			proxy_cache all;
			# One entry for all callers and methods: whatever is stored can be given to anybody.
			proxy_cache_key $request_uri;
			proxy_cache_methods GET HEAD POST;
			proxy_cache_bypass $http_x_ask_again;
			add_header X-Cache-Status $upstream_cache_status always;
			%s
		}
	}
}
`

// cache is an nginx in front of a door.
type cache struct {
	*client
	t *testing.T
}

func startNginx(t *testing.T, door, rules string) *cache {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			t.Fatal("there is no nginx, in PATH or as /usr/sbin/nginx; scripts/needs nginx installs it")
		}
	}
	// Not t.TempDir: the path of a socket is at most 108 bytes long.
	dir, err := os.MkdirTemp("", "nginx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, conf := filepath.Join(dir, "socket"), filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, socket, door, rules), 0o600); err != nil {
		t.Fatal(err)
	}
	nginx := spawn(t, exec.Command(program, "-p", dir, "-c", conf, "-e", "stderr"))
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	eventually(t, "nginx listens", func() bool {
		if nginx.hasEnded() {
			t.Fatalf("nginx does not start:\n%s", nginx.stderr.String())
		}
		conn, err := dial(t.Context(), "", "")
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	c := newClient(t)
	c.http.Transport.(*http.Transport).DialContext = dial
	return &cache{c, t}
}

// get asks the cache, and looks at what it gives out of its store.
func (c *cache) get(path string, header ...string) (a answer, from string) {
	c.t.Helper()
	return c.send("GET", path, "", header...)
}

func (c *cache) send(method, path, body string, header ...string) (a answer, from string) {
	c.t.Helper()
	a = c.ask(c.t, method, "http://cache"+path, body, header...)
	from = a.header.Get("X-Cache-Status")
	switch from {
	case "HIT", "STALE", "UPDATING", "REVALIDATED":
		if a.status != http.StatusOK {
			c.t.Errorf("%s %s: %d out of the cache (%s)", method, path, a.status, from)
		}
		if names := a.counters(); names != nil {
			c.t.Errorf("%s %s: somebody's %v out of the cache (%s)", method, path, names, from)
		}
	}
	return a, from
}

// wantStored fails unless the cache has the path, and gives it to a stranger too.
func (c *cache) wantStored(path, body string) {
	c.t.Helper()
	if a, from := c.get(path); from != "HIT" || a.status != http.StatusOK || a.body != body {
		c.t.Errorf("GET %s: %s %d %q; want a HIT of %q", path, from, a.status, a.body, body)
	}
}

// refusal is a request that the door answers by itself.
type refusal struct {
	name         string
	method, body string
	header       []string
	status       int
}

// refusals are of a door with bodies of up to 64 bytes.
func refusals(t *testing.T, d *daemon, c *client) []refusal {
	t.Helper()
	full := d.mint(t, "1/366d").Credential
	if a := c.ask(t, "GET", d.Door+"/", "", bearer(full)...); a.status != http.StatusOK {
		t.Fatalf("the first request of a link: %d %s", a.status, a.body)
	}
	valid := bearer(d.Link)
	return []refusal{
		{"no quota", "GET", "", bearer(full), 429},
		{"no credential", "GET", "", nil, 401},
		{"unknown credential", "GET", "", bearer("sp_" + strings.Repeat("0", 32)), 401},
		{"no link", "GET", "", bearer("abc"), 401},
		{"another scheme", "GET", "", []string{"Authorization", "Basic abc"}, 400},
		{"large body", "POST", strings.Repeat("x", 65), valid, 413},
		{"unknown encoding", "POST", "x", append(valid, "Content-Encoding", "br"), 415},
	}
}

// A shared cache that stores whatever it is not forbidden to store, and one that stores every success whatever it
// is told, give nobody a refusal and nobody the counters of another.
func TestCacheInFrontOfTheDoor(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	d := serve(t, "UPSTREAM="+up.URL, "SHAPE_MARKDOWN=16")
	direct := newClient(t)
	all := refusals(t, d, direct)
	for name, rules := range map[string]string{
		"honours what answers say": "proxy_cache_valid any 10m;",
		"ignores what answers say": "proxy_cache_valid 200 301 302 10m; proxy_ignore_headers Cache-Control Expires Vary Set-Cookie X-Accel-Expires;",
	} {
		t.Run(name, func(t *testing.T) {
			c := startNginx(t, d.Door, rules)
			agents := say("/AGENTS.md", "# Agents", "Cache-Control: public, max-age=600")
			if a, from := c.get(agents, bearer(d.Link)...); from != "MISS" || a.body != "# Agents" || a.counters() != nil {
				t.Fatalf("first GET: %s %d %q, counters %v; want a MISS without counters", from, a.status, a.body, a.counters())
			}
			c.wantStored(agents, "# Agents")
			for i, r := range all {
				askAgain := append([]string{"X-Ask-Again", "1"}, r.header...)
				if a, from := c.send(r.method, agents, r.body, askAgain...); a.status != r.status || from != "BYPASS" {
					t.Errorf("%s: %s %d; want %d past the cache", r.name, from, a.status, r.status)
				}
				c.wantStored(agents, "# Agents")

				fresh := say(fmt.Sprintf("/fresh/%d", i), "fresh", "Cache-Control: public, max-age=600")
				for range 2 {
					if a, from := c.send(r.method, fresh, r.body, r.header...); a.status != r.status || from != "MISS" {
						t.Errorf("%s of what is not stored: %s %d; want a MISS and %d", r.name, from, a.status, r.status)
					}
				}
				if a, from := c.get(fresh, bearer(d.Link)...); from != "MISS" || a.body != "fresh" {
					t.Errorf("after %s: %s %d %q; want a MISS of the real thing", r.name, from, a.status, a.body)
				}
				c.wantStored(fresh, "fresh")
			}
		})
	}
}

// A stored answer that is revalidated, or served stale because the door refuses or the upstream is down, stays as it was.
func TestCacheRevalidates(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	d := serve(t, "UPSTREAM="+up.URL)
	c := startNginx(t, d.Door, `
		proxy_cache_valid any 10m;
		proxy_cache_revalidate on;
		proxy_cache_use_stale error timeout updating http_429 http_500 http_502 http_503 http_504;`)
	agents := say("/AGENTS.md", "# Agents", "Cache-Control: public, max-age=1", `Etag: "1"`)

	for _, path := range []string{agents, say("/silent", "", `Etag: "1"`)} {
		a := newClient(t).ask(t, "GET", d.Door+path, "", append(bearer(d.Link), "If-None-Match", `"1"`)...)
		if a.status != http.StatusNotModified || a.counters() != nil {
			t.Errorf("%s: %d with %v; want 304 without counters: its fields go into the stored answer", path, a.status, a.counters())
		}
	}
	want := func(from string, header ...string) {
		t.Helper()
		eventually(t, "the cache says "+from, func() bool {
			a, got := c.get(agents, header...)
			if got != "MISS" && (a.status != http.StatusOK || a.body != "# Agents") {
				t.Fatalf("%s: %d %q", got, a.status, a.body)
			}
			return got == from
		})
	}
	wantHit := func() {
		t.Helper()
		eventually(t, "a stranger is given what is stored", func() bool {
			a, got := c.get(agents)
			if got == "EXPIRED" && a.status == http.StatusUnauthorized { // this test was not quick enough: it is stored for a second or two
				c.get(agents, bearer(d.Link)...)
				return false
			}
			if got != "HIT" || a.status != http.StatusOK || a.body != "# Agents" {
				t.Fatalf("%s: %d %q; want a HIT", got, a.status, a.body)
			}
			return true
		})
	}
	want("MISS", bearer(d.Link)...)
	wantHit()
	want("REVALIDATED", bearer(d.Link)...)
	wantHit()

	full := d.mint(t, "1/366d").Credential
	if a := newClient(t).ask(t, "GET", d.Door+"/", "", bearer(full)...); a.status != http.StatusOK {
		t.Fatalf("the first request of a link: %d", a.status)
	}
	want("STALE", bearer(full)...)
	want("REVALIDATED", bearer(d.Link)...)
	wantHit()

	up.kill(t)
	want("STALE", bearer(d.Link)...)
}

// Errors of the door that are not of one caller are stored no more than refusals are.
func TestCacheStoresNoOutage(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	d := serve(t, "UPSTREAM="+up.URL, "TRY=true", "BOUNDS_STRANGERS=1000000/min 1000 concurrent")
	c := startNginx(t, d.Door, "proxy_cache_valid any 10m;")

	fillTryLinks(t, d)
	for range 2 {
		if a, from := c.send("POST", "/try", ""); a.status != http.StatusServiceUnavailable || from != "MISS" || a.header.Get("Retry-After") == "" {
			t.Errorf("POST /try with no room: %s %d, Retry-After %q; want a MISS and 503 with a wait", from, a.status, a.header.Get("Retry-After"))
		}
	}
	up.kill(t)
	for range 2 {
		if a, from := c.get("/AGENTS.md", bearer(d.Link)...); a.status != http.StatusBadGateway || from != "MISS" {
			t.Errorf("upstream down: %s %d; want a MISS and 502", from, a.status)
		}
	}
}

// fillTryLinks mints try links until there is no room for more. It asks for all at once over one connection: that is
// many times faster than one by one.
func fillTryLinks(t *testing.T, d *daemon) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.Door, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	const asked = link.MaxTry + 1
	go io.WriteString(conn, strings.Repeat("POST /try HTTP/1.1\r\nHost: door\r\nContent-Length: 0\r\n\r\n", asked))
	answers := bufio.NewReader(conn)
	for i := range asked {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("mint try link %d: %v", i, err)
		}
		io.Copy(io.Discard, resp.Body)
		want := http.StatusCreated
		if i == link.MaxTry {
			want = http.StatusServiceUnavailable
		}
		if resp.StatusCode != want {
			t.Fatalf("mint try link %d: %d, want %d", i, resp.StatusCode, want)
		}
	}
}
