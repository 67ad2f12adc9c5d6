// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/memory"
)

func TestLinkInThePath(t *testing.T) {
	l := link.Mint().Reveal()
	for _, c := range []struct {
		uri, want string // LINK stands for the link
		err       error
	}{
		{"/s/LINK/notes/1?q=a%20b", "/notes/1?q=a%20b", nil},
		{"/s/LINK", "/", nil},
		{"/s/LINK/", "/", nil},
		{"/s/LINK//x", "//x", nil},
		{"//s/LINK/x", "/x", nil},
		{"/%73/LINK/a%2Fb", "/a%2Fb", nil},
		{"/s/%73p_" + l[3:] + "/x", "/x", nil},
		{"/s/LINK/s/x", "/s/x", nil},
		{"/s/LINK/..", "/..", nil},
		{"/s/sp_short/x", "/x", httpdoor.ErrUnknownCredential},
		{"/s/LINKx/x", "/x", httpdoor.ErrUnknownCredential},
		{"/s/other/x", "/s/other/x", nil},
		{"/s/", "/s/", nil},
		{"/s", "/s", nil},
		{"/S/LINK/x", "/S/LINK/x", httpdoor.ErrBadCredential},
		{"/x/s/LINK", "/x/s/LINK", httpdoor.ErrBadCredential},
		{"/s%2FLINK/x", "/s%2FLINK/x", httpdoor.ErrBadCredential},
		{"/s/LINK/s/LINK/x", "/s/LINK/x", httpdoor.ErrBadCredential},
		{"/recall?q=LINK", "/recall?q=LINK", httpdoor.ErrBadCredential},
		{"/?t=%73p_" + l[3:], "/?t=%73p_" + l[3:], httpdoor.ErrBadCredential},
		{"/?t=%73p_" + l[3:] + "&x=%zz", "/?t=%73p_" + l[3:] + "&x=%zz", httpdoor.ErrBadCredential},
		{"/s/%2573p_" + l[3:], "/s/%2573p_" + l[3:], httpdoor.ErrBadCredential},
		{"/?x=%zz", "/?x=%zz", nil},
	} {
		uri := strings.ReplaceAll(c.uri, "LINK", l)
		r := httptest.NewRequest("GET", uri, nil)
		before := *r.URL
		in := withoutURLLink(r)
		found := urlLinkOf(in.Context())
		if found.err != c.err {
			t.Errorf("%s: error %v, want %v", c.uri, found.err, c.err)
			continue
		}
		if *r.URL != before || r.Header.Get("Authorization") != "" {
			t.Errorf("%s: the request that came was changed", c.uri)
		}
		want := strings.ReplaceAll(c.want, "LINK", l)
		if got := in.URL.RequestURI(); got != want || in.RequestURI != want {
			t.Errorf("%s: %s and %s, want %s", c.uri, got, in.RequestURI, want)
		}
		authorization, prefix := "", ""
		if c.err == nil && uri != want {
			authorization, prefix = "Bearer "+l, "/s/"+l
		}
		if in.Header.Get("Authorization") != authorization || found.prefix != prefix {
			t.Errorf("%s: the link came along: %v", c.uri, in.Header.Get("Authorization") != "")
		}
	}
}

func TestWhatIsExpensive(t *testing.T) {
	c, err := newClassifier([]string{"POST /recall", "/export/", "GET /notes/{id}/similar", "GET /{kind}/1", "/a%2Fb", "/root/{$}"})
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]bool{
		"POST /recall":                     true,
		"POST //recall":                    true,
		"POST /x/../recall":                true,
		"POST /rec%61ll":                   true,
		"POST /recall?x":                   true,
		"GET /recall":                      false,
		"POST /recall/more":                false,
		"POST /recall/":                    true,
		"POST /recall//":                   true,
		"POST /recall%2f":                  true,
		"POST /x/../recall/?q":             true,
		"POST /":                           false,
		"GET /notes/7/similar/":            true,
		"DELETE /export/a/b":               true,
		"GET /notes/7/similar":             true,
		"HEAD /notes/7/similar":            true,
		"GET /notes/7%2F8/similar":         true,
		"GET /notes/1":                     true,
		"GET /notes/2":                     false,
		"post /recall":                     true,
		"POST /recall;x":                   true,
		"POST /recall%3Bx":                 true,
		"POST /recall%2F":                  true,
		"POST /%2Frecall":                  true,
		"POST /%5crecall":                  true,
		"POST /recall%252f":                true,
		"POST /recall/x//../..":            true,
		"POST /recall2":                    false,
		"GET /export%2Fall":                true,
		"GET /x/%2e%2e/export/all":         true,
		"GET /x%2Fy/%2e%2e/export/all":     true,
		"GET /x;y%2Fz/../export/all":       true,
		"GET /x/..;/export/all":            true,
		"GET /%2e/export/all":              true,
		"GET /export;x/all":                true,
		"GET /export/../x":                 true,
		"GET /x/export/all":                false,
		"GET /fetch/https://a.b/c%2Fd;e?f": false,
		"CONNECT //export/all":             true,
		"CONNECT /x/../export/all":         true,
		"GET /a%2Fb":                       true,
		"GET /%2e/a%2fb":                   true,
		"GET /a/b":                         false,
		"GET /root":                        true,
		"GET http://api.example/export/":   true,
		"GET http:export":                  true,
		"GET /" + strings.Repeat("%25", 3*maxReadings) + "":   false,
		"GET /" + "%" + strings.Repeat("25", 3*maxReadings):   true, // more readings than are tried
		"GET " + strings.Repeat("/%2541;x", maxRead/20):       true, // longer ones
		"GET " + strings.Repeat("/%C3%A9t%C3%A9", maxRead/40): false,
	} {
		method, uri, _ := strings.Cut(request, " ")
		u, err := url.ParseRequestURI(uri)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.match(&http.Request{Method: method, URL: u}); got != want {
			t.Errorf("%s: expensive %v, want %v", request, got, want)
		}
	}
	for _, pattern := range []string{"api.example/host", "GET api.example/", "GET \t api.example/{x}"} {
		if _, err := newClassifier([]string{pattern}); err == nil || !strings.Contains(err.Error(), "names the host api.example") {
			t.Errorf("%s: error %v, want one about the host", pattern, err)
		}
	}
}

func TestLeasesAreCountedUntilTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLeaseCounter(memory.New(memory.Options{}))
		limiter := signpost.New(c, signpost.Options{})
		bound := signpost.MustParseBound("100/day 3 concurrent")
		take := func() signpost.Lease {
			t.Helper()
			d, err := limiter.Take(t.Context(), signpost.Request{Key: signpost.KeyOf("a", "b"), Bound: bound, Expensive: true})
			if err != nil {
				t.Fatal(err)
			}
			return d.Lease
		}
		count := func(want int) {
			t.Helper()
			if got := c.count(); got != want {
				t.Errorf("%d leases, want %d", got, want)
			}
		}
		count(0)
		a, b, _ := take(), take(), take()
		take() // refused
		count(3)
		wrong := a
		wrong.Key = signpost.KeyOf("a", "c")
		limiter.Release(wrong)
		count(3)
		limiter.Release(a)
		limiter.Release(a)
		count(2)
		time.Sleep(20 * time.Second)
		if _, err := limiter.Renew(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		count(1) // the third has expired, the second was renewed
		time.Sleep(15 * time.Second)
		count(0)
		take()
		other := signpost.Request{Key: signpost.KeyOf("a", "c"), Bound: bound, Expensive: true}
		if _, err := limiter.Take(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if in, err := c.Inspect(t.Context(), other.Key, 0); err != nil || len(in.Leases) != 1 {
			t.Errorf("the store behind the counter shows %+v, %v", in, err)
		}
		if err := c.Reset(t.Context(), signpost.KeyOf("a", "b")); err != nil {
			t.Fatal(err)
		}
		count(1) // a reset takes the leases of its key and no others
	})
}

// What nobody gives back is forgotten, also where nobody counts.
func TestLeasesThatExpiredAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLeaseCounter(memory.New(memory.Options{}))
		bound := signpost.MustParseBound("1/day 1 concurrent")
		for i := range 5000 {
			q := signpost.Request{Key: signpost.KeyOf("a", fmt.Sprint(i)), Bound: bound, Expensive: true}
			if _, err := signpost.New(c, signpost.Options{}).Take(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			if i%1000 == 0 {
				time.Sleep(signpost.LeaseLife)
			}
		}
		if n := len(c.alive); n > 3000 {
			t.Errorf("%d leases are remembered, and at most 1,000 are out", n)
		}
	})
}

// What the log says of an upstream: that it fails, once, and that it answers again, if it does after a while. A client that goes away says nothing.
func TestOutageOfAnUpstreamIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := &upstreamHealth{log: slog.New(slog.NewTextHandler(&log, nil)), telemetry: newTelemetry(ReadBuild()), upstream: "a"}
		gone, leave := context.WithCancel(t.Context())
		leave()
		h.failed(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, "GET", "/", nil), errors.New("broken pipe"))
		lines := func(fails, answers int) {
			t.Helper()
			if f, a := strings.Count(log.String(), "does not answer"), strings.Count(log.String(), "answers again"); f != fails || a != answers {
				t.Errorf("%d lines that it fails and %d that it answers, want %d and %d", f, a, fails, answers)
			}
		}
		lines(0, 0)
		h.note(errors.New("refused"))
		h.answered()
		h.note(errors.New("refused"))
		lines(1, 0)
		time.Sleep(settleDown)
		h.answered()
		h.answered()
		lines(1, 1)
	})
}

func TestFirstRefusalInEachWindow(t *testing.T) {
	var log strings.Builder
	r := newRefusals(slog.New(slog.NewTextHandler(&log, nil)))
	store := memory.New(memory.Options{})
	refuse := func(key string, at signpost.Instant, bound string) {
		t.Helper()
		q := signpost.Request{Key: signpost.KeyOf("a", key), Bound: signpost.MustParseBound(bound), At: at, Cost: 6}
		d, _, err := store.Take(t.Context(), q)
		if err != nil || d.Admitted {
			t.Fatalf("admitted %v, %v", d.Admitted, err)
		}
		r.see("http", key, q.Key, &d)
	}
	lines := func(want int) {
		t.Helper()
		if got := strings.Count(log.String(), "first refusal"); got != want {
			t.Errorf("%d lines, want %d:\n%s", got, want, &log)
		}
	}
	const t0 = signpost.Instant(1768471200_000)
	fill := func(key string, at signpost.Instant) {
		store.Take(t.Context(), signpost.Request{Key: signpost.KeyOf("a", key), Bound: signpost.MustParseBound("10/min 100/hour"), At: at, Cost: 5})
	}
	fill("x", t0)
	for i := range signpost.Instant(50) {
		refuse("x", t0+i*1000, "10/min 100/hour")
	}
	lines(1)
	refuse("y", t0, "5/min 5/hour") // never
	refuse("y", t0+59_999, "5/min 5/hour")
	lines(2)
	refuse("y", t0+60_000, "5/min 5/hour")
	lines(3)
	fill("x", t0+60_000)
	refuse("x", t0+60_000, "10/min 100/hour")
	lines(4)
	for i := range 3 * maxRefused {
		refuse(fmt.Sprint(i), t0, "5/min 5/hour")
	}
	if n := len(r.until); n > maxRefused {
		t.Errorf("%d keys are remembered, want at most %d", n, maxRefused)
	}
}

func TestAddressForPeople(t *testing.T) {
	for address, want := range map[string]string{"0.0.0.0:0": "http://localhost:", "127.0.0.1:0": "http://127.0.0.1:"} {
		s, err := listen("door", address)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		if !strings.HasPrefix(s.url(), want) || strings.HasSuffix(s.url(), ":0") {
			t.Errorf("%s: %s, want %s and the port that was chosen", address, s.url(), want)
		}
	}
}

func TestTokenFile(t *testing.T) {
	c := Default()
	c.Data = t.TempDir()
	made, err := adminToken(&c)
	if err != nil || made.IsZero() {
		t.Fatalf("%v, %v", made, err)
	}
	again, err := adminToken(&c)
	if err != nil || again != made {
		t.Errorf("a second start has another token, or %v", err)
	}
	// One that no other user can read is left as it is: its volume may be read-only.
	if err := os.Chmod(c.tokenFile(), 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := adminToken(&c); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(c.tokenFile()); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("the file has mode %v, %v; want 0400, as it was", info.Mode(), err)
	}
	c.AdminToken = Secret{"from-the-environment"}
	if set, _ := adminToken(&c); set != c.AdminToken {
		t.Error("the environment does not win over the file")
	}
	c.AdminToken = Secret{}
	c.Data = t.TempDir()
	if err := syscall.Mkfifo(c.tokenFile(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := adminToken(&c); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error %v; want that a pipe is not a regular file", err)
	}
	c.Data += "/missing"
	if _, err := adminToken(&c); err == nil || !strings.Contains(err.Error(), "SIGNPOST_ADMIN_TOKEN") {
		t.Errorf("error %v; want one that says what to do", err)
	}
}

func TestProcessesThatStartTogetherHaveOneAdminToken(t *testing.T) {
	c := Default()
	c.Data = t.TempDir()
	tokens := make([]Secret, 20)
	var all sync.WaitGroup
	for i := range tokens {
		all.Go(func() {
			var err error
			if tokens[i], err = adminToken(&c); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(slices.Compact(tokens)); n != 1 {
		t.Errorf("%d tokens, want one", n)
	}
	if files, err := os.ReadDir(c.Data); len(files) != 1 {
		t.Errorf("%v, %v; want the token alone", files, err)
	}
}

func TestWhatTheStoreBehindTheCounterCannotDo(t *testing.T) {
	c := newLeaseCounter(struct{ signpost.Store }{memory.New(memory.Options{})})
	k := signpost.KeyOf("a", "b")
	_, renew := c.Renew(t.Context(), signpost.Lease{Key: k}, 0)
	_, inspect := c.Inspect(t.Context(), k, 0)
	for what, err := range map[string]error{"renew": renew, "inspect": inspect, "reset": c.Reset(t.Context(), k), "settle": c.Settle(t.Context(), k, 0, nil)} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want that it is not supported", what, err)
		}
	}
}

// badClose is a store that cannot make its last counts durable.
type badClose struct{ signpost.Store }

func (badClose) Close() error { return errors.New("disk is gone") }

func TestEveryEndIsInTheLog(t *testing.T) {
	for what, store := range map[string]func(signpost.Store) signpost.Store{
		"a store that closes": func(s signpost.Store) signpost.Store { return s },
		"one that does not":   func(s signpost.Store) signpost.Store { return badClose{s} },
	} {
		var log strings.Builder
		d := &daemon{Options: Options{Stdout: io.Discard}, level: new(slog.LevelVar), failed: make(chan error, 4), log: slog.New(slog.NewTextHandler(&log, nil))}
		d.refusals, d.telemetry = newRefusals(d.log), newTelemetry(ReadBuild())
		c, err := Load(Sources{Env: []string{"SIGNPOST_STORE=memory", "SIGNPOST_DOOR=127.0.0.1:0", "SIGNPOST_API=127.0.0.1:0", "SIGNPOST_ADMIN=127.0.0.1:0"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.start(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		defer d.close()
		d.store.leaseCounter.Store = store(d.store.leaseCounter.Store)
		d.failed <- errors.New("listener is gone")
		if err := d.run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "listener is gone") {
			t.Errorf("%s: run returned %v", what, err)
		}
		for _, line := range []string{`msg="listener failed"`, "msg=stopping", "msg=stop "} { // it drains, and says so
			if !strings.Contains(log.String(), line) {
				t.Errorf("%s: no line %q in:\n%s", what, line, &log)
			}
		}
	}
}

// fullLinks is a registry with no place for another try link.
type fullLinks struct{ link.Registry }

func (fullLinks) Add(context.Context, link.Record) error { return link.ErrFull }

func TestNoPlaceForAnotherTryLink(t *testing.T) {
	w, c := httptest.NewRecorder(), Default()
	mintTryLink(fullLinks{}, &c).ServeHTTP(w, httptest.NewRequest("POST", tryPath, nil))
	if w.Code != 503 || w.Header().Get("Retry-After") != "60" || strings.Contains(w.Body.String(), "sp_") {
		t.Errorf("%d, %v, %s; want 503 with Retry-After: 60 and no link", w.Code, w.Header(), w.Body)
	}
}

// slowLinks is a registry that answers when it is too late.
type slowLinks struct{ link.Registry }

func (slowLinks) Resolve(ctx context.Context, _ link.Hash) (link.Record, error) {
	<-ctx.Done()
	return link.Record{}, ctx.Err()
}

func TestARegistryThatHangsIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		body := fmt.Sprintf(`{"link":%q}`, link.Mint().Reveal())
		r := httptest.NewRequest("POST", "http://localhost/v1/take", strings.NewReader(body))
		begin := time.Now()
		NewAPIOver(memory.New(memory.Options{}), slowLinks{}).ServeHTTP(w, r)
		if took := time.Since(begin); w.Code != 503 || took != httpdoor.ResolveTimeout {
			t.Errorf("status %d after %v, want 503 after %v", w.Code, took, httpdoor.ResolveTimeout)
		}
	})
}

// A clock that was set back, here by half a minute, makes no wait longer than its window.
func TestNoResetIsFartherThanItsWindow(t *testing.T) {
	const now = signpost.Instant(1768471230_000)
	q := signpost.Request{Key: signpost.KeyOf("a", "b"), Bound: signpost.MustParseBound("1/min")}
	raw := signpost.Raw{Now: now, Windows: [signpost.MaxWindows]signpost.RawWindow{{Start: now.Add(30 * time.Second), Used: 1}}}
	d := signpost.Judge(&raw, &q)
	if a := answerOf(&d); d.Admitted || a.Windows[0].ResetAt.Sub(a.At) != time.Minute {
		t.Errorf("admitted %v, reset at %v, want a minute after %v", d.Admitted, a.Windows[0].ResetAt, a.At)
	}
	if until := quietUntil(&d); until != now.Add(time.Minute) {
		t.Errorf("quiet until %v, want a minute after %v", until.Time(), now.Time())
	}
}

func TestWhatWaitsForARestartStaysAsItRuns(t *testing.T) {
	running, err := Load(Sources{Env: []string{"SIGNPOST_STORE=redis://127.0.0.1:6379", "SIGNPOST_HOMES=eu=unix:///run/eu.sock", "SIGNPOST_MCP=http://127.0.0.1:3000",
		"SIGNPOST_STORE_TIMEOUT=30ms", "SIGNPOST_DEGRADED_CHEAP=deny", "SIGNPOST_ADMIN=127.0.0.1:9091"}})
	if err != nil {
		t.Fatal(err)
	}
	running.Homes[0].URL = "unix:///run/eu,1.sock" // as a file can have it
	next := Sources{Env: []string{"SIGNPOST_UPSTREAM=http://127.0.0.1:4000", "SIGNPOST_DRAIN=1s"}}
	for i := range fields {
		if !fields[i].live {
			next.stays = append(next.stays, fields[i].as(&running))
		}
	}
	got, err := Load(next)
	if err != nil {
		t.Fatal(err)
	}
	for i := range fields {
		if f := &fields[i]; !f.live && !f.same(&got, &running) {
			t.Errorf("%s is %q, want %q", f.path, f.get(&got), f.get(&running))
		}
	}
	if got.Drain != time.Second {
		t.Errorf("drain is %v, which does not wait", got.Drain)
	}
}
