// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/signposthq/signpost/internal/admin"
)

// kills is how often each of two daemons is killed under load.
const kills = 25

// Whatever moment the daemon is killed at, every answer that arrived is counted when it is back, and nothing is
// counted that was not asked. Links that were minted are there, and those that were revoked are not.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one", "another"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killUnderLoad(t)
		})
	}
}

func killUnderLoad(t *testing.T) {
	dir := t.TempDir()
	d := serve(t, onDisk(dir)...)
	callers := newCallers(t, d)
	r := &registrar{}
	extra := uint32(0)
	for range kills {
		l := startLoad(t, d, callers)
		r.begin(t, d)
		most := rand.Int64N(80)
		eventually(t, "requests go through", func() bool { return l.through.Load() > most })
		d.kill(t)
		l.stop()
		r.end()

		if rand.N(4) == 0 { // in the middle of the start, too
			starting := spawn(t, signpost(t, onDisk(dir), "serve", "--json"))
			select {
			case <-starting.ended:
				t.Fatalf("the daemon does not start:\n%s", starting.stderr.String())
			case <-time.After(rand.N(100 * time.Millisecond)):
			}
			starting.kill(t)
		}
		d = serve(t, onDisk(dir)...)
		if d.Link != "" {
			t.Fatal("a second first link")
		}
		for _, c := range callers {
			extra += c.settle(t, d, true)
		}
		r.settle(t, d)
	}
	c := newClient(t)
	for _, caller := range callers {
		caller.fill(t, c, d)
	}
	wantFewDegraded(t, callers)
	t.Logf("%d kills, %d links minted; %d requests were counted whose answer did not arrive", kills, r.minted, extra)
}

// registrar mints links and revokes every other one, and knows which must be there.
type registrar struct {
	live, revoked []string // IDs, not looked at since
	minted        int
	done          chan struct{}
}

func (r *registrar) begin(t *testing.T, d *daemon) {
	r.done = make(chan struct{})
	c := newClient(t)
	go func() {
		defer close(r.done)
		for {
			var l admin.MintedLink
			a, err := c.try(t.Context(), "POST", d.Admin+"/v1/links", "{}", bearer(adminToken)...)
			if err != nil || a.status != http.StatusCreated {
				return
			}
			if err := json.Unmarshal([]byte(a.body), &l); err != nil {
				t.Errorf("minted link %q: %v", a.body, err)
				return
			}
			r.minted++
			if r.minted%2 == 0 {
				r.live = append(r.live, l.ID)
				continue
			}
			a, err = c.try(t.Context(), "POST", d.Admin+"/v1/links/"+l.ID+"/revoke", "", bearer(adminToken)...)
			if err != nil || a.status != http.StatusOK {
				return // it may be either
			}
			r.revoked = append(r.revoked, l.ID)
		}
	}()
}

func (r *registrar) end() { <-r.done }

func (r *registrar) settle(t *testing.T, d *daemon) {
	t.Helper()
	for state, ids := range map[string][]string{"live": r.live, "revoked": r.revoked} {
		for _, id := range ids {
			var l admin.Link
			if d.manage(t, "GET", "/v1/links/"+id, nil, &l); l.State != state {
				t.Errorf("link %s is %s after a kill, and was %s", id, l.State, state)
			}
		}
	}
	r.live, r.revoked = nil, nil
}

// A daemon that is told to stop answers all that it has begun, and loses none of it; also one that does not sync.
func TestStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	for _, sync := range []string{"always", "off"} {
		t.Run("sync "+sync, func(t *testing.T) {
			t.Parallel()
			for attempt := 1; stopUnderLoad(t, sync); attempt++ {
				if attempt == 3 {
					t.Fatal("each time the disk was too slow for a daemon that stops")
				}
			}
		})
	}
}

// stopUnderLoad reports whether the disk was slower than a daemon that stops waits for it, which then promises nothing.
func stopUnderLoad(t *testing.T, sync string) (slow bool) {
	const rounds = 2
	up := startUpstream(t)
	settings := onDisk(t.TempDir(), "UPSTREAM="+up.URL, "EXPENSIVE=/hang", "SYNC="+sync)
	d := serve(t, settings...)
	callers := newCallers(t, d)
	hung := d.mint(t, "1000/"+longWindow())
	for range rounds {
		crowd := hang(t, d, up, hung.Credential)
		l := startLoad(t, d, callers)
		eventually(t, "requests go through", func() bool { return l.through.Load() > 100 })
		d.signal(t, syscall.SIGTERM)
		c := newClient(t)
		eventually(t, "the daemon is not ready any more, and says so", func() bool {
			a, err := c.try(t.Context(), "GET", d.Admin+"/readyz", "")
			return err == nil && a.status == http.StatusServiceUnavailable
		})
		eventually(t, "the door is closed to new requests", func() bool {
			_, err := newClient(t).try(t.Context(), "GET", d.Door+"/", "")
			return err != nil
		})
		if d.hasEnded() {
			t.Fatal("the daemon ended with requests in flight")
		}
		l.stop()
		up.letGo(t)
		crowd.end(http.StatusOK)
		if code := d.wait(t); code == 1 && strings.Contains(d.stderr.String(), "count is not durable: the disk does not answer") {
			return true
		} else if code != 0 {
			t.Fatalf("exit code %d:\n%s", code, d.stderr.String())
		}

		d = serve(t, settings...)
		for _, c := range callers {
			if counted := c.settle(t, d, false); counted != 0 {
				t.Errorf("%s: %d more were counted than answered", c.bound, counted)
			}
		}
	}
	if used := d.inspect(t, hung.ID).Windows[0].Used; used != rounds*slots {
		t.Errorf("%d of the requests that hung are counted, want %d", used, rounds*slots)
	}
	c := newClient(t)
	for _, caller := range callers {
		caller.fill(t, c, d)
	}
	wantFewDegraded(t, callers)
	return false
}

// One directory belongs to one daemon, as long as that lives.
func TestSecondDaemonOnOneDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := serve(t, onDisk(dir)...)
	link := first.mint(t, "5/"+longWindow())
	c := newClient(t)
	for i := range 3 {
		if i == 2 {
			eventually(t, "all is durable", func() bool { return ready(c.ask(t, "GET", first.Admin+"/readyz", "")) == "ok" })
			first.kill(t)
			first = serve(t, onDisk(dir)...)
		}
		second := spawn(t, signpost(t, onDisk(dir), "serve", "--json"))
		if code := second.wait(t); code == 0 || !strings.Contains(second.stderr.String(), dir) || second.stdout.String() != "" {
			t.Errorf("second daemon: exit code %d, %q, and on the standard output %q; want an error that names %s",
				code, second.stderr.String(), second.stdout.String(), dir)
		}
		if a := c.ask(t, "GET", first.Door+"/", "", bearer(link.Credential)...); a.status != http.StatusOK {
			t.Errorf("the first daemon: %d %s", a.status, a.body)
		}
	}
	if used := first.inspect(t, link.ID).Windows[0].Used; used != 3 {
		t.Errorf("%d counted, want 3", used)
	}
}
