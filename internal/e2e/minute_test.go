// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// perMinute is what a link has in a minute when nobody says otherwise.
const perMinute = 600

// The 601st request of a minute is refused until the minute ends, and says so to the second; also by a daemon that was
// killed in between.
func TestSixHundredAndFirstOfAMinute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := serve(t, onDisk(dir)...)
	link := d.Link
	for attempt := 0; ; attempt++ {
		waitFor(t, time.Minute, "enough is left of the minute", func() bool { return time.Until(nextMinute()) > 12*time.Second })
		end := nextMinute()
		left, degraded := spend(t, d, link, perMinute)
		first := refusedAt(t, d, link)
		d.kill(t)
		d = serve(t, onDisk(dir)...)
		second := refusedAt(t, d, link)
		if !time.Now().Before(end) || degraded || first.isDegraded() || second.isDegraded() { // the machine is slow, or its disk
			if attempt == 3 {
				t.Fatalf("no minute is long enough for %d requests and a restart, and none of them degraded", perMinute)
			}
			link = d.mint(t, "").Credential
			continue
		}
		slices.Sort(left)
		for i, n := range left {
			if n != i {
				t.Fatalf("of %d admitted, one says that %d remain and none that %d do", perMinute, n, i)
			}
		}
		first.want(t, end)
		second.want(t, end)
		return
	}
}

func nextMinute() time.Time { return time.Now().Truncate(time.Minute).Add(time.Minute) }

// spend sends requests through the door, several at once, and returns what each answer said remains of the minute. One that is
// degraded does not say.
func spend(t *testing.T, d *daemon, link string, n int) (left []int, degraded bool) {
	t.Helper()
	var clients sync.WaitGroup
	var mu sync.Mutex
	todo := make(chan int, n)
	for i := range n {
		todo <- i
	}
	close(todo)
	for range 8 {
		c := newClient(t)
		clients.Go(func() {
			for range todo {
				a, err := c.try(t.Context(), "GET", d.Door+"/read/welcome", "", bearer(link)...)
				if err != nil {
					t.Error(err)
					return
				}
				if a.isDegraded() {
					mu.Lock()
					degraded = true
					mu.Unlock()
					continue
				}
				var remain, reset int
				if _, err := fmt.Sscanf(a.header.Get("Ratelimit"), `"minute";r=%d;t=%d`, &remain, &reset); err != nil {
					t.Errorf("%d with RateLimit %q: %v", a.status, a.header.Get("Ratelimit"), err)
					return
				}
				mu.Lock()
				left = append(left, remain)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return left, degraded
}

// refused is a refusal, and when it was made by this test's clock.
type refused struct {
	answer
	asked, answered time.Time
}

func refusedAt(t *testing.T, d *daemon, link string) refused {
	t.Helper()
	r := refused{asked: time.Now()}
	r.answer = newClient(t).ask(t, "GET", d.Door+"/read/welcome", "", bearer(link)...)
	r.answered = time.Now()
	return r
}

// want fails unless all that the refusal says is about one minute, which ends then.
func (r refused) want(t *testing.T, end time.Time) {
	t.Helper()
	if r.status != http.StatusTooManyRequests {
		t.Fatalf("one more than a minute has: %d %s", r.status, r.body)
	}
	wait, err := strconv.ParseInt(r.header.Get("Retry-After"), 10, 64)
	// The daemon's clock has milliseconds.
	if least, most := ceil(end.Sub(r.answered)), ceil(end.Sub(r.asked.Truncate(time.Millisecond))); err != nil || wait < least || wait > most {
		t.Errorf("Retry-After %q, want %d to %d", r.header.Get("Retry-After"), least, most)
	}
	// Whoever waits from then on does not come too early. The field is written when the answer is, maybe a while after it was decided.
	date, err := http.ParseTime(r.header.Get("Date"))
	if after := date.Add(time.Duration(wait) * time.Second).Sub(end); err != nil || after < 0 || date.After(r.answered) {
		t.Errorf("%d seconds after Date %q is %v after the end of the minute", wait, r.header.Get("Date"), after)
	}
	if got, want := r.header.Get("Ratelimit"), fmt.Sprintf(`"minute";r=0;t=%d`, wait); got != want {
		t.Errorf("RateLimit %q, want %q", got, want)
	}
	if got, want := r.header.Get("X-Ratelimit-Reset"), strconv.FormatInt(end.Unix(), 10); got != want {
		t.Errorf("X-RateLimit-Reset %q, want %q", got, want)
	}
	var body struct {
		RetryAfterSeconds int64
		WindowResetAt     time.Time
	}
	r.into(t, &body)
	if body.RetryAfterSeconds != wait || !body.WindowResetAt.Equal(end) {
		t.Errorf("the body says %s, beside Retry-After %d and the end of the minute at %v", r.body, wait, end)
	}
	if !strings.Contains(r.header.Get("Cache-Control"), "no-store") {
		t.Errorf("Cache-Control %q", r.header.Get("Cache-Control"))
	}
}

// Who waits as long as the refusal says passes, and nobody passes before.
func TestWaitIsAsLongAsItSays(t *testing.T) {
	t.Parallel()
	d := serve(t, onDisk(t.TempDir())...)
	c := newClient(t)
	ask := func() take {
		return c.take(t, d, map[string]any{"link": d.Link, "bound": "1/2s"})
	}
	held := ask()
	end := held.At.Truncate(2 * time.Second).Add(2 * time.Second)
	var next take
	waitFor(t, patience, "the window has turned", func() bool {
		if next = ask(); !next.Admitted && next.RetryAfterSeconds != ceil(end.Sub(next.At)) {
			t.Fatalf("at %v the wait is %d s, and the window ends at %v", next.At, next.RetryAfterSeconds, end)
		}
		return next.Admitted
	})
	if next.At.Before(end) {
		t.Errorf("admitted at %v, and the window ended at %v", next.At, end)
	}
}
