// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/redis"
)

// A caller that goes away says nothing of the server: takes of others are still one round trip.
func TestCancelledCallersCostOthersNothing(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	s := open(t, redis.Options{URL: proxy.URL()})
	take(t, s, request("warm", "5/366d"))
	server.Forget()
	for i, expensive := range []bool{false, true} {
		server.Freeze()
		ctx, cancel := context.WithCancel(t.Context())
		q := request(fmt.Sprint("leaves ", i), "5/366d 5 concurrent")
		q.Expensive, q.LeaseID = expensive, signpost.NewLeaseID()
		before := proxy.Reached("EVALSHA")
		go func() {
			server.Eventually("the take is with the server", func() bool { return proxy.Reached("EVALSHA") > before })
			cancel()
		}()
		if _, _, err := s.Take(ctx, q); !errors.Is(err, context.Canceled) || errors.Is(err, signpost.ErrNotCharged) {
			t.Errorf("take of a caller that left: error %v, want its own, and that it may have been charged", err)
		}
		server.Thaw()
		// Who is gone before is not even sent.
		if _, _, err := s.Take(ctx, q); !errors.Is(err, context.Canceled) || !errors.Is(err, signpost.ErrNotCharged) {
			t.Errorf("take of a caller that had left: error %v, want its own, and that nothing was charged", err)
		}
		if n := used(t, s, q); n != 1 {
			t.Errorf("%d used, want the one that was sent", n)
		}
	}
	if n := server.Calls("exists"); n != 0 {
		t.Errorf("the server was asked %d times whether it is there", n)
	}
}

// What callers that go away have sent is bounded, however many they are: a pipeline that is full has no eye on anybody's context.
func TestCancelledCallersAreBounded(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	s := open(t, redis.Options{URL: proxy.URL()})
	q := request("leaves", "1000000/366d 1000 concurrent")
	q.Expensive = true // so that each take is a command
	take(t, s, q)
	before := proxy.Reached("EVALSHA")
	server.Freeze()
	const callers, rounds = 100, 20
	var sent sync.WaitGroup
	var held atomic.Int64
	leave := func() {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Millisecond, cancel)
		q := q
		q.LeaseID = signpost.NewLeaseID()
		began := time.Now()
		if _, _, err := s.Take(ctx, q); err == nil {
			t.Error("a server that is frozen has answered")
		}
		if time.Since(began) > time.Second {
			held.Add(1)
		}
	}
	for range callers {
		sent.Go(func() {
			for range rounds {
				leave()
			}
		})
	}
	sent.Wait()
	server.Thaw()
	after := 0
	server.Eventually("the server answers", func() bool {
		after++
		last := q
		last.LeaseID = signpost.NewLeaseID()
		_, _, err := s.Take(t.Context(), last)
		return err == nil
	})
	if n := proxy.Reached("EVALSHA") - before - after; n > 256+callers || n == 0 {
		t.Errorf("%d of %d takes were sent to a server that did not answer, want 256 and those under way at most", n, callers*rounds)
	}
	// One who is held is held each time, and a machine that stands still holds all of them once.
	if n := held.Load(); n > callers*rounds/2 {
		t.Errorf("%d callers that went away were held for a second", n)
	}
	// Now that it has answered, one more that goes away is nothing.
	server.Forget()
	server.Freeze()
	leave()
	server.Thaw()
	take(t, s, q)
	if n := server.Calls("exists"); n != 0 {
		t.Errorf("the server was asked %d times whether it is there", n)
	}
}

// What was sent may have been charged, also if the server was first asked whether it is there.
func TestSentAndNotAnswered(t *testing.T) {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		ctx, cancel := context.WithCancel(t.Context())
		silent := make(chan struct{})
		var opened atomic.Bool
		s := open(t, redis.Options{URL: fakeOf(t, func(int) string {
			if opened.Load() {
				cancel() // as the take is here
				<-silent
			}
			return "+OK\r\n"
		})})
		t.Cleanup(func() { close(silent) })
		opened.Store(true)
		redis.Doubt(s)
		if _, _, err := s.Take(ending{ctx, end}, request("sent", "5/min")); !errors.Is(err, end) || errors.Is(err, signpost.ErrNotCharged) {
			t.Errorf("take: %v, want %v, and that it may have been charged", err, end)
		}
	}
}

// ending is a context that ends for a reason of its own.
type ending struct {
	context.Context
	why error
}

func (e ending) Err() error {
	if e.Context.Err() == nil {
		return nil
	}
	return e.why
}

// A script that may not do all that it does can have charged before it meets that.
func TestTurnedAwayWithinAScript(t *testing.T) {
	server := redistest.Start(t, "--user", "signpost", "on", ">secret", "~*", "+@all")
	s := open(t, redis.Options{URL: "redis://signpost:secret@" + server.Addr})
	q := request("within", "5/366d 5 concurrent")
	server.Do("ACL", "SETUSER", "signpost", "-zadd")
	expensive := q
	expensive.Expensive, expensive.LeaseID = true, signpost.NewLeaseID()
	_, _, err := s.Take(t.Context(), expensive)
	if n := used(t, s, q); n != 1 || !errors.Is(err, signpost.ErrStoreAuth) || errors.Is(err, signpost.ErrNotCharged) {
		t.Errorf("take: error %v with %d used; want ErrStoreAuth, and that it may have been charged, as it was", err, n)
	}
}

// An answer that comes as its connection ends says nothing of the next one.
func TestAnswerOfAConnectionThatEnds(t *testing.T) {
	if !redis.CalmAfter(false) || redis.CalmAfter(true) {
		t.Errorf("calm after an answer: %v, want true; as the connection ended: %v, want false", redis.CalmAfter(false), redis.CalmAfter(true))
	}
}

// A connection that ends while nobody uses it is not made anew by a caller, for whom all others would have to wait.
func TestDeadlineAfterTheConnectionEnded(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr)
	s := open(t, redis.Options{URL: proxy.URL()})
	q := request("ended", "1000/366d 1000 concurrent")
	q.Expensive = true // so that it waits in no batch
	take(t, s, q)
	proxy.Lose(true)
	proxy.Cut()
	server.Eventually("the end is noticed", func() bool { return !redis.Calm(s) })
	// A machine that stands still lets the patient caller go before the other one is looked at. It does so not every time.
	for range 10 {
		patient := make(chan struct{})
		go func() {
			defer close(patient)
			s.Take(t.Context(), q)
		}()
		gone := func() bool {
			select {
			case <-patient:
				return true
			default:
				return false
			}
		}
		server.Eventually("the patient caller is first", func() bool { return redis.Inside(s) > 0 || gone() })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		_, _, err := s.Take(ctx, q)
		cancel()
		waited := gone()
		<-patient
		if waited {
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, signpost.ErrNotCharged) {
			t.Errorf("take: error %v, want that the deadline passed before it was sent", err)
		}
		return
	}
	t.Error("a caller that had 30ms waited for the connection of another")
}
