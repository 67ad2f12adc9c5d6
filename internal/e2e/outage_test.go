// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost/internal/redistest"
)

// heldUp is longer than a request takes that does not wait for a server, and shorter than one that waits until its connection is given up.
const heldUp = 900 * time.Millisecond

// TestOutages breaks the server of a daemon in every way, and looks at all that somebody sees of it: callers, the metrics and the
// log. docs/fleet.md has the same table.
func TestOutages(t *testing.T) {
	for _, o := range []struct {
		name       string
		settings   []string
		begin, end func(*redistest.Server, *redistest.Proxy)
		kinds      string // that log and metric may tell
		forgets    bool   // what was before is gone
	}{
		{
			name:  "stopped, and restarted empty",
			begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Stop() }, end: func(s *redistest.Server, _ *redistest.Proxy) { s.Restart() },
			kinds: "connection", forgets: true,
		}, {
			name: "killed", settings: []string{"--appendonly", "yes", "--appendfsync", "always"},
			begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Kill() }, end: func(s *redistest.Server, _ *redistest.Proxy) { s.Restart() },
			kinds: "connection",
		}, {
			name:  "frozen",
			begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Freeze() }, end: func(s *redistest.Server, _ *redistest.Proxy) { s.Thaw() },
			kinds: "timeout",
		}, {
			name:  "packets vanish",
			begin: func(_ *redistest.Server, p *redistest.Proxy) { p.Lose(true) }, end: func(_ *redistest.Server, p *redistest.Proxy) { p.Lose(false) },
			kinds: "timeout",
		}, {
			name:  "farther away than it may be",
			begin: func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(storeTimeout) }, end: func(_ *redistest.Server, p *redistest.Proxy) { p.Delay(0) },
			kinds: "timeout",
		}, {
			name:  "out of memory",
			begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Do("CONFIG", "SET", "maxmemory", "1") },
			end:   func(s *redistest.Server, _ *redistest.Proxy) { s.Do("CONFIG", "SET", "maxmemory", "0") },
			kinds: "other",
		}, {
			name:  "a replica now",
			begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Do("REPLICAOF", "127.0.0.1", "1") },
			end:   func(s *redistest.Server, _ *redistest.Proxy) { s.Do("REPLICAOF", "NO", "ONE") },
			kinds: "other",
		}, {
			name: "another password",
			begin: func(s *redistest.Server, _ *redistest.Proxy) {
				s.Do("ACL", "SETUSER", "signpost", "resetpass", ">changed")
				s.Do("CLIENT", "KILL", "USER", "signpost")
			},
			end: func(s *redistest.Server, _ *redistest.Proxy) {
				s.Do("ACL", "SETUSER", "signpost", "resetpass", ">secret")
			},
			kinds: "auth|connection",
		}, {
			name:  "a permission less",
			begin: func(s *redistest.Server, _ *redistest.Proxy) { s.Do("ACL", "SETUSER", "signpost", "-set") },
			end:   func(s *redistest.Server, _ *redistest.Proxy) { s.Do("ACL", "SETUSER", "signpost", "+set") },
			kinds: "auth",
		},
	} {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			const limit, before = 40, 10
			server := redistest.Start(t, append([]string{"--user", "signpost", "on", ">secret", "~signpost:*", "+@all"}, o.settings...)...)
			proxy := redistest.NewProxy(t, server.Addr)
			d := serve(t, "STORE=redis://signpost@"+proxy.Addr, "STORE_PASSWORD=secret")
			minted := d.mint(t, fmt.Sprintf("%d/365d", limit))
			c := newClient(t)
			waits := 0 // requests that took as long as only a wait for the server does
			ask := func() (status int, degraded bool) {
				t.Helper()
				began := time.Now()
				got := c.ask(t, "GET", d.Door+"/read/welcome", "", bearer(minted.Credential)...)
				if time.Since(began) > heldUp {
					waits++
				}
				return got.status, got.header.Get("X-Signpost-RateLimit") == "degraded"
			}
			for range before {
				if status, degraded := ask(); status != http.StatusOK || degraded {
					t.Fatalf("before: status %d, degraded=%v", status, degraded)
				}
			}
			began, ask0 := time.Now(), waits
			o.begin(server, proxy)

			// The same rules, from nothing: the limit, and then refusals that say so too.
			for i := range limit + 10 {
				status, degraded := ask()
				if want := map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[i < limit]; status != want || !degraded {
					t.Fatalf("request %d of the outage: status %d, degraded=%v; want %d and true", i, status, degraded, want)
				}
			}
			if n := waits - ask0; n > 5 { // one; a machine that is busy makes a few others late, but not all
				t.Errorf("%d requests waited for the server", n)
			}
			metrics := c.ask(t, "GET", d.Admin+"/metrics", "", bearer(adminToken)...).body
			failures := regexp.MustCompile(`signpost_store_failures_total\{kind="(?:` + o.kinds + `)"\} [1-9]`)
			if !strings.Contains(metrics, "signpost_degraded 1\n") || !failures.MatchString(metrics) {
				t.Errorf("the metrics do not tell of it:\n%s", grep(metrics, "signpost_(degraded|store)"))
			}
			if got := c.ask(t, "GET", d.Admin+"/readyz", ""); got.status != http.StatusOK || !strings.Contains(got.body, "degraded: store") {
				t.Errorf("readyz: %d %q", got.status, got.body)
			}

			o.end(server, proxy)
			eventually(t, "the server's word is law again", func() bool { _, degraded := ask(); return !degraded })
			t.Logf("the outage was over %v after it began", time.Since(began).Round(time.Millisecond))
			eventually(t, "the log says so", func() bool { return strings.Contains(d.stderr.String(), "store answers again") })

			if o.forgets { // the links as well
				eventually(t, "its link is unknown", func() bool { status, _ := ask(); return status == http.StatusUnauthorized })
			} else if used := int(d.inspect(t, minted.ID).Windows[0].Used); used < before+limit-1 || used > before+limit+1 {
				// What was admitted meanwhile is in the count. One request was on its way as it began, and one came as it ended.
				t.Errorf("%d are used after the outage, want about %d", used, before+limit)
			}
			log := d.stderr.String()
			for what, want := range map[string]string{"begin": `local rules decide".*"kind":"(` + o.kinds + `)","err":"`, "end": `store answers again".*"after":"`} {
				if n := len(regexp.MustCompile(want).FindAllString(log, -1)); n != 1 {
					t.Errorf("%d lines of the log tell of its %s, want 1", n, what)
				}
			}
			if lines := strings.Count(log, "\n"); lines > 12 {
				t.Errorf("the log has %d lines:\n%s", lines, log)
			}
			for _, secret := range []string{"secret", "changed", minted.Credential} {
				if strings.Contains(log, secret) {
					t.Errorf("the log holds %q", secret)
				}
			}
		})
	}
}

// An outage that outlasts the connections holds up no more requests than one that has just begun: also the registry, which is on that
// server too, is known to be silent.
func TestLongOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := serve(t, "STORE="+server.URL())
	minted := d.mint(t, "1000000/365d")
	c := newClient(t)
	ask := func() (took time.Duration, degraded bool) {
		t.Helper()
		began := time.Now()
		got := c.ask(t, "GET", d.Door+"/read/welcome", "", bearer(minted.Credential)...)
		if got.status != http.StatusOK {
			t.Fatalf("status %d: %s", got.status, got.body)
		}
		return time.Since(began), got.header.Get("X-Signpost-RateLimit") == "degraded"
	}
	ask()
	server.Freeze()
	ask() // waits for the store
	var waited []time.Duration
	for end := time.Now().Add(7 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		took, degraded := ask()
		if !degraded {
			t.Fatal("a request was decided by a server that is frozen")
		}
		if took > heldUp {
			waited = append(waited, took)
		}
	}
	if len(waited) > 3 { // all do if it is not known; a machine that is busy may stop us now and then
		t.Errorf("requests waited %v while the server was known to be away", waited)
	}
	server.Thaw()
	eventually(t, "the server's word is law again", func() bool { _, degraded := ask(); return !degraded })
}

// grep returns the lines that match.
func grep(text, pattern string) string {
	match := regexp.MustCompile(pattern)
	var b strings.Builder
	for line := range strings.Lines(text) {
		if match.MatchString(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// A server that evicts keys forgets counts. Whoever runs it is told at the start, if the user may ask.
func TestEvictionIsTold(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]bool{"allkeys-lru": true, "noeviction": false} {
		server := redistest.Start(t, "--maxmemory-policy", policy)
		d := serve(t, "STORE="+server.URL())
		d.started(t)
		if told := strings.Contains(d.stderr.String(), "evict"); told != want {
			t.Errorf("%s: told of eviction: %s", policy, strconv.FormatBool(told))
		}
	}
}
