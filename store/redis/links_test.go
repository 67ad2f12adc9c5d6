// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/link/linktest"
	"github.com/signposthq/signpost/store/redis"
)

// openLinks opens a registry with patience for a busy machine.
func openLinks(t testing.TB, o redis.Options) *redis.Links {
	t.Helper()
	l := openImpatient(t, o)
	redis.Patient(l)
	return l
}

// openImpatient opens a registry that gives a server up as soon as any.
func openImpatient(t testing.TB, o redis.Options) *redis.Links {
	t.Helper()
	l, err := redis.OpenLinks(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLinks(t *testing.T) {
	server := redistest.Start(t)
	linktest.Run(t, func(t *testing.T) link.Registry {
		server.Do("FLUSHALL")
		return openLinks(t, redis.Options{URL: server.URL()})
	})
}

func mint(t testing.TB, l *redis.Links) link.Record {
	t.Helper()
	r := link.NewRecord(link.Mint(), link.Owner, "test", time.Now())
	if err := l.Add(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func resolve(t testing.TB, l *redis.Links, r link.Record) error {
	t.Helper()
	got, err := l.Resolve(t.Context(), r.Hash)
	if err == nil && got.Hash != r.Hash {
		t.Fatalf("resolved %v, want %v", got, r)
	}
	return err
}

// warm resolves links once, after which that costs no round trip.
func warm(t testing.TB, server *redistest.Server, all []*redis.Links, records ...link.Record) {
	t.Helper()
	for _, l := range all {
		for _, r := range records {
			server.Eventually("the link is resolved", func() bool { return resolve(t, l, r) == nil })
		}
	}
	server.Forget()
}

// Who has resolved a link knows it from then on, though it was minted elsewhere a moment before, and others change all the while.
func TestLinksAreKnownOnceResolved(t *testing.T) {
	server := redistest.Start(t)
	here, there := openLinks(t, redis.Options{URL: server.URL()}), openLinks(t, redis.Options{URL: server.URL()})
	over := make(chan struct{})
	var minting sync.WaitGroup
	minting.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				mint(t, there)
			}
		}
	})
	var minted []link.Record
	for range 300 {
		minted = append(minted, mint(t, there))
		if err := resolve(t, here, minted[len(minted)-1]); err != nil {
			t.Fatalf("resolve: %v", err)
		}
	}
	close(over)
	minting.Wait()
	server.Kill()
	for i, r := range minted {
		if err := resolve(t, here, r); err != nil {
			t.Fatalf("link %d of %d, which was resolved before: %v", i, len(minted), err)
		}
	}
}

// A link that is in use costs nothing, and one process's revocation holds in the others at once.
func TestLinksOfSeveralProcesses(t *testing.T) {
	server := redistest.Start(t)
	var all []*redis.Links
	for range 3 {
		all = append(all, openLinks(t, redis.Options{URL: server.URL()}))
	}
	for i := range 20 {
		r := mint(t, all[i%3])
		warm(t, server, all, r)
		for range 200 {
			for _, l := range all {
				if err := resolve(t, l, r); err != nil {
					t.Fatalf("resolve: %v", err)
				}
				l.Seen(r.Hash, time.Now())
			}
		}
		// By what the script does: a process whose server had forgotten it has called it twice.
		server.Eventually("three processes have noted the use", func() bool { return server.Calls("get") >= 3 })
		if n := server.Calls("hmget"); n != 0 {
			t.Errorf("600 resolutions of a warm link were %d reads", n)
		}
		if n := server.Calls("set"); n != 1 {
			t.Errorf("600 uses within a minute were written %d times", n)
		}
		if _, err := all[i%3].Revoke(t.Context(), r.Hash.ID(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := resolve(t, all[i%3], r); !errors.Is(err, link.ErrUnknown) {
			t.Errorf("where it was revoked: error %v, want ErrUnknown", err)
		}
		revoked := time.Now()
		for _, l := range all {
			server.Eventually("the revocation holds", func() bool { return errors.Is(resolve(t, l, r), link.ErrUnknown) })
		}
		// By the push, and not because the record was read again in time.
		if took := time.Since(revoked); took > 10*time.Second {
			t.Errorf("a revocation took %v to hold", took)
		}
	}
}

// While the server is away, what was read before goes on for five minutes, and nobody is told that a link is unknown.
func TestLinksWithoutServer(t *testing.T) {
	for name, breakIt := range map[string]func(*redistest.Server){
		"killed": (*redistest.Server).Kill,
		"frozen": (*redistest.Server).Freeze,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			l, other := openImpatient(t, redis.Options{URL: server.URL()}), openLinks(t, redis.Options{URL: server.URL()})
			known, gone, unread := mint(t, other), mint(t, other), mint(t, other)
			warm(t, server, []*redis.Links{l}, known, gone)
			server.Eventually("a link is revoked", func() bool {
				_, err := l.Revoke(t.Context(), gone.Hash.ID(), time.Now())
				return err == nil
			})

			breakIt(server)
			redis.Age(l, time.Minute) // so that the record would be read again
			began := time.Now()
			for range 100 {
				if err := resolve(t, l, known); err != nil {
					t.Fatalf("a link that was known: %v", err)
				}
				for what, r := range map[string]link.Record{"never read": unread, "never minted": {Hash: link.Mint().Hash()}, "revoked": gone} {
					if err := resolve(t, l, r); !errors.Is(err, link.ErrUnavailable) || errors.Is(err, link.ErrUnknown) {
						t.Fatalf("a link that was %s: %v, want ErrUnavailable", what, err)
					}
				}
			}
			if took := time.Since(began); took > liveness {
				t.Errorf("400 resolutions took %v, as if each had waited", took)
			}
			if err := l.Add(t.Context(), link.NewRecord(link.Mint(), link.Owner, "", time.Now())); !errors.Is(err, link.ErrUnavailable) {
				t.Errorf("add: %v, want ErrUnavailable", err)
			}
			redis.Age(l, link.Stale)
			if err := resolve(t, l, known); !errors.Is(err, link.ErrUnavailable) {
				t.Errorf("a link that was read more than five minutes ago: %v, want ErrUnavailable", err)
			}

			if name == "frozen" {
				server.Thaw()
			} else {
				server.Restart()
			}
			for _, r := range []link.Record{known, unread} {
				server.Eventually("links resolve again", func() bool { return resolve(t, l, r) == nil })
			}
			server.Eventually("the revoked link is unknown", func() bool {
				err := resolve(t, l, gone)
				if err == nil {
					t.Fatal("the revoked link is resolved")
				}
				return errors.Is(err, link.ErrUnknown)
			})
		})
	}
}

// An outage of the registry is told once, and so is its end; a registry that is closed has none.
func TestOutagesOfTheRegistryAreTold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := openImpatient(t, redis.Options{URL: server.URL()})
	told := make(chan string, 100)
	l.Watch(func(cause error) { told <- fmt.Sprint("lost: ", cause) }, func(time.Duration) { told <- "found" })
	for range 2 {
		server.Kill()
		for range 10 {
			if err := resolve(t, l, link.Record{Hash: link.Mint().Hash()}); !errors.Is(err, link.ErrUnavailable) {
				t.Fatalf("resolve without a server: %v, want ErrUnavailable", err)
			}
		}
		if got := <-told; !strings.HasPrefix(got, "lost: ") || !strings.Contains(got, "unreachable") {
			t.Fatalf("told %q, want that the server is unreachable", got)
		}
		server.Restart()
		if got := <-told; got != "found" {
			t.Fatalf("told %q, want the end", got)
		}
	}
	l.Close()
	resolve(t, l, link.Record{Hash: link.Mint().Hash()})
	if len(told) > 0 {
		t.Errorf("told %q as well", <-told)
	}
}

// A server that is silent holds up those who ask it first. From then on nobody waits, however short or long his patience is.
func TestNobodyWaitsForASilentRegistry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l, other := openImpatient(t, redis.Options{URL: server.URL()}), openLinks(t, redis.Options{URL: server.URL()})
	known, unread := mint(t, other), mint(t, other)
	warm(t, server, []*redis.Links{l}, known)
	server.Freeze()
	redis.Age(l, time.Minute) // so that the record would be read again
	// Callers of little patience find out that the server is silent, though each of them leaves before.
	server.Eventually("a caller of little patience is answered from memory", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		r, err := l.Resolve(ctx, known.Hash)
		return err == nil && r.Hash == known.Hash && ctx.Err() == nil
	})
	server.Eventually("the server is known to be silent", func() bool { return redis.Asleep(l) })
	// While it is asked whether it is back, several times.
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		caller := &unwaiting{Context: t.Context()}
		if _, err := l.Resolve(caller, known.Hash); err != nil || caller.waited {
			t.Fatalf("a link that was known: error %v, waited: %v", err, caller.waited)
		}
		if _, err := l.Resolve(caller, unread.Hash); !errors.Is(err, link.ErrUnavailable) || caller.waited {
			t.Fatalf("a link that was never read: error %v, waited: %v; want ErrUnavailable at once", err, caller.waited)
		}
	}
	server.Thaw()
	for _, r := range []link.Record{known, unread} {
		server.Eventually("links resolve again", func() bool { return resolve(t, l, r) == nil })
	}
}

// unwaiting is a context that notices who waits.
type unwaiting struct {
	context.Context
	waited bool
}

func (c *unwaiting) Done() <-chan struct{} {
	c.waited = true
	return c.Context.Done()
}

// Who has a record that may serve does not wait for a server until it is given up, and once somebody has had no patience, nobody else has any.
func TestLinksOfASilentServerServeAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := openLinks(t, redis.Options{URL: server.URL()})
	known := mint(t, l)
	warm(t, server, []*redis.Links{l}, known)
	server.Freeze()
	redis.Age(l, time.Minute)
	if err := resolve(t, l, known); err != nil || redis.Asleep(l) {
		t.Errorf("the first to ask: error %v; waited until the server was given up: %v", err, redis.Asleep(l))
	}
	next := &unwaiting{Context: t.Context()}
	if _, err := l.Resolve(next, known.Hash); err != nil || next.waited {
		t.Errorf("the next: error %v, waited: %v", err, next.waited)
	}
}

// A server that is slow, and does answer, has its say a moment later.
func TestLinksOfASlowServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	l, other := openLinks(t, redis.Options{URL: proxy.URL()}), openLinks(t, redis.Options{URL: server.URL()})
	r := mint(t, other)
	warm(t, server, []*redis.Links{l}, r)
	proxy.Mute(true)
	if _, err := other.Revoke(t.Context(), r.Hash.ID(), time.Now()); err != nil {
		t.Fatal(err)
	}
	redis.Age(l, time.Minute)
	server.Freeze()
	if err := resolve(t, l, r); err != nil {
		t.Errorf("by the record that is there: %v", err)
	}
	server.Thaw()
	server.Eventually("the revocation is read", func() bool { return errors.Is(resolve(t, l, r), link.ErrUnknown) })
}

// A server that is far away never answers in time, here not before it runs on. Its links are read again all the same, and none waits for the
// others.
func TestLinksOfAServerThatIsFarAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	l, other := openLinks(t, redis.Options{URL: proxy.URL()}), openLinks(t, redis.Options{URL: server.URL()})
	var all []link.Record
	for range 20 {
		all = append(all, mint(t, other))
	}
	warm(t, server, []*redis.Links{l}, all...)
	proxy.Mute(true)
	for _, r := range all {
		if _, err := other.Revoke(t.Context(), r.Hash.ID(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	redis.Age(l, time.Minute)
	server.Freeze()
	for _, r := range all {
		if err := resolve(t, l, r); err != nil {
			t.Errorf("by the record that is there: %v", err)
		}
	}
	if n := redis.Late(l); n != len(all) {
		t.Errorf("%d of %d links are asked for", n, len(all))
	}
	server.Thaw()
	server.Eventually("all that was asked is answered", func() bool { return redis.Late(l) == 0 })
	for i, r := range all {
		if err := resolve(t, l, r); !errors.Is(err, link.ErrUnknown) || redis.Late(l) > 0 {
			t.Fatalf("link %d was asked for once: %v, %d on their way", i, err, redis.Late(l))
		}
	}
}

// Who was told that there is no such link is not told in an outage that there is.
func TestLinksThatAreGoneStayGone(t *testing.T) {
	server := redistest.Start(t)
	l := openLinks(t, redis.Options{URL: server.URL()})
	r := mint(t, l)
	warm(t, server, []*redis.Links{l}, r)
	server.Do("FLUSHALL")
	server.Eventually("the link is gone", func() bool { return errors.Is(resolve(t, l, r), link.ErrUnknown) })
	server.Kill()
	for range 10 {
		if err := resolve(t, l, r); !errors.Is(err, link.ErrUnavailable) {
			t.Fatalf("a link that was gone before the outage: %v, want ErrUnavailable", err)
		}
	}
}

// A record that cannot be read is the trouble of its link alone.
func TestLinksBesideASpoiltOne(t *testing.T) {
	server := redistest.Start(t)
	l, other := openLinks(t, redis.Options{URL: server.URL()}), openLinks(t, redis.Options{URL: server.URL()})
	for what, spoil := range map[string]func(string){
		"another type":   func(name string) { server.Do("SET", name, "x") },
		"another format": func(name string) { server.Do("HSET", name, "record", "x") },
	} {
		spoilt := mint(t, other)
		spoil("signpost:{links}:record:" + spoilt.Hash.ID())
		for range 10 {
			if err := resolve(t, l, spoilt); !errors.Is(err, link.ErrUnavailable) {
				t.Fatalf("a record of %s: %v, want ErrUnavailable", what, err)
			}
			if err := resolve(t, l, mint(t, other)); err != nil {
				t.Fatalf("another link than one whose record is of %s: %v", what, err)
			}
		}
	}
}

// A caller that goes away says nothing of the server: the others are answered by it.
func TestCallersThatLeaveTheRegistry(t *testing.T) {
	server := redistest.Start(t)
	l, other := openLinks(t, redis.Options{URL: server.URL()}), openLinks(t, redis.Options{URL: server.URL()})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		if _, err := l.Resolve(gone, mint(t, other).Hash); err != nil && !errors.Is(err, link.ErrUnavailable) {
			t.Errorf("a caller that has gone: %v", err)
		}
		if err := resolve(t, l, mint(t, other)); err != nil {
			t.Errorf("another caller: %v", err)
		}
	}
}

// What was revoked while the connection that pushes was down is not missed.
func TestLinksPushLost(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	l, other := openLinks(t, redis.Options{URL: proxy.URL()}), openLinks(t, redis.Options{URL: server.URL()})
	r := mint(t, other)
	warm(t, server, []*redis.Links{l}, r)
	proxy.Lose(true)
	if _, err := other.Revoke(t.Context(), r.Hash.ID(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := resolve(t, l, r); err != nil && !errors.Is(err, link.ErrUnavailable) {
		t.Errorf("with the network lost: %v", err)
	}
	server.Eventually("the push is lost", proxy.HasLost)
	proxy.Lose(false)
	began := time.Now()
	// The client finds out that its connection is dead, without a resolution that would ask.
	server.Eventually("the revocation is seen", func() bool { return errors.Is(resolve(t, l, r), link.ErrUnknown) })
	// And not because the record was read again in time.
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("a revocation was seen after %v", took)
	}
}

// What is read while it changes is used and not remembered, and so is what is read while nobody knows what changes.
func TestLinksThatChangeAsTheyAreRead(t *testing.T) {
	l := openLinks(t, redis.Options{URL: redistest.Start(t).URL()})
	for name, c := range map[string]struct {
		pushed func()
		kept   bool
	}{
		"nothing":             {func() {}, true},
		"another link":        {func() { redis.Forget(l, "other") }, true},
		"the link":            {func() { redis.Forget(l, "the link") }, false},
		"the connection ends": {func() { redis.Lost(l) }, false},
	} {
		if kept := redis.ReadWhile(l, "the link", c.pushed); kept != c.kept {
			t.Errorf("%s: remembered=%v, want %v", name, kept, c.kept)
		}
		redis.Forget(l, "the link")
	}
}

// What is found to be gone serves no more, though the connection ends as it is asked for. What was minted and read since then does.
func TestLinksThatAreGoneAsTheyAreRead(t *testing.T) {
	l := openLinks(t, redis.Options{URL: redistest.Start(t).URL()})
	for name, c := range map[string]struct {
		meanwhile func()
		serves    bool
	}{
		"nothing":             {func() {}, false},
		"the link":            {func() { redis.Forget(l, "the link") }, false},
		"the connection ends": {func() { redis.Lost(l) }, false},
		"it is read again":    {func() { redis.ReadWhile(l, "the link", func() {}) }, true},
	} {
		if serves := redis.GoneWhile(l, "the link", c.meanwhile); serves != c.serves {
			t.Errorf("%s: serves=%v, want %v", name, serves, c.serves)
		}
		redis.Forget(l, "the link")
	}
}

func TestLinksOfARestrictedUser(t *testing.T) {
	server := redistest.Start(t)
	allow(server, allowed+" "+allowedLinks)
	o := redis.Options{URL: "redis://signpost:secret@" + server.Addr}
	l := openLinks(t, o)
	r := mint(t, l)
	l.Seen(r.Hash, time.Now())
	if err := resolve(t, l, r); err != nil {
		t.Error(err)
	}
	if all, err := l.List(t.Context(), "", 10); err != nil || len(all) != 1 {
		t.Errorf("list: %d links, error %v", len(all), err)
	}
	if _, err := l.Revoke(t.Context(), r.Hash.ID(), time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := l.Show(t.Context(), r.Hash.ID()); err != nil {
		t.Error(err)
	}
	// Of what the store needs, the registry does without these.
	needed := strings.NewReplacer("+zcount ", "", "+zrange ", "", "+zscore ", "").Replace(allowed)
	testEachIsNeeded(t, server, needed+" "+allowedLinks, func() (io.Closer, error) { return redis.OpenLinks(t.Context(), o) })
}

// allowedLinks is what docs/fleet.md gives the user besides, for links.
const allowedLinks = "+client|tracking +hget +hset +hsetnx +hmget +zcard +zrangebylex +pttl +pexpireat"

func TestLinksInACluster(t *testing.T) {
	nodes := redistest.Cluster(t, 3)
	l, other := openLinks(t, redis.Options{URL: nodes[0].URL() + "?addr=" + nodes[1].Addr}), openLinks(t, redis.Options{URL: nodes[2].URL()})
	r := mint(t, l)
	if err := resolve(t, other, r); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Revoke(t.Context(), r.Hash.ID(), time.Now()); err != nil {
		t.Fatal(err)
	}
	nodes[0].Eventually("the revocation holds", func() bool { return errors.Is(resolve(t, other, r), link.ErrUnknown) })
}
