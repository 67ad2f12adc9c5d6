// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signposthq/signpost/internal/admin"
)

// longWindow returns a length of window that does not turn while the tests run.
func longWindow() string {
	days := 366
	for length := 366 * 24 * time.Hour; time.Now().Add(length/time.Duration(days)/144).UnixNano()/int64(length) != time.Now().UnixNano()/int64(length); {
		days--
		length = time.Duration(days) * 24 * time.Hour
	}
	return fmt.Sprintf("%dd", days)
}

// caller is somebody whose requests are counted, and what is known of the count from the outside.
type caller struct {
	limit    uint32
	bound    string
	link, id string // of one with a link
	key      string // of one without: through the api alone

	mu                sync.Mutex
	answers, degraded uint32 // that said admitted, and those of them that said degraded: for longer than a write may take, the machine or its disk stood still

	// Since the last settle:
	begun   uint32 // requests
	acked   uint32 // answers that said admitted, and not degraded
	weak    uint32 // answers that said admitted, and degraded
	refused uint32 // answers that said refused
	lost    uint32 // requests whose answer did not arrive
}

// ask sends one request through the door or the api, and keeps the books.
func (c *caller) ask(t *testing.T, ctx context.Context, with *client, d *daemon) {
	c.mu.Lock()
	c.begun++
	c.mu.Unlock()
	var a answer
	var err error
	switch {
	case c.link == "":
		a, err = with.try(ctx, "POST", d.API+"/v1/take", fmt.Sprintf(`{"namespace": "e2e", "key": %q, "bound": %q}`, c.key, c.bound))
	case rand.N(2) == 0:
		a, err = with.try(ctx, "POST", d.API+"/v1/take", fmt.Sprintf(`{"link": %q}`, c.link))
	default:
		a, err = with.try(ctx, "GET", d.Door+"/read/welcome", "", bearer(c.link)...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case a.status == http.StatusOK: // also if the body broke off
		c.answers++
		if a.isDegraded() {
			c.degraded++
			c.weak++
		} else {
			c.acked++
		}
		if c.acked+c.weak > c.limit {
			t.Errorf("%s: %d admitted of %d", c.bound, c.acked+c.weak, c.limit)
		}
	case a.status == http.StatusTooManyRequests:
		// Whatever is or was on its way may have been counted before this one.
		if c.refused++; c.begun-c.refused < c.limit {
			t.Errorf("%s: refused when at most %d could have been counted", c.bound, c.begun-c.refused)
		}
	case err != nil:
		c.lost++
	default:
		t.Errorf("%s: %d %s", c.bound, a.status, a.body)
	}
}

// used returns what the daemon says is counted.
func (c *caller) used(t *testing.T, d *daemon) uint32 {
	t.Helper()
	var k admin.Key
	if c.link != "" {
		d.manage(t, "GET", "/v1/keys/"+c.id, nil, &k)
	} else {
		d.manage(t, "POST", "/v1/keys/inspect", admin.KeyRequest{Namespace: "e2e", Key: c.key, Bound: c.bound}, &k)
	}
	return k.Windows[0].Used
}

// settle compares the books with the count, when no request is on its way, and goes on from the count. A daemon that was killed
// may have lost those whose answer was degraded. It returns how many of those whose answer did not arrive were counted.
func (c *caller) settle(t *testing.T, d *daemon, killed bool) (counted uint32) {
	t.Helper()
	used, least := c.used(t, d), c.acked
	if !killed {
		least += c.weak
	}
	if used < least || used > c.acked+c.weak+c.lost {
		t.Fatalf("%s %s%s: %d counted; %d answers said admitted, %d that and degraded, and %d more may have been", c.bound, c.id, c.key, used, c.acked, c.weak, c.lost)
	}
	counted = used - min(used, c.acked+c.weak)
	c.acked, c.weak, c.lost, c.begun, c.refused = used, 0, 0, used, 0
	return counted
}

// fill asks until the limit, if that is near, which must be after exactly as many as the count leaves.
func (c *caller) fill(t *testing.T, with *client, d *daemon) {
	t.Helper()
	if c.link == "" { // its bound comes with each request
		c.limit = c.acked + min(c.limit-c.acked, 7)
		c.bound = fmt.Sprintf("%d/%s", c.limit, longWindow())
	} else if c.limit-c.acked > 100 {
		return
	}
	for range c.limit - c.acked {
		if c.ask(t, t.Context(), with, d); c.refused > 0 {
			t.Fatalf("%s %s%s: refused though %d of %d are counted", c.bound, c.id, c.key, c.acked, c.limit)
		}
	}
	if c.ask(t, t.Context(), with, d); c.refused != 1 {
		t.Errorf("%s %s%s: more than the limit passes", c.bound, c.id, c.key)
	}
}

// wantFewDegraded fails if most answers were degraded, on a disk that works.
func wantFewDegraded(t *testing.T, callers []*caller) {
	t.Helper()
	var answers, degraded uint32
	for _, c := range callers {
		answers, degraded = answers+c.answers, degraded+c.degraded
	}
	if degraded > answers/2 {
		t.Errorf("%d of %d answers were degraded", degraded, answers)
	}
}

// newCallers makes callers of every kind: some will meet their limit, others will not.
func newCallers(t *testing.T, d *daemon) []*caller {
	t.Helper()
	var callers []*caller
	for i := range 12 {
		c := &caller{limit: []uint32{50, 200, 1_000_000}[i%3]}
		c.bound = fmt.Sprintf("%d/%s", c.limit, longWindow())
		if i%2 == 0 {
			minted := d.mint(t, c.bound)
			c.link, c.id = minted.Credential, minted.ID
		} else {
			c.key = fmt.Sprintf("key %d", i)
		}
		callers = append(callers, c)
	}
	return callers
}

// load has clients ask for callers at random until it is stopped. Through counts the answers.
type load struct {
	through atomic.Int64
	cancel  context.CancelFunc
	clients sync.WaitGroup
}

func startLoad(t *testing.T, d *daemon, callers []*caller) *load {
	l := &load{}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(t.Context())
	t.Cleanup(l.cancel)
	for range 6 {
		c := newClient(t)
		l.clients.Go(func() {
			for ctx.Err() == nil && !d.hasEnded() {
				callers[rand.N(len(callers))].ask(t, t.Context(), c, d)
				l.through.Add(1)
			}
			c.http.CloseIdleConnections()
		})
	}
	return l
}

// stop lets every request end.
func (l *load) stop() {
	l.cancel()
	l.clients.Wait()
}
