// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/redis"
	"github.com/signposthq/signpost/store/storetest"
)

func request(id, bound string) signpost.Request {
	return signpost.Request{Key: signpost.KeyOf("redis test", id), Bound: signpost.MustParseBound(bound)}
}

func take(t testing.TB, s signpost.Store, q signpost.Request) signpost.Decision {
	t.Helper()
	if q.Expensive {
		q.LeaseID = signpost.NewLeaseID()
	}
	d, _, err := s.Take(t.Context(), q)
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	return d
}

func used(t testing.TB, s signpost.Store, q signpost.Request) uint32 {
	t.Helper()
	d, _, err := s.Peek(t.Context(), q)
	if err != nil {
		t.Fatalf("peek: %v", err)
	}
	return d.Windows()[0].Used
}

func TestCluster(t *testing.T) {
	nodes, _ := redistest.ClusterOfPairs(t, 3)
	o := redis.Options{URL: nodes[0].URL() + "?addr=" + nodes[1].Addr}
	storetest.Run(t, contract(o))

	// The links spread over the nodes, the store knows where each is, and each take is one command of one node.
	s := open(t, o)
	const links = 1000
	ask := func(i int) signpost.Decision {
		q := request(fmt.Sprint("spread ", i), "5/min 9/hour 3 concurrent")
		q.Expensive = i%3 == 0
		d := take(t, s, q)
		s.Release(d.Lease)
		return d
	}
	for i := range links {
		ask(i) // so that every node is connected and has the script
	}
	want := map[string]int{}
	for _, node := range nodes {
		node.Forget()
	}
	for i := range links {
		if d := ask(i); !d.Admitted {
			t.Fatalf("take of link %d was refused", i)
		}
		want[s.Slice(request(fmt.Sprint("spread ", i), "5/min").Key)]++
	}
	for _, node := range nodes {
		if got := node.Calls("evalsha"); got != want[node.Addr] || got < links/6 {
			t.Errorf("node %s ran %d scripts, want the %d of its slots, about a third of %d", node.Addr, got, want[node.Addr], links)
		}
		if n := node.Calls("exists") + node.Calls("eval") + node.Calls("asking"); n != 0 {
			t.Errorf("node %s ran %d commands besides", node.Addr, n)
		}
	}
	// Leases go back in the background, many at once: each to the node of its key.
	for i := 0; i < links; i += 3 {
		k := request(fmt.Sprint("spread ", i), "5/min").Key
		nodes[0].Eventually("the lease is back", func() bool {
			in, err := s.Inspect(t.Context(), k, 0)
			return err == nil && len(in.Leases) == 0
		})
	}
}

// A take is one command, whatever it decides and whatever was stored, and a cheap one touches no lease.
func TestOneRoundTrip(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	take(t, s, request("warm", "5/min"))
	server.Forget()
	q := request("a", "2/90d 3/120d 9/183d 20/366d 1 concurrent")
	for i := range 3 {
		if d := take(t, s, q); d.Admitted != (i < 2) {
			t.Errorf("take %d: admitted=%v", i, d.Admitted)
		}
	}
	if n := server.Calls("zadd") + server.Calls("zrange") + server.Calls("zcount"); n != 0 {
		t.Errorf("cheap takes were %d commands on leases", n)
	}
	q = request("b", "2/90d 3/120d 9/183d 20/366d 1 concurrent")
	q.Expensive = true
	for i := range 3 {
		if d := take(t, s, q); d.Admitted != (i < 1) {
			t.Errorf("expensive take %d: admitted=%v", i, d.Admitted)
		}
	}
	if n := server.Calls("evalsha"); n != 6 {
		t.Errorf("6 takes were %d scripts", n)
	}
	if n := server.Calls("exists") + server.Calls("eval"); n != 0 {
		t.Errorf("6 takes were %d commands besides", n)
	}
}

// within is how much the expiry of what a call wrote may be off. The server's clock runs on between the script's reading of it and the command's: as
// long as the call takes, if the server stands still just then.
func within(call func()) (ms int64) {
	began := time.Now()
	call()
	return 2 + time.Since(began).Milliseconds()
}

// What expires does so a minute after the last window ends, however often it is written.
func TestExpiry(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	q := request("expiry", "1000/183d 1000/366d 5 concurrent")
	q.Expensive = true
	for range 50 {
		var d signpost.Decision
		off := within(func() { d = take(t, s, q) })
		s.Release(d.Lease)
		want := int64(max(d.Windows()[0].Reset(), d.Windows()[1].Reset()).Add(time.Minute))
		if at, _ := server.Do("PEXPIRETIME", redis.NameOf(s, q.Key)).AsInt64(); at < want-off || at > want+off {
			t.Errorf("the key expires at %d, want a minute after its last window ends, %d, give or take %d", at, want, off)
		}
	}
}

// The expiry moves on with the windows: a key that is used all the while is there all the while.
func TestExpiryMovesOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	// Two windows of some days, the longer of which ends first.
	day, short, long := time.Now().Unix()/86400, int64(1), int64(2)
	ends := func(days int64) int64 { return (day/days + 1) * days }
	for ; ends(short) <= ends(long); short++ {
		if short == long {
			short, long = 0, long+1
		}
	}
	for _, bound := range []string{"100000/s", "100000/s 100000/2s", fmt.Sprintf("100000/s 100000/%dd 100000/%dd", short, long)} {
		q := request(bound, bound)
		turns := map[signpost.Instant]bool{}
		server.Eventually("two windows have turned", func() bool {
			var d signpost.Decision
			off := within(func() { d = take(t, s, q) })
			last := signpost.Instant(0)
			for _, w := range d.Windows() {
				last = max(last, w.Reset())
			}
			turns[d.Windows()[0].Start] = true
			if at, _ := server.Do("PEXPIRETIME", redis.NameOf(s, q.Key)).AsInt64(); at < int64(last.Add(time.Minute))-off {
				t.Fatalf("%s: the key expires at %d, less than a minute after the last window ends at %d", bound, at, last)
			}
			return len(turns) == 3
		})
	}
}

// An instant that a request names says nothing about how long the windows are open by the server's clock: takes by that clock do not find
// their count gone before.
func TestExpiryOfNamedInstants(t *testing.T) {
	for _, other := range []string{"", " 1000/min"} {
		server := redistest.Start(t)
		s := open(t, redis.Options{URL: server.URL()})
		q := request("named", "1000/366d")
		first := take(t, s, q)
		year := first.Windows()[0].Reset()
		named := request("named", "1000/366d"+other)
		named.At = year.Add(-time.Millisecond) // the interval is that of the server's clock
		take(t, s, named)
		if err := s.Settle(t.Context(), q.Key, named.At, []signpost.Count{{Len: 366 * 24 * time.Hour, Start: year.Add(-366 * 24 * time.Hour), Used: 1}}); err != nil {
			t.Fatal(err)
		}
		q.Bound = named.Bound
		take(t, s, q)
		for _, name := range strings.Fields(keysOf(t, server)) {
			if at, _ := server.Do("PEXPIRETIME", name).AsInt64(); at < int64(year) {
				t.Errorf("with%q: the key expires at %d, before its window ends at %d", other, at, year)
			}
		}
	}
}

func keysOf(t testing.TB, server *redistest.Server) string {
	t.Helper()
	names, err := server.Do("KEYS", "*").AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// No key is without an expiry, and no name or value holds what it was made from.
func TestNothingIsKeptForEver(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL(), Prefix: "other:"})
	for i := range 30 {
		q := request(fmt.Sprint("sp_secret", i), "5/min 3 concurrent")
		q.Expensive = i%2 == 0
		take(t, s, q)
	}
	// A version that names keys in another way shares no count with this one, and one that names them shorter has links that share one.
	named := regexp.MustCompile(`^other:\{[0-9a-f]{16}\}[0-9a-f]{32}(:leases)?$`)
	names := strings.Fields(keysOf(t, server))
	if len(names) != 45 {
		t.Errorf("%d keys, want 30 of windows and 15 of leases", len(names))
	}
	for _, name := range names {
		if ttl, _ := server.Do("PTTL", name).AsInt64(); ttl <= 0 || ttl > 3*60*1000 {
			t.Errorf("key %s lives for %d ms", name, ttl)
		}
		if !named.MatchString(name) {
			t.Errorf("key is named %s, want %v", name, named)
		}
	}
}

// Scripts that the server has forgotten are sent again, and what was not run is counted once.
func TestScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	q := request("flush", "100/366d 5 concurrent")
	q.Expensive = true
	for i := range 10 {
		server.Do("SCRIPT", "FLUSH")
		d := take(t, s, q)
		server.Do("SCRIPT", "FLUSH")
		if _, err := s.Renew(t.Context(), d.Lease, 0); err != nil {
			t.Fatalf("renew: %v", err)
		}
		server.Do("SCRIPT", "FLUSH")
		if n := used(t, s, q); n != uint32(i+1) {
			t.Fatalf("%d used after %d takes", n, i+1)
		}
		server.Do("SCRIPT", "FLUSH")
		if err := s.Settle(t.Context(), request("settled", "5/366d").Key, 0, []signpost.Count{{Len: 366 * 24 * time.Hour, Start: d.Windows()[0].Start, Used: 1}}); err != nil {
			t.Fatalf("settle: %v", err)
		}
		s.Release(d.Lease)
		server.Eventually("the lease is back", func() bool {
			in, err := s.Inspect(t.Context(), q.Key, 0)
			return err == nil && len(in.Leases) == 0
		})
	}
}

// A user who may touch nothing but our keys, and run nothing but what docs/fleet.md names, is enough.
func TestRestrictedUser(t *testing.T) {
	server := redistest.Start(t)
	allow(server, allowed)
	url := "redis://signpost:secret@" + server.Addr
	storetest.Run(t, contract(redis.Options{URL: url}))

	testEachIsNeeded(t, server, allowed, func() (io.Closer, error) {
		s, err := redis.Open(t.Context(), redis.Options{URL: url})
		if err != nil && s != nil {
			t.Error("opened with an error")
		}
		return s, err
	})
	server.Do("ACL", "SETUSER", "signpost", "resetkeys", "~elsewhere:*")
	if err := refusalOf(t, redis.Options{URL: url}); !errors.Is(err, signpost.ErrStoreAuth) {
		t.Errorf("with other keys: error %v, want ErrStoreAuth", err)
	}
}

// Behind Sentinels and in a Cluster the user needs one thing more, whose lack is no outage.
func TestRestrictedUserOfSentinelsAndCluster(t *testing.T) {
	servers, sentinels := redistest.Sentinels(t, time.Minute)
	nodes := redistest.Cluster(t, 3)
	for _, c := range []struct {
		servers []*redistest.Server
		url     string
		also    string
	}{
		{servers, "redis://signpost:secret@" + sentinels[0].Addr + "?master_set=" + redistest.MasterSet, "+role"},
		{nodes, "redis://signpost:secret@" + nodes[0].Addr, "+cluster|slots +cluster|shards"},
	} {
		for _, server := range c.servers {
			allow(server, allowed+" "+allowedLinks)
		}
		if err := refusalOf(t, redis.Options{URL: c.url}); !errors.Is(err, signpost.ErrStoreAuth) {
			t.Errorf("without %s: error %v, want ErrStoreAuth", c.also, err)
		}
		for _, server := range c.servers {
			allow(server, allowed+" "+allowedLinks+" "+c.also)
		}
		s, l := open(t, redis.Options{URL: c.url}), openLinks(t, redis.Options{URL: c.url})
		take(t, s, request("restricted", "5/min"))
		if err := resolve(t, l, mint(t, l)); err != nil {
			t.Errorf("with %s: %v", c.also, err)
		}
	}
	page, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range strings.Fields(allowed + " " + allowedLinks + " +role +cluster|slots +cluster|shards") {
		if !strings.Contains(string(page), each) {
			t.Errorf("docs/fleet.md does not name %s", each)
		}
	}
}

// allow makes a user who may do nothing else.
func allow(server *redistest.Server, commands string) {
	server.Do(append([]string{"ACL", "SETUSER", "signpost", "on", ">secret", "resetkeys", "~signpost:*", "resetchannels", "nocommands"}, strings.Fields(commands)...)...)
}

// testEachIsNeeded has each command that a user does not have be an error of open that names it.
func testEachIsNeeded(t *testing.T, server *redistest.Server, commands string, open func() (io.Closer, error)) {
	t.Helper()
	for _, taken := range strings.Fields(commands) {
		if taken == "+ping" || taken == "+exists" {
			continue // these only ask whether a server is there, and any answer will do
		}
		server.Do("ACL", "SETUSER", "signpost", "-"+taken[1:])
		name := strings.ReplaceAll(taken[1:], "|", " ")
		if err := refusal(open); !errors.Is(err, signpost.ErrStoreAuth) || !strings.Contains(strings.ToLower(err.Error()), name) {
			t.Errorf("without %s: error %v, want ErrStoreAuth and the name", taken, err)
		}
		server.Do("ACL", "SETUSER", "signpost", taken)
	}
}

// allowed is what docs/fleet.md gives the store's user.
const allowed = "+ping +eval +evalsha +exists +get +set +del +time +zadd +zcount +zrange +zrangebyscore +zrem +zremrangebyscore +zscore +pexpire"
