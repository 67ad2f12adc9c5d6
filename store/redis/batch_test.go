// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/redis"
)

// asked is a take and what came of it.
type asked struct {
	q   signpost.Request
	ctx context.Context
	d   signpost.Decision
	err error
}

// together sends takes in one batch. It calls before when all wait for it.
func together(s *redis.Store, takes []*asked, before func()) {
	callers := make([]func(), len(takes))
	for i, a := range takes {
		callers[i] = func() { a.d, _, a.err = s.Take(a.ctx, a.q) }
	}
	redis.TakeTogether(s, callers, before)
}

// several returns takes of links of their own.
func several(t *testing.T, n int, name, bound string) []*asked {
	takes := make([]*asked, n)
	for i := range takes {
		takes[i] = &asked{q: request(fmt.Sprint(name, " ", i), bound), ctx: t.Context()}
	}
	return takes
}

func TestBatch(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	take(t, s, request("warm", "5/min"))

	// Every other take is of one link, and they differ in bounds and costs.
	takes := several(t, 30, "mixed", "3/183d 9/366d 1 concurrent")
	for i, a := range takes {
		if i%2 == 1 {
			a.q = request("shared", "5/183d 100/366d")
		}
		if i%3 == 1 {
			a.q.Cost = 2
		}
	}
	together(s, takes, func() {})
	again := open(t, redis.Options{URL: server.URL()}) // which knows of no refusal
	take(t, again, request("warm", "5/min"))
	server.Forget()
	together(again, takes, func() {})
	if n, gets := server.Calls("evalsha"), server.Calls("get"); n != 1 || gets != 31 || server.Calls("eval") != 0 {
		t.Errorf("30 takes were %d scripts that read %d keys, want 1 and 31", n, gets)
	}
	// What the batches did is what as many takes by themselves do.
	by := open(t, redis.Options{URL: server.URL(), Prefix: "by themselves:"})
	for range 2 {
		for i, a := range takes {
			if a.err != nil {
				t.Fatalf("take %d: %v", i, a.err)
			}
			if _, _, err := by.Take(t.Context(), a.q); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, a := range takes {
		got, _, err := s.Peek(t.Context(), a.q)
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := by.Peek(t.Context(), a.q)
		if err != nil {
			t.Fatal(err)
		}
		for w := range want.Windows() {
			if got.Windows()[w].Used != want.Windows()[w].Used {
				t.Errorf("after take %d: window %d has %d used, want %d", i, w, got.Windows()[w].Used, want.Windows()[w].Used)
			}
		}
	}
}

// Callers that nobody holds back meet by themselves, and each has its own answer.
func TestBatchesForm(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	take(t, s, request("warm", "5/min"))
	server.Forget()
	const links, callers, rounds = 10, 100, 20
	admitted := make([]int, links)
	var mu sync.Mutex
	for range rounds {
		var made sync.WaitGroup
		begin := make(chan struct{})
		for i := range callers {
			made.Go(func() {
				<-begin
				q := request(fmt.Sprint("link ", i%links), fmt.Sprintf("%d/366d", 100+i%links))
				d, _, err := s.Take(t.Context(), q)
				if err != nil {
					t.Error(err)
				}
				if d.Admitted {
					mu.Lock()
					admitted[i%links]++
					mu.Unlock()
				}
			})
		}
		close(begin)
		made.Wait()
	}
	for i, n := range admitted {
		if n != 100+i {
			t.Errorf("link %d: %d admitted, want %d", i, n, 100+i)
		}
	}
	if n, gets := server.Calls("evalsha"), server.Calls("get"); n >= gets {
		t.Errorf("%d takes were %d scripts: none met another", gets, n)
	}
}

// What is wrong with one key is told to its caller alone.
func TestBatchOfFaultyKeys(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	names := func() []string {
		keys, _ := server.Do("KEYS", "*").AsStrSlice()
		return keys
	}
	takes := several(t, 12, "faulty", "5/366d")
	spoil := map[int]func(string){
		3: func(name string) { server.Do("DEL", name); server.Do("LPUSH", name, "x") },
		7: func(name string) { server.Do("SET", name, "of another format") },
	}
	for i, f := range spoil {
		before := strings.Join(names(), "\n")
		take(t, s, takes[i].q)
		for _, name := range names() {
			if !strings.Contains(before, name) {
				f(name)
			}
		}
	}
	together(s, takes, func() {})
	want := map[int]string{3: "not of our type", 7: "upgrade"}
	for i, a := range takes {
		switch text := want[i]; {
		case text == "" && (a.err != nil || !a.d.Admitted || used(t, s, a.q) != 1):
			t.Errorf("take %d: %v, admitted=%v", i, a.err, a.d.Admitted)
		case text != "" && (!errors.Is(a.err, signpost.ErrSpoilt) || !strings.Contains(a.err.Error(), text)):
			t.Errorf("take %d: %v, want ErrSpoilt and %q", i, a.err, text)
		}
	}
}

// Who leaves a batch takes nobody along, and a server that is full has charged nobody.
func TestBatchThatWaits(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	takes := several(t, 9, "waits", "5/min")
	hasty, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	takes[4].ctx = hasty
	callers := make([]func(), len(takes))
	for i, a := range takes {
		callers[i] = func() {
			a.d, _, a.err = s.Take(a.ctx, a.q)
			if i == 4 {
				close(left)
			}
		}
	}
	var thaw sync.WaitGroup
	redis.TakeTogether(s, callers, func() {
		server.Freeze()
		thaw.Go(func() {
			cancel()
			<-left
			server.Thaw()
		})
	})
	thaw.Wait()
	for i, a := range takes {
		if i == 4 {
			if !errors.Is(a.err, context.Canceled) || errors.Is(a.err, signpost.ErrNotCharged) {
				t.Errorf("take of the caller that left: %v", a.err)
			}
		} else if a.err != nil || !a.d.Admitted {
			t.Errorf("take %d: %v, admitted=%v", i, a.err, a.d.Admitted)
		}
	}

	server.Do("CONFIG", "SET", "maxmemory", "1")
	takes = several(t, 9, "full", "5/366d")
	server.Eventually("the server is reached again", func() bool {
		_, _, err := s.Peek(t.Context(), takes[0].q)
		return err == nil
	})
	together(s, takes, func() {})
	for i, a := range takes {
		if !errors.Is(a.err, signpost.ErrNotCharged) || !strings.Contains(a.err.Error(), "OOM") {
			t.Errorf("take %d of a full server: %v", i, a.err)
		}
	}
	server.Do("CONFIG", "SET", "maxmemory", "0")
	for i, a := range takes {
		if n := used(t, s, a.q); n != 0 {
			t.Errorf("take %d of a full server was charged %d", i, n)
		}
	}
}

// A connection that is lost before a batch has left has each take wait for a new one by itself.
func TestBatchThatCannotLeave(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Options{URL: server.URL()})
	takes := several(t, 9, "stays", "5/min")
	short, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, a := range takes {
		a.ctx = short
	}
	var leave sync.WaitGroup
	together(s, takes, func() {
		server.Freeze()
		redis.Doubt(s)
		leave.Go(func() {
			server.Eventually("all wait by themselves", func() bool { return redis.Inside(s) >= int64(len(takes)) })
			cancel()
		})
	})
	leave.Wait()
	for i, a := range takes {
		if !errors.Is(a.err, signpost.ErrNotCharged) {
			t.Errorf("take %d: %v, want one that was not sent", i, a.err)
		}
	}
	server.Thaw()
	server.Eventually("the takes that were not sent are not there", func() bool {
		d, _, err := s.Peek(t.Context(), takes[0].q)
		return err == nil && d.Windows()[0].Used == 0
	})
}

// A server can be part of a Cluster and not say so. It refuses keys of different slots in one command.
func TestBatchOfSlots(t *testing.T) {
	nodes := redistest.Cluster(t, 1)
	s, err := redis.OpenApart(t.Context(), redis.Options{URL: nodes[0].URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	takes := several(t, 9, "slots", "2/366d")
	together(s, takes, func() {})
	for i, a := range takes {
		if a.err != nil || !a.d.Admitted || used(t, s, a.q) != 1 {
			t.Errorf("take %d: %v, admitted=%v", i, a.err, a.d.Admitted)
		}
	}
	refused := func() bool { return strings.Contains(nodes[0].Text("INFO", "errorstats"), "CROSSSLOT") }
	if !refused() {
		t.Fatal("the server took the batch")
	}
	// It is not asked for that again.
	nodes[0].Forget()
	var made sync.WaitGroup
	for range 30 { // all together fewer than would step back from the pipeline
		for _, a := range takes {
			made.Go(func() { take(t, s, a.q) })
		}
	}
	made.Wait()
	if refused() {
		t.Error("another batch was sent")
	}
}

// Whatever a server answers to a batch that no script of ours does is a failure of the takes that are in it, never a decision.
func TestMalformedRepliesToABatch(t *testing.T) {
	const sound = "$9\r\n\x01\x00\x00\x01\x9b\xc1\xa8\x4c\x00\r\n"
	for name, c := range map[string]struct {
		reply  string
		passes bool // for the take in the middle
	}{
		"sound":                {"*4\r\n" + strings.Repeat(sound, 4), true},
		"nil":                  {"$-1\r\n", false},
		"a status":             {"+OK\r\n", false},
		"one reply for all":    {sound, false},
		"none":                 {"*0\r\n", false},
		"one too few":          {"*3\r\n" + strings.Repeat(sound, 3), false},
		"one too many":         {"*5\r\n" + strings.Repeat(sound, 5), false},
		"a list in it":         {"*4\r\n" + sound + sound + "*1\r\n" + sound + sound, false},
		"a number in it":       {"*4\r\n" + sound + sound + ":1\r\n" + sound, false},
		"nil in it":            {"*4\r\n" + sound + sound + "$-1\r\n" + sound, false},
		"an error in it":       {"*4\r\n" + sound + sound + "-ERR broken\r\n" + sound, false},
		"an error of the rest": {"*4\r\n-ERR broken\r\n-ERR broken\r\n" + sound + sound, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, redis.Options{URL: fake(t, c.reply)})
			takes := several(t, 3, "malformed", "5/min")
			together(s, takes, func() {})
			if a := takes[1]; (a.err == nil) != c.passes || a.d.Admitted != c.passes {
				t.Errorf("admitted=%v, error %v", a.d.Admitted, a.err)
			}
		})
	}
}
