// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// slots is the concurrency of every link unless it has its own.
const slots = 10

// crowd is as many expensive requests as a link may have at once, which hang in the upstream.
type crowd struct {
	t       *testing.T
	answers chan answer // of the requests that came to an end
	gone    context.CancelFunc
	all     sync.WaitGroup
}

// hang fills the slots of a link, and returns when all of the requests, and no others, are in the upstream.
func hang(t *testing.T, d *daemon, up *served, link string) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c := &crowd{t: t, answers: make(chan answer, slots), gone: cancel}
	eventually(t, "nobody is left in the upstream", func() bool { return up.hanging(t) == 0 })
	requests := newClient(t)
	for range slots {
		c.all.Go(func() {
			if a, err := requests.try(ctx, "POST", d.Door+"/hang", "a body", bearer(link)...); err == nil {
				c.answers <- a
			}
		})
	}
	eventually(t, "the requests are in the upstream", func() bool { return up.hanging(t) == slots })
	return c
}

// end waits until every request has ended, and wants all of them answered with a status.
func (c *crowd) end(status int) {
	c.t.Helper()
	c.all.Wait()
	close(c.answers)
	n := 0
	for a := range c.answers {
		n++
		if a.status != status {
			c.t.Errorf("a request that hung: %d %q, want %d", a.status, a.body, status)
		}
	}
	if n != slots {
		c.t.Errorf("%d requests that hung were answered, want %d", n, slots)
	}
}

// wantFull fails unless the door refuses one more request of a link because of its concurrency.
func wantFull(t *testing.T, d *daemon, link string) answer {
	t.Helper()
	a := newClient(t).ask(t, "POST", d.Door+"/hang", "a body", bearer(link)...)
	if a.status != http.StatusTooManyRequests || !strings.Contains(a.body, "concurrency_limit_exceeded") {
		t.Fatalf("one more than may run at once: %d %s", a.status, a.body)
	}
	return a
}

// wantFree waits until every slot of a link is free, which must be before a lease could expire.
func wantFree(t *testing.T, d *daemon, link string) {
	t.Helper()
	wantFreeSlots(t, d, link, slots)
}

func wantFreeSlots(t *testing.T, d *daemon, link string, slots int) {
	t.Helper()
	c := newClient(t)
	eventually(t, "every slot is free", func() bool {
		var held []string
		free := true
		for range slots {
			taken := c.take(t, d, map[string]any{"link": link, "expensive": true})
			if free = taken.Admitted; !free {
				break
			}
			held = append(held, taken.Lease)
		}
		if free && c.take(t, d, map[string]any{"link": link, "expensive": true}).Admitted {
			t.Fatalf("more than %d slots are free", slots)
		}
		for _, lease := range held {
			c.ask(t, "POST", d.API+"/v1/release", marshal(t, map[string]any{"lease": lease}))
		}
		return free
	})
	eventually(t, "the metrics know of no lease", func() bool {
		return strings.Contains(d.metrics(t), "signpost_leases_in_flight 0\n")
	})
}

func (d *daemon) metrics(t testing.TB) string {
	t.Helper()
	return newClient(t).ask(t, "GET", d.Admin+"/metrics", "", bearer(adminToken)...).body
}

// behind starts an upstream and a daemon in front of it, where /hang, /events and /ws are expensive.
func behind(t *testing.T, settings ...string) (*served, *daemon) {
	t.Helper()
	up := startUpstream(t)
	return up, serve(t, append([]string{"UPSTREAM=" + up.URL, "EXPENSIVE=/hang,/events,/ws", "BOUNDS_LINKS=100000/366d 10 concurrent"}, settings...)...)
}

// The wait that the door tells is that of the lease which must end first.
func TestEleventhAtOnceIsToldTheWait(t *testing.T) {
	t.Parallel()
	_, d := behind(t)
	c := newClient(t)
	var first time.Time // when the first of the leases ends
	for i := range slots {
		taken := c.take(t, d, map[string]any{"link": d.Link, "expensive": true})
		if !taken.Admitted || taken.LeaseExpiresAt.Sub(taken.At) != 30*time.Second {
			t.Fatalf("take %d: %+v", i, taken)
		}
		if i == 0 {
			first = taken.LeaseExpiresAt
		}
	}
	refused := c.take(t, d, map[string]any{"link": d.Link, "expensive": true})
	if want := ceil(first.Sub(refused.At)); refused.Admitted || refused.RetryAfterSeconds != want {
		t.Errorf("api: admitted %v, wait %d s, want a refusal and %d s", refused.Admitted, refused.RetryAfterSeconds, want)
	}

	asked := time.Now()
	a := wantFull(t, d, d.Link)
	answered := time.Now()
	wait, err := strconv.ParseInt(a.header.Get("Retry-After"), 10, 64)
	if least, most := ceil(first.Sub(answered)), ceil(first.Sub(asked)); err != nil || wait < least || wait > most {
		t.Errorf("door: Retry-After %q, want %d to %d", a.header.Get("Retry-After"), least, most)
	}
	var body struct {
		RetryAfterSeconds int64
		RetryExact        *bool
	}
	a.into(t, &body)
	if body.RetryAfterSeconds != wait || body.RetryExact == nil || *body.RetryExact {
		t.Errorf("door: the body says %s, beside Retry-After %d", a.body, wait)
	}
	reset := strconv.FormatInt(int64(math.Ceil(float64(first.UnixMilli())/1000)), 10)
	if got := a.header.Get("X-RateLimit-Reset"); got != reset {
		t.Errorf("door: X-RateLimit-Reset %s, want %s", got, reset)
	}
	if got := a.header["Ratelimit"]; len(got) != 1 || got[0] != `"concurrency";r=0` {
		t.Errorf("door: RateLimit %q", got)
	}
	// Cheap requests need no slot.
	if a := c.ask(t, "GET", d.Door+"/", "", bearer(d.Link)...); a.status != http.StatusOK {
		t.Errorf("a cheap request beside full slots: %d %s", a.status, a.body)
	}
}

// ceil returns a wait in whole seconds, as it goes on the wire.
func ceil(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

func TestSlotsAreGivenBack(t *testing.T) {
	t.Parallel()
	up, d := behind(t)
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, c *crowd)
	}{
		{"the upstream answers", func(t *testing.T, c *crowd) {
			up.letGo(t)
			c.end(http.StatusOK)
		}},
		{"the clients go away", func(t *testing.T, c *crowd) { c.gone() }},
		{"the upstream is frozen, and thaws", func(t *testing.T, c *crowd) {
			up.freeze(t)
			wantFull(t, d, d.Link)
			up.signal(t, syscall.SIGCONT)
			up.letGo(t)
			c.end(http.StatusOK)
		}},
		{"the upstream is frozen, and the clients go away", func(t *testing.T, c *crowd) {
			up.freeze(t)
			t.Cleanup(func() { up.signal(t, syscall.SIGCONT) })
			c.gone()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := hang(t, d, up, d.Link)
			wantFull(t, d, d.Link)
			tt.end(t, c)
			wantFree(t, d, d.Link)
		})
	}
	t.Run("the clients go away in the middle of their bodies", func(t *testing.T) {
		var conns []net.Conn
		eventually(t, "nobody is left in the upstream", func() bool { return up.hanging(t) == 0 })
		for range slots {
			conn, err := net.Dial("tcp", strings.TrimPrefix(d.Door, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conns = append(conns, conn)
			fmt.Fprintf(conn, "POST /hang HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer %s\r\nContent-Length: 100000\r\n\r\n%50000d", d.Link, 0)
		}
		eventually(t, "the requests are in the upstream", func() bool { return up.hanging(t) == slots })
		wantFull(t, d, d.Link)
		for i, conn := range conns {
			if i%2 == 0 {
				conn.(*net.TCPConn).SetLinger(0) // as a process that is killed does: a reset
			}
			conn.Close()
		}
		wantFree(t, d, d.Link)
	})
	t.Run("the upstream is killed", func(t *testing.T) {
		c := hang(t, d, up, d.Link)
		wantFull(t, d, d.Link)
		up.kill(t)
		c.end(http.StatusBadGateway)
		wantFree(t, d, d.Link)
	})
}

// A daemon that does not run for longer than a lease lives finds out when it goes on: what was taken elsewhere has
// expired, what it still works on ends as it would have, and no slot stays taken.
func TestDaemonIsFrozen(t *testing.T) {
	t.Parallel()
	up, d := behind(t)
	c := newClient(t)
	ended := d.mint(t, "").Credential
	working := d.mint(t, "").Credential
	crowd := hang(t, d, up, working)
	var last time.Time
	for range slots {
		last = c.take(t, d, map[string]any{"link": ended, "expensive": true}).LeaseExpiresAt
	}

	d.freeze(t)
	question := marshal(t, map[string]any{"link": ended, "expensive": true})
	answers := make(chan take)
	go func() { // asked while it is frozen
		defer close(answers)
		a, err := c.try(t.Context(), "POST", d.API+"/v1/take", question)
		if err != nil {
			t.Errorf("take of a frozen daemon: %v", err)
			return
		}
		var answered take
		if err := json.Unmarshal([]byte(a.body), &answered); err != nil {
			t.Errorf("take of a frozen daemon: body %q: %v", a.body, err)
			return
		}
		answers <- answered
	}()
	waitFor(t, 40*time.Second, "the leases have expired", func() bool { return time.Now().After(last) })
	select {
	case got := <-answers:
		t.Errorf("a frozen daemon answered %+v", got)
	default:
	}
	d.signal(t, syscall.SIGCONT)

	if got, ok := <-answers; !ok || !got.Admitted || got.At.Before(last) || got.Concurrency.InUse != 0 {
		t.Errorf("what was asked while it was frozen: %+v, want it admitted as the first", got)
	} else {
		c.ask(t, "POST", d.API+"/v1/release", marshal(t, map[string]any{"lease": got.Lease}))
	}
	up.letGo(t)
	crowd.end(http.StatusOK)
	wantFree(t, d, ended)
	wantFree(t, d, working)
}

// A lease that nobody gives back ends when it was said to, not before.
func TestLeaseExpires(t *testing.T) {
	t.Parallel()
	_, d := behind(t, "BOUNDS_LINKS=100000/366d 1 concurrent")
	c := newClient(t)
	held := c.take(t, d, map[string]any{"link": d.Link, "expensive": true})
	var next take
	refused := 0
	waitFor(t, 40*time.Second, "the lease has expired", func() bool {
		next = c.take(t, d, map[string]any{"link": d.Link, "expensive": true})
		if next.Admitted {
			return true
		}
		if refused++; ceil(held.LeaseExpiresAt.Sub(next.At)) != next.RetryAfterSeconds {
			t.Fatalf("at %v the wait is %d s, and the lease ends at %v", next.At, next.RetryAfterSeconds, held.LeaseExpiresAt)
		}
		return false
	})
	if next.At.Before(held.LeaseExpiresAt) || refused == 0 {
		t.Errorf("admitted at %v after %d refusals; the lease ends at %v", next.At, refused, held.LeaseExpiresAt)
	}
}
