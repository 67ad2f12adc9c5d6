// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package httpdoor_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
)

// running starts a request of expensive work in the bubble. The work lasts until end is called.
func running(t *testing.T, s *store) (end func()) {
	t.Helper()
	done, finish := make(chan struct{}), make(chan struct{})
	door := wrap(t, s, httpdoor.Options{Identify: caller("9/min 1 concurrent"), Classify: allExpensive}, func(http.ResponseWriter, *http.Request) { <-finish })
	go func() {
		defer close(done)
		if w := record(door, get()); w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}()
	synctest.Wait()
	return func() {
		close(finish)
		<-done
	}
}

func alive(t *testing.T, s *store) int {
	t.Helper()
	in, err := s.Inspect(t.Context(), testKey, signpost.InstantOf(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	return len(in.Leases)
}

func (s *store) renewals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewed
}

// bubbleStore is a store by the bubble's clock.
func bubbleStore() *store {
	s := newStore()
	s.at = 0
	return s
}

func TestLeaseIsRenewedWhileTheWorkRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bubbleStore()
		end := running(t, s)
		for range 9 * 60 {
			time.Sleep(time.Second)
			if alive(t, s) != 1 {
				t.Fatalf("the lease ended while the work ran, after %d renewals", s.renewals())
			}
		}
		synctest.Wait() // a renewal of this instant is not under way any more
		if s.releases() != 0 {
			t.Error("it was released while the work ran")
		}
		end()
		if alive(t, s) != 0 || s.releases() != 1 {
			t.Errorf("%d alive after %d releases", alive(t, s), s.releases())
		}
		before := s.renewals()
		time.Sleep(time.Hour)
		if s.renewals() != before || s.releases() != 1 {
			t.Errorf("after the end: %d renewals, %d releases", s.renewals()-before, s.releases())
		}
	})
}

func TestLeaseEndsAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bubbleStore()
		end := running(t, s)
		time.Sleep(10*time.Minute + 29*time.Second)
		if alive(t, s) != 1 {
			t.Error("the lease ended too early")
		}
		time.Sleep(2 * time.Second)
		if alive(t, s) != 0 {
			t.Error("the lease is renewed for ever")
		}
		second := running(t, s) // the slot is free, though the first still works
		end()
		if alive(t, s) != 1 {
			t.Error("the end of the first took the lease of the second")
		}
		second()
	})
}

// Failures that may pass are tried through; the others end it.
func TestRenewalFails(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int // renewals in a minute
	}{
		{errors.New("timed out"), 6},
		{signpost.ErrLeaseGone, 1},
		{errors.ErrUnsupported, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := bubbleStore()
			s.renew = func(signpost.Lease) (signpost.Lease, error) { return signpost.Lease{}, c.err }
			end := running(t, s)
			time.Sleep(time.Minute + time.Second)
			if got := s.renewals(); got != c.want {
				t.Errorf("%v: %d renewals in a minute, want %d", c.err, got, c.want)
			}
			end()
			if s.releases() != 1 {
				t.Errorf("%v: %d releases", c.err, s.releases())
			}
		})
	}
}

// The lease is given back with no lock of the door's held: the limiter may wait for locks of its own.
func TestReleaseHoldsNoLock(t *testing.T) {
	for _, c := range []struct {
		name          string
		duringRenewal bool
	}{{"at the end of the work", false}, {"after a renewal", true}} {
		t.Run(c.name, func(t *testing.T) {
			tooLong := time.After(10 * time.Second) // not of the bubble, whose time stands still while a lock is waited for
			synctest.Test(t, func(t *testing.T) {
				s := bubbleStore()
				answer := make(chan struct{})
				s.renew = func(l signpost.Lease) (signpost.Lease, error) { <-answer; return l, nil }
				var conn net.Conn
				door := wrap(t, s, httpdoor.Options{Identify: caller("9/min"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) {
					conn, _, _ = w.(http.Hijacker).Hijack()
				})
				door.ServeHTTP(newSpy(), get())
				again := make(chan struct{})
				s.release = func() { // whoever ends it a second time does not wait for the first
					go func() { conn.Close(); close(again) }()
					select {
					case <-again:
					case <-tooLong:
						t.Error("it waits for the lock that the first holds")
					}
				}
				if c.duringRenewal {
					time.Sleep(11 * time.Second)
					conn.Close()
					close(answer)
				} else {
					conn.Close()
				}
				<-again
				synctest.Wait()
				if s.releases() != 1 {
					t.Errorf("%d releases", s.releases())
				}
			})
		})
	}
}

// The work ends while a renewal is under way, which comes back with a lease of another place.
func TestEndDuringRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bubbleStore()
		answer := make(chan struct{})
		s.renew = func(l signpost.Lease) (signpost.Lease, error) {
			<-answer
			l.ID[0]++
			return l, nil
		}
		end := running(t, s)
		time.Sleep(11 * time.Second)
		end() // and does not wait for the renewal
		if s.releases() != 0 {
			t.Fatal("released before it is known what there is to release")
		}
		close(answer)
		synctest.Wait()
		s.set(func(s *store) {
			want := s.taken[0].LeaseID
			want[0]++
			if len(s.released) != 1 || s.released[0] != want {
				t.Errorf("released %x, want %x once", s.released, want)
			}
		})
		time.Sleep(time.Hour)
		if s.renewals() != 1 {
			t.Errorf("%d renewals", s.renewals())
		}
	})
}

// A connection that nobody closes keeps its slot for no longer than other work.
func TestForgottenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bubbleStore()
		var conn net.Conn
		door := wrap(t, s, httpdoor.Options{Identify: caller("9/min 1 concurrent"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ = w.(http.Hijacker).Hijack()
		})
		door.ServeHTTP(newSpy(), get())
		time.Sleep(9 * time.Minute)
		if alive(t, s) != 1 {
			t.Error("the lease ended while the connection was open")
		}
		time.Sleep(2 * time.Minute)
		if alive(t, s) != 0 {
			t.Error("the lease is renewed for ever")
		}
		conn.Close()
		conn.Close()
		if s.releases() != 1 {
			t.Errorf("%d releases", s.releases())
		}
	})
}

// A panic after a hijack leaves the connection, and the lease with it, to whoever has it.
func TestPanicAfterHijack(t *testing.T) {
	s := newStore()
	var conn net.Conn
	door := wrap(t, s, httpdoor.Options{Identify: caller("9/min"), Classify: allExpensive}, func(w http.ResponseWriter, r *http.Request) {
		conn, _, _ = w.(http.Hijacker).Hijack()
		panic("boom")
	})
	if got := panicOf(func() { door.ServeHTTP(newSpy(), get()) }); got != "boom" || s.releases() != 0 {
		t.Errorf("%v, %d releases", got, s.releases())
	}
	conn.Close()
	if s.releases() != 1 {
		t.Errorf("%d releases", s.releases())
	}
}

// The answer of a take was lost: whatever it granted goes back.
func TestLostTake(t *testing.T) {
	s := newStore()
	s.err = errors.New("connection reset")
	door := wrap(t, s, httpdoor.Options{Identify: caller("9/min"), Classify: allExpensive}, hello)
	if got := record(door, get()).Code; got != 503 {
		t.Errorf("%d, want 503", got)
	}
	s.set(func(s *store) {
		if len(s.released) != 1 || s.released[0] != s.taken[0].LeaseID {
			t.Errorf("took %x, released %x", s.taken[0].LeaseID, s.released)
		}
	})
	cheap := wrap(t, s, httpdoor.Options{Identify: caller("9/min")}, hello)
	record(cheap, get())
	if s.releases() != 1 {
		t.Error("released a lease that cheap work never had")
	}
}

func TestClientGoneBeforeTheDecision(t *testing.T) {
	s := newStore()
	s.err = context.Canceled
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, identify := range []func(*http.Request) (httpdoor.Caller, error){
		caller("9/min"),
		func(r *http.Request) (httpdoor.Caller, error) { return httpdoor.Caller{}, r.Context().Err() },
	} {
		w, outcome := newSpy(), httpdoor.Outcome("")
		door := wrap(t, s, httpdoor.Options{Identify: identify, Observe: func(e httpdoor.Event) { outcome = e.Outcome }}, hello)
		if got := panicOf(func() { door.ServeHTTP(w, get().WithContext(ctx)) }); got != http.ErrAbortHandler || w.seen() != "nothing" || outcome != httpdoor.Aborted {
			t.Errorf("ended with %v after %s, observed %s", got, w.seen(), outcome)
		}
	}
}

// A refusal holds nothing, and neither does cheap work.
func TestNothingToRelease(t *testing.T) {
	s := newStore()
	record(wrap(t, s, httpdoor.Options{Identify: caller("0/min"), Classify: allExpensive}, hello), get())
	record(wrap(t, s, httpdoor.Options{Identify: caller("9/min")}, hello), get())
	if s.releases() != 0 || s.renewals() != 0 {
		t.Errorf("%d releases, %d renewals", s.releases(), s.renewals())
	}
}

// The slot is free again before the answer has left: the client can come back at once.
func TestReleasedBeforeTheAnswerEnds(t *testing.T) {
	s := newStore()
	server := serve(t, wrap(t, s, httpdoor.Options{Identify: caller("1000/min 1 concurrent"), Classify: allExpensive}, hello), false)
	for i := range 50 {
		if res, _ := do(t, server, request(t, "GET", server.URL, nil)); res.StatusCode != 200 {
			t.Fatalf("request %d: %d", i, res.StatusCode)
		}
	}
}
