// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/redis"
)

// liveness is far above what anything here takes, and far below what a hang does.
const liveness = 15 * time.Second

func TestFaultyOptions(t *testing.T) {
	for _, url := range []string{
		"", "localhost:6379", "http://localhost:6379", "redis://secret word@host", "redis://user:secret@host:port",
		"redis://:secret@localhost/one", "redis://:secret@localhost/0/1", "redis://:secret@localhost?timeout=3s", "redis://:secret@localhost?db=x",
		"redis://", "redis://:secret@:6379", "redis://:secret@a:6379,b:6379",
	} {
		_, err := redis.Open(t.Context(), redis.Options{URL: url})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v, want one without the password", url, err)
		}
	}
	_, err := redis.Open(t.Context(), redis.Options{URL: "redis://localhost?a=1&b=2", Prefix: "{x}:"})
	for _, want := range []string{`"a"`, `"b"`, "brace"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("three faults gave %v, which does not name %s", err, want)
		}
	}
}

// refusal opens something until that is refused. A server that a busy machine keeps from answering is no error.
func refusal(open func() (io.Closer, error)) error {
	for range 5 {
		opened, err := open()
		if err != nil {
			return err
		}
		opened.Close()
	}
	return nil
}

// refusalOf is that of a store.
func refusalOf(t *testing.T, o redis.Options) error {
	return refusal(func() (io.Closer, error) { return redis.Open(t.Context(), o) })
}

// A server that turns a process away, or is no store, is an error at once.
func TestTurnedAway(t *testing.T) {
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "signpost", "on", ">right", "~*", "+@all")
	refused := func(name, url string) {
		t.Helper()
		err := refusalOf(t, redis.Options{URL: url})
		if !errors.Is(err, signpost.ErrStoreAuth) || strings.Contains(err.Error(), "wrong@") || !strings.Contains(err.Error(), server.Addr) {
			t.Errorf("%s: error %v, want ErrStoreAuth with the address", name, err)
		}
	}
	refused("wrong password", "redis://signpost:wrong@"+server.Addr)
	refused("unknown user", "redis://nobody:right@"+server.Addr)
	server.Do("CONFIG", "SET", "requirepass", "right")
	refused("wrong password of the default user", "redis://:wrong@"+server.Addr)
	refused("no password", "redis://"+server.Addr)
	server.Do("CONFIG", "SET", "requirepass", "")
	_, sentinels := redistest.Sentinels(t, time.Minute)
	for url, want := range map[string]string{
		server.URL() + "?master_set=main":          "no Sentinel",
		sentinels[0].URL():                         "add master_set",
		sentinels[0].URL() + "?master_set=another": "names no master",
	} {
		if err := refusalOf(t, redis.Options{URL: url}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", url, err, want)
		}
	}
	refused("a password where none is set", "redis://someone:wrong@"+server.Addr)
}

// Sentinels have a password of their own.
func TestSentinelPassword(t *testing.T) {
	servers, sentinels := redistest.Sentinels(t, time.Minute)
	for _, s := range servers {
		s.Do("ACL", "SETUSER", "signpost", "on", ">of-servers", "~*", "+@all")
	}
	for _, s := range sentinels {
		s.Do("ACL", "SETUSER", "default", "resetpass", ">of-sentinels")
	}
	o := redis.Options{URL: strings.Replace(sentinelURL(sentinels), "//", "//signpost@", 1), Password: "of-servers"}
	for _, wrong := range []string{"", "of-servers"} {
		o.SentinelPassword = wrong
		if err := refusalOf(t, o); !errors.Is(err, signpost.ErrStoreAuth) || !strings.Contains(err.Error(), "that of the Sentinels") || strings.Contains(err.Error(), "of-servers") {
			t.Errorf("password %q for Sentinels: error %v, want ErrStoreAuth that names Sentinels and no password", wrong, err)
		}
	}
	o.SentinelPassword = "of-sentinels"
	take(t, open(t, o), request("sentinels", "5/366d"))
}

func TestWrongType(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	q := request("list", "5/min")
	take(t, s, q)
	name := keysOf(t, server)
	server.Do("DEL", name)
	server.Do("RPUSH", name, "x")
	if d, _, err := s.Take(t.Context(), q); err == nil || !strings.Contains(err.Error(), "prefix") {
		t.Errorf("a take on a list gave admitted=%v and error %v, want one that says what to do", d.Admitted, err)
	}
	// What a newer version wrote is not misread.
	server.Do("SET", name, "\x02something else")
	if d, _, err := s.Take(t.Context(), q); err == nil || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("a take on a newer state gave admitted=%v and error %v, want one that says what to do", d.Admitted, err)
	}
	if got := server.Text("GET", name); got != "\x02something else" {
		t.Errorf("a newer state has become %q", got)
	}
}

// A server that is not there yet is no error, and the store works when it comes.
func TestOpenBeforeTheServer(t *testing.T) {
	for _, topology := range []string{"", "?addr=127.0.0.1:1", "?addr=127.0.0.1:1&master_set=main"} {
		t.Run(topology, func(t *testing.T) {
			server := redistest.Start(t)
			server.Kill()
			s := open(t, redis.Options{URL: server.URL() + topology})
			if _, _, err := s.Take(t.Context(), request("early", "5/min")); !errors.Is(err, signpost.ErrUnreachable) {
				t.Errorf("take: error %v, want ErrUnreachable", err)
			}
			if topology != "" {
				return // these need a server of another kind
			}
			server.Restart()
			server.Eventually("a take is answered", func() bool {
				_, _, err := s.Take(t.Context(), request("early", "5/min"))
				return err == nil
			})
		})
	}
}

// A server that has too many clients already is an outage like any other, and no reason not to start.
func TestOpenOfAFullServer(t *testing.T) {
	server := redistest.Start(t)
	server.Do("CONFIG", "SET", "maxclients", "1")
	s, l := open(t, redis.Options{URL: server.URL()}), openLinks(t, redis.Options{URL: server.URL()})
	q := request("full", "5/min")
	if _, _, err := s.Take(t.Context(), q); !errors.Is(err, signpost.ErrNotCharged) {
		t.Errorf("take: error %v, want ErrNotCharged", err)
	}
	if err := resolve(t, l, link.Record{Hash: link.Mint().Hash()}); !errors.Is(err, link.ErrUnavailable) {
		t.Errorf("resolve: error %v, want ErrUnavailable", err)
	}
	server.Do("CONFIG", "SET", "maxclients", "100")
	server.Eventually("a take is answered", func() bool {
		_, _, err := s.Take(t.Context(), q)
		return err == nil
	})
	server.Eventually("a link is looked for", func() bool {
		return errors.Is(resolve(t, l, link.Record{Hash: link.Mint().Hash()}), link.ErrUnknown)
	})
	r := mint(t, l)
	server.Eventually("a link is resolved", func() bool { return resolve(t, l, r) == nil })
}

// hole is an address that takes connections and never says anything, as a host behind a firewall or a frozen server.
func hole(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// The caller's deadline bounds every wait, also while others wait longer for the same connection.
func TestDeadline(t *testing.T) {
	// A machine that stands still has the connection given up before a deadline is noticed that was over before. It does so not every time.
	for range 10 {
		if late := deadlines(t); late == 0 {
			return
		}
	}
	t.Error("callers waited for a connection until it was given up, beyond their deadline")
}

// deadlines has callers of little patience wait with others, and returns how many of the first waited for as long as these, or were told what these
// were.
func deadlines(t *testing.T) int64 {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s, err := redis.Open(ctx, redis.Options{URL: "redis://" + hole(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var wg sync.WaitGroup
	var late atomic.Int64
	for i := range 50 {
		wait := 20 * time.Millisecond
		if i%2 == 0 {
			wait = liveness
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			began := time.Now()
			switch _, _, err := s.Take(ctx, request("hole", "5/min")); {
			case wait == liveness && !errors.Is(err, signpost.ErrUnreachable), err == nil, wait < liveness && ctx.Err() == nil:
				t.Errorf("a caller that had %v got %v", wait, err)
			case wait < liveness && (!errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 500*time.Millisecond):
				late.Add(1)
			}
		})
	}
	wg.Wait()
	return late.Load()
}

// fake is a server that says to every EVALSHA and EVAL what it is told to, to everything else OK.
func fake(t *testing.T, reply string) string {
	t.Helper()
	return fakeOf(t, func(int) string { return reply })
}

// fakeOf is fake with a reply that depends on which connection asks, the first being 1.
func fakeOf(t *testing.T, reply func(connection int) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for connection := 1; ; connection++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					args, err := readCommand(in)
					if err != nil {
						return
					}
					answer := "+OK\r\n"
					switch strings.ToUpper(args[0]) {
					case "HELLO":
						answer = "-ERR unknown command 'HELLO'\r\n"
					case "CLUSTER":
						answer = "-ERR This instance has cluster support disabled\r\n"
					case "EVAL", "EVALSHA":
						answer = reply(connection)
					}
					if _, err := io.WriteString(c, answer); err != nil {
						return
					}
				}
			})
		}
	})
	return "redis://" + l.Addr().String()
}

func readCommand(in *bufio.Reader) (args []string, _ error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	for ; err == nil && n > 0; n-- {
		var size int
		if size, err = number(); err != nil {
			break
		}
		arg := make([]byte, size+2)
		if _, err = io.ReadFull(in, arg); err == nil {
			args = append(args, string(arg[:size]))
		}
	}
	return args, err
}

// Whatever a server answers that no script of ours does is a failure of the store, never a decision.
func TestMalformedReplies(t *testing.T) {
	head := func(verdict byte, now signpost.Instant) string {
		b := []byte{verdict}
		for i := 7; i >= 0; i-- {
			b = append(b, byte(now>>(8*i)))
		}
		return string(b)
	}
	bulk := func(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }
	const at = 1768471200000
	for name, reply := range map[string]string{
		"nil":                        "$-1\r\n",
		"nil list":                   "*-1\r\n",
		"empty list":                 "*0\r\n",
		"list":                       "*1\r\n:1\r\n",
		"list of a string":           "*1\r\n" + bulk(head(1, at)),
		"error in a list":            "*2\r\n-ERR broken\r\n:1\r\n",
		"status":                     "+OK\r\n",
		"one":                        ":1\r\n",
		"huge integer":               ":9223372036854775807\r\n",
		"empty string":               bulk(""),
		"cut short":                  bulk(head(1, at)[:8]),
		"no verdict":                 bulk(head(2, at)),
		"no instant":                 bulk(head(1, 0)),
		"another instant":            bulk(head(1, at+1)),
		"far future":                 bulk(head(1, signpost.MaxInstant+1)),
		"half a window":              bulk(head(1, at) + "\x01" + strings.Repeat("x", 12)),
		"nine windows":               bulk(head(1, at) + "\x01" + strings.Repeat("x", 9*13)),
		"another version":            bulk(head(1, at) + "\x02" + strings.Repeat("x", 13)),
		"refused without a reason":   bulk(head(0, at)),
		"admitted above the limit":   bulk(head(1, at) + "\x01\x00\x00\x00\x3c\x00\x01\xc1\xbe\xd8\x00\x00\x00\x05"),
		"for ever NOSCRIPT":          "-NOSCRIPT No matching script.\r\n",
		"for ever TRYAGAIN":          "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
		"an error that has no words": "-ERR\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := redis.Open(t.Context(), redis.Options{URL: fake(t, reply)})
			if err != nil {
				return // which is as well
			}
			defer s.Close()
			q := request("malformed", "5/min")
			q.At = at
			ctx, cancel := context.WithTimeout(t.Context(), liveness)
			defer cancel()
			if d, _, err := s.Take(ctx, q); err == nil || ctx.Err() != nil || d.Admitted {
				t.Errorf("take: admitted=%v, error %v; want an error soon", d.Admitted, err)
			}
			expensive := q // its reply says more, so that none of these is one
			expensive.Expensive, expensive.LeaseID = true, signpost.NewLeaseID()
			if d, _, err := s.Take(ctx, expensive); err == nil || ctx.Err() != nil || d.Admitted {
				t.Errorf("expensive take: admitted=%v, error %v; want an error soon", d.Admitted, err)
			}
			if d, _, err := s.Peek(ctx, q); err == nil || ctx.Err() != nil || d.Admitted {
				t.Errorf("peek: admitted=%v, error %v; want an error soon", d.Admitted, err)
			}
			if in, err := s.Inspect(ctx, q.Key, at); err == nil {
				t.Errorf("inspect: %v, want an error", in)
			}
			// A renewal is answered by a number, so that 1 is one; anything else is an error.
			if _, err := s.Renew(ctx, signpost.Lease{Key: q.Key, ID: signpost.NewLeaseID()}, at); err == nil && !strings.HasPrefix(reply, ":") {
				t.Errorf("renew: no error")
			}
		})
	}
	t.Run("the fake itself", func(t *testing.T) {
		s, err := redis.Open(t.Context(), redis.Options{URL: fake(t, bulk(head(1, at)))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		q := request("sound", "5/min")
		q.At = at
		if d, _, err := s.Take(t.Context(), q); err != nil || !d.Admitted {
			t.Errorf("a sound reply gave admitted=%v, error %v", d.Admitted, err)
		}
	})
}
