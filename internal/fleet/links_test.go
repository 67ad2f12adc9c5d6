// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/redis"
)

// promptly is how soon a revocation holds in every process, and settled how soon at the latest if what the server pushes is lost.
const (
	promptly = 100 * time.Millisecond
	settled  = 30 * time.Second
)

// mint registers a link, in this process. It expires after a while, or never if that is 0.
func mint(t testing.TB, url string, expires time.Duration) link.Hash {
	t.Helper()
	links, err := redis.OpenLinks(t.Context(), redis.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close()
	r := link.NewRecord(link.Mint(), link.Owner, "test", time.Now())
	if expires != 0 {
		r.Expires = time.Now().Add(expires)
	}
	if err := links.Add(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r.Hash
}

func (p *process) resolve(h link.Hash) error {
	p.t.Helper()
	_, err := p.call(p.t.Context(), call{Op: "resolve", Hash: h})
	return err
}

// warm resolves a link in processes until that costs the server nothing.
func warm(t testing.TB, server *redistest.Server, all []*process, h link.Hash) {
	t.Helper()
	server.Eventually("the link is warm", func() bool {
		server.Forget()
		for _, p := range all {
			switch err := p.resolve(h); {
			case errors.Is(err, link.ErrUnavailable): // on a machine that is busy
				return false
			case err != nil:
				t.Fatalf("resolve: %v", err)
			}
		}
		return server.Calls("hmget") == 0
	})
}

// revoke revokes a link in one process and returns how long after that the others still resolved it.
func revoke(t testing.TB, by *process, others []*process, h link.Hash) (late []time.Duration) {
	t.Helper()
	for _, p := range others {
		if _, err := p.call(t.Context(), call{Op: "watch", Hash: h}); err != nil {
			t.Fatalf("a link that is not revoked: %v", err)
		}
	}
	revoked, err := by.call(t.Context(), call{Op: "revoke", Hash: h})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range others {
		r, err := p.call(t.Context(), call{Op: "unknown", Hash: h})
		if err != nil || r.When == 0 {
			t.Fatalf("a revoked link is resolved for ever (%v)", err)
		}
		late = append(late, time.Duration(r.When-revoked.When))
	}
	return late
}

// A revocation by one of three processes holds in the others within 100 ms. Half of them have to be in time, so that a
// machine that is busy elsewhere fails nothing; in all of them it was the push that told, not the record's age.
func TestRevocation(t *testing.T) {
	server := redistest.Start(t)
	all := fleet(t, server.URL(), 3)
	const revocations = 20
	var late []time.Duration
	for i := range revocations {
		h := mint(t, server.URL(), 0)
		warm(t, server, all, h)
		by := all[i%3]
		late = append(late, revoke(t, by, []*process{all[(i+1)%3], all[(i+2)%3]}, h)...)
		if err := by.resolve(h); !errors.Is(err, link.ErrUnknown) {
			t.Errorf("where it was revoked: %v, want ErrUnknown", err)
		}
	}
	slices.Sort(late)
	n := len(late)
	t.Logf("%d revocations held in two other processes after: least %v, median %v, 90%% %v, most %v", revocations, late[0], late[n/2], late[n*9/10], late[n-1])
	if got := late[n/2-1]; got > promptly {
		t.Errorf("half of them held within %v, want %v", got, promptly)
	}
	if got := late[n-1]; got > settled/2 {
		t.Errorf("one took %v, longer than a push can", got)
	}
}

// The server ends the connections that it pushes over, and one process revokes at that moment: nobody misses it.
func TestRevocationWithoutConnection(t *testing.T) {
	server := redistest.Start(t)
	all := fleet(t, server.URL(), 3)
	for range 10 {
		h := mint(t, server.URL(), 0)
		warm(t, server, all, h)
		server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		server.Eventually("a process has revoked the link", func() bool {
			_, err := all[0].call(t.Context(), call{Op: "revoke", Hash: h})
			return err == nil
		})
		began := time.Now()
		for _, p := range all[1:] {
			server.Eventually("the revocation holds", func() bool { return errors.Is(p.resolve(h), link.ErrUnknown) })
		}
		if took := time.Since(began); took > settled/2 {
			t.Errorf("a revocation took %v to hold", took)
		}
	}
}

// A network that carries everything but what the server pushes: a revocation holds within the stated bound all the same.
func TestRevocationWithoutPushes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	deaf, other := start(t, setup{URL: proxy.URL()}, 0), start(t, setup{URL: server.URL()}, 0)
	h := mint(t, server.URL(), 0)
	warm(t, server, []*process{deaf, other}, h)
	proxy.Mute(true)
	late := revoke(t, other, []*process{deaf}, h)[0]
	t.Logf("a revocation held %v after it was made, with %d pushes lost", late, proxy.Muted())
	if late > settled+settled/2 {
		t.Errorf("it held after %v, want at most %v", late, settled)
	}
	if proxy.Muted() == 0 {
		t.Error("no push was lost, so this test shows nothing")
	}
}

// While the server is away a process that runs goes on with the links that it knows, and one that was restarted does not know: neither
// says that a link does not exist.
func TestLinksWithoutServer(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	running, restarted := start(t, setup{URL: server.URL()}, 0), start(t, setup{URL: server.URL()}, 0)
	h := mint(t, server.URL(), 0)
	warm(t, server, []*process{running, restarted}, h)
	server.Kill()
	restarted.kill()
	restarted = start(t, setup{URL: server.URL()}, 0)
	for range 20 {
		if err := running.resolve(h); err != nil {
			t.Fatalf("a link that the process knows: %v", err)
		}
		if err := restarted.resolve(h); !errors.Is(err, link.ErrUnavailable) || errors.Is(err, link.ErrUnknown) {
			t.Fatalf("in a process that was restarted: %v, want ErrUnavailable", err)
		}
	}
	server.Restart()
	server.Eventually("the restarted process resolves it", func() bool { return restarted.resolve(h) == nil })
	if late := revoke(t, restarted, []*process{running}, h); late[0] > settled/2 {
		t.Errorf("a revocation took %v to hold where the connection had been lost", late[0])
	}
}

// Whether a link has expired is a matter of the server's clock, in processes whose own is ahead or behind by more than it lives.
func TestLinksExpireByTheServersClock(t *testing.T) {
	server := redistest.Start(t)
	all := fleet(t, server.URL(), len(wrong))
	for in, want := range map[time.Duration]error{time.Hour: nil, -time.Hour: link.ErrUnknown} {
		h := mint(t, server.URL(), in)
		for i, p := range all {
			var err error
			server.Eventually("the registry answers", func() bool { // which a busy machine may be late for
				err = p.resolve(h)
				return !errors.Is(err, link.ErrUnavailable)
			})
			if !errors.Is(err, want) {
				t.Errorf("a link that expires in %v, in a process whose clock is wrong by %v: error %v, want %v", in, wrong[i], err, want)
			}
		}
	}
}
