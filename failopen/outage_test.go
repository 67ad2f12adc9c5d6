// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
)

func TestProbesAndHealing(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(dead)
		begin := time.Now()
		b.wantTake(cheap("a"), true, true)
		time.Sleep(10*time.Second + 50*time.Millisecond)
		var want []time.Duration
		for at := 100 * time.Millisecond; at <= 10*time.Second; at += 100 * time.Millisecond {
			want = append(want, at)
		}
		var got []time.Duration
		for _, c := range b.inner.probes() {
			got = append(got, c.at.Sub(begin))
		}
		if !reflect.DeepEqual(got, want) {
			b.Errorf("probes at %v, want one each 100ms", got)
		}
		b.wantTake(cheap("a"), true, true)

		b.inner.breaks(nil)
		time.Sleep(49 * time.Millisecond)
		b.wantTake(cheap("a"), true, true)
		time.Sleep(time.Millisecond) // the instant of the next probe
		synctest.Wait()
		b.wantTake(cheap("a"), true, false)
		if log, want := b.events.all(), []string{"degraded  other", "healed "}; !reflect.DeepEqual(log, want) {
			b.Errorf("events %q, want %q", log, want)
		}
		if b.events.outage != 10100*time.Millisecond || b.events.failures(failopen.Other) != 101 {
			b.Errorf("an outage of %v with %d failures, want 10.1s with the first take's and 100 probes'", b.events.outage, b.events.failures(failopen.Other))
		}
		time.Sleep(time.Second)
		if n := len(b.inner.probes()); n != 101 {
			b.Errorf("%d probes, want none after the one that passed", n)
		}
	})
}

// A server that answers but cannot write fails the probe, as it fails the takes.
func TestProbeIsARealTake(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(func(_ context.Context, c called) error {
			if c.op == "take" {
				return errors.New("READONLY")
			}
			return nil
		})
		b.wantTake(cheap("a"), true, true)
		time.Sleep(time.Second)
		b.wantTake(cheap("a"), true, true)
		b.inner.breaks(nil)
		b.inner.lies(func(d *signpost.Decision) { d.Windows()[0].Limit-- })
		time.Sleep(time.Second)
		b.wantTake(cheap("a"), true, true)
	})
}

// One probe is inside at a time, and nobody else goes in, even when 1,000 ask at the instant of the probe.
func TestStampede(t *testing.T) {
	for name, broken := range map[string]func(context.Context, called) error{"blackhole": blackhole, "dead": dead} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, failopen.Options{}, func(b *bench) {
				b.inner.breaks(broken)
				b.take(cheap("first"))
				sent := len(b.inner.seen("take"))
				for range 12 {
					time.Sleep(100 * time.Millisecond)
					var wg sync.WaitGroup
					begin := time.Now()
					for n := range 1000 {
						wg.Go(func() {
							if d := b.take(cheap(fmt.Sprint(n % 10))); !d.Degraded {
								b.Error("a take passed")
							}
						})
					}
					wg.Wait()
					if took := time.Since(begin); took != 0 {
						b.Fatalf("1,000 takes waited %v", took)
					}
					if n := b.inner.insideNow(); n > 1 {
						b.Fatalf("%d calls are inside, want one probe at most", n)
					}
				}
				if n := len(b.inner.seen("take")); n != sent {
					b.Errorf("%d takes were sent to a degraded store", n-sent)
				}
				probes := b.inner.probes()
				if len(probes) < 2 {
					b.Errorf("%d probes", len(probes))
				}
				for i := 1; i < len(probes); i++ {
					if gap := probes[i].at.Sub(probes[i-1].at); gap < failopen.ProbeEvery {
						b.Errorf("two probes within %v", gap)
					}
				}
			})
		})
	}
}

// A probe that the store does not return from is the only one. When it does return, too late, that is no sign of health;
// the next one is.
func TestFrozenProbe(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		thaw := make(chan struct{})
		b.inner.breaks(frozen(thaw))
		b.take(cheap("a"))
		time.Sleep(time.Minute)
		if n := len(b.inner.probes()); n != 1 {
			b.Errorf("%d probes of a frozen store, want 1", n)
		}
		if n := b.inner.insideNow(); n != 2 {
			b.Errorf("%d calls are stuck, want the first take and the probe", n)
		}
		close(thaw)
		synctest.Wait()
		b.wantTake(cheap("a"), true, true)
		time.Sleep(failopen.ProbeEvery)
		synctest.Wait()
		b.wantTake(cheap("a"), true, false)
		if n := len(b.inner.probes()); n != 2 {
			b.Errorf("%d probes, want 2", n)
		}
	})
}

// Recovery is a matter of the probe's timeout, whatever became of the packets.
func TestHealsAfterABlackhole(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(blackhole)
		b.take(cheap("a"))
		time.Sleep(30*time.Second + 3*time.Millisecond)
		b.inner.breaks(nil)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		b.wantTake(cheap("a"), true, false)
	})
}

// What began in an older period says nothing of this one.
func TestLateFailureOfAnOlderPeriod(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		old := make(chan struct{})
		b.inner.breaks(func(_ context.Context, c called) error {
			if c.key == cheap("old").Key {
				<-old
			}
			return errDead
		})
		var wg sync.WaitGroup
		wg.Go(func() { b.wantTake(cheap("old"), true, true) })
		synctest.Wait()
		b.wantTake(cheap("a"), true, true) // degrades
		wg.Wait()
		b.inner.breaks(nil)
		time.Sleep(failopen.ProbeEvery)
		synctest.Wait()
		b.wantTake(cheap("a"), true, false)
		close(old)
		synctest.Wait()
		b.wantTake(cheap("a"), true, false)
		if log := b.events.all(); len(log) != 2 {
			b.Errorf("events %q, want one outage", log)
		}
	})
}

func TestFlappingEarnsNothing(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		admitted := 0
		for range 20 {
			b.inner.breaks(dead)
			for range 10 {
				if b.take(cheap("a")).Admitted {
					admitted++
				}
			}
			b.inner.breaks(nil)
			time.Sleep(failopen.ProbeEvery)
			synctest.Wait()
			for range 10 {
				if b.take(cheap("a")).Admitted {
					admitted++
				}
			}
		}
		if admitted > 10 {
			b.Errorf("%d admitted of 5 a minute, want at most twice that", admitted)
		}
	})
}

// byFirstByte makes two slices, by the first bit of the tag.
func byFirstBit(k signpost.Key) string {
	if tag := k.Tag(); tag[0] < 128 {
		return "low"
	}
	return "high"
}

// keysIn returns requests for two keys, one in each slice.
func keysIn() (low, high signpost.Request) {
	for n := 0; low.Key.IsZero() || high.Key.IsZero(); n++ {
		if q := cheap(fmt.Sprint(n)); byFirstBit(q.Key) == "low" {
			low = q
		} else {
			high = q
		}
	}
	return low, high
}

func TestSlicesAreIndependent(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		low, high := keysIn()
		b.inner.slice = byFirstBit
		lowIs := func(f func(context.Context, called) error) func(context.Context, called) error {
			return func(ctx context.Context, c called) error {
				if byFirstBit(c.key) == "low" {
					return f(ctx, c)
				}
				return nil
			}
		}
		b.inner.breaks(lowIs(blackhole))
		var wg sync.WaitGroup
		wg.Go(func() { b.wantTake(low, true, true) })
		time.Sleep(500 * time.Millisecond)
		b.wantInstant(func() { b.wantTake(high, true, false) })
		wg.Wait()
		b.inner.breaks(lowIs(dead))
		time.Sleep(3 * time.Second)
		b.wantInstant(func() {
			b.wantTake(low, true, true)
			b.wantTake(high, true, false)
		})
		for _, c := range b.inner.probes() {
			if byFirstBit(c.key) != "low" {
				b.Error("a probe went to the slice that is healthy")
			}
		}
		if got := b.store.Slice(low.Key) + b.store.Slice(high.Key); got != "lowhigh" {
			b.Errorf("slices %q", got)
		}
		b.waitHealed()
		b.wantTake(low, true, false)
		if log, want := b.events.all(), []string{"degraded low timeout", "healed low"}; !reflect.DeepEqual(log, want) {
			b.Errorf("events %q, want %q", log, want)
		}
	})
}

// One take of one key is enough to know where to probe.
func TestProbeGoesToTheSliceThatFailed(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		low, high := keysIn()
		b.inner.slice = byFirstBit
		b.inner.breaks(dead)
		b.take(low)
		b.take(high)
		time.Sleep(failopen.ProbeEvery)
		synctest.Wait()
		probed := map[string]int{}
		for _, c := range b.inner.probes() {
			probed[byFirstBit(c.key)]++
		}
		if probed["low"] != 1 || probed["high"] != 1 {
			b.Errorf("probes %v, want one of each slice", probed)
		}
	})
}

// A cluster's map changes while a node is away: its keys have a new owner, and there is nothing left to probe.
func TestMovedSlice(t *testing.T) {
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.slice = func(signpost.Key) string { return "old" }
		b.inner.breaks(dead)
		b.wantTake(cheap("a"), true, true)
		b.wantTake(cheap("a"), true, true) // this one is owed
		b.inner.mu.Lock()
		b.inner.slice = func(signpost.Key) string { return "new" }
		b.inner.mu.Unlock()
		b.inner.breaks(func(_ context.Context, c called) error {
			if c.isProbe() {
				b.Errorf("a probe of %q", b.inner.Slice(c.key))
			}
			return nil
		})
		b.wantTake(cheap("a"), true, false)
		b.wantUsed(cheap("a"), 2)
		time.Sleep(failopen.ProbeEvery)
		synctest.Wait()
		if log, want := b.events.all(), []string{"degraded old other", "healed old"}; !reflect.DeepEqual(log, want) {
			b.Errorf("events %q, want %q", log, want)
		}
	})
}

// A store that has a name for every key is bounded as well: what is beyond is one slice.
func TestVeryManySlices(t *testing.T) {
	inBubble(t, failopen.Options{FallbackKeys: 5000}, func(b *bench) {
		b.inner.slice = func(k signpost.Key) string { return fmt.Sprintf("%x", k.Tag()) }
		for n := range 1100 {
			b.wantTake(cheap(fmt.Sprint("healthy", n)), true, false)
		}
		b.inner.breaks(dead)
		for n := range 1100 {
			b.wantTake(cheap(fmt.Sprint("dead", n)), true, true)
		}
		degraded := b.events.all()
		if n := len(degraded); n != 1025 || !slices.Contains(degraded, "degraded  other") {
			b.Errorf("%d slices degraded, want 1,024 and the one that the others share", n)
		}
		b.waitHealed()
		for n := range 1100 {
			b.wantTake(cheap(fmt.Sprint("dead", n)), true, false)
		}
	})
}

// The number of calls inside is bounded before any of them has timed out.
func TestCrowd(t *testing.T) {
	inBubble(t, failopen.Options{FallbackKeys: 100_000}, func(b *bench) {
		low, high := keysIn()
		b.inner.slice = byFirstBit
		thaw := make(chan struct{})
		b.inner.breaks(func(_ context.Context, c called) error {
			if byFirstBit(c.key) == "low" {
				<-thaw
			}
			return nil
		})
		var wg sync.WaitGroup
		for range failopen.MaxCalls {
			wg.Go(func() { b.take(low) })
		}
		synctest.Wait()
		if log := b.events.all(); len(log) != 0 {
			b.Fatalf("degraded too soon: %q", log)
		}
		b.wantInstant(func() {
			b.take(low)
			wg.Wait()
			b.wantTake(high, true, false)
		})
		if n := b.inner.insideNow(); n != failopen.MaxCalls {
			b.Errorf("%d calls are inside, want %d", n, failopen.MaxCalls)
		}
		close(thaw)
		synctest.Wait()
	})
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		err  error
		want failopen.Kind
	}{
		{context.DeadlineExceeded, failopen.Timeout},
		{os.ErrDeadlineExceeded, failopen.Timeout},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, failopen.Timeout},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, failopen.Connection},
		{&net.DNSError{Err: "no such host"}, failopen.Connection},
		{syscall.ECONNRESET, failopen.Connection},
		{syscall.EPIPE, failopen.Connection},
		{io.EOF, failopen.Connection},
		{io.ErrUnexpectedEOF, failopen.Connection},
		{net.ErrClosed, failopen.Connection},
		{signpost.ErrUnreachable, failopen.Connection},
		{signpost.ErrStoreAuth, failopen.Auth},
		{errors.Join(io.EOF, signpost.ErrStoreAuth), failopen.Auth},
		{errors.New("OOM command not allowed"), failopen.Other},
	} {
		inBubble(t, failopen.Options{}, func(b *bench) {
			b.inner.breaks(func(context.Context, called) error { return fmt.Errorf("take: %w", c.err) })
			b.wantTake(cheap("a"), true, true)
			if log := b.events.all(); !slices.Equal(log, []string{"degraded  " + string(c.want)}) {
				b.Errorf("%v: events %q, want kind %s", c.err, log, c.want)
			}
			if b.events.failures(c.want) != 1 {
				b.Errorf("%v: failures %v", c.err, b.events.failed)
			}
		})
	}
}

// A home that the store does not know, or what it cannot read of a key, is no outage, as there is nothing that would heal: each call for it is
// told of and decided here.
func TestFaultsOfAKey(t *testing.T) {
	for kind, fault := range map[failopen.Kind]error{failopen.Home: signpost.ErrUnknownHome, failopen.Spoilt: signpost.ErrSpoilt} {
		inBubble(t, failopen.Options{}, func(b *bench) {
			b.inner.breaks(func(_ context.Context, c called) error {
				if c.key == cheap("a").Key {
					return fmt.Errorf("%w: mars", fault)
				}
				return nil
			})
			for range 5 {
				b.wantTake(cheap("a"), true, true)
			}
			b.wantTake(cheap("a"), false, true)
			b.wantTake(cheap("b"), true, false)
			if _, err := b.store.Inspect(b.Context(), cheap("a").Key, 0); !errors.Is(err, failopen.ErrDegraded) || !errors.Is(err, fault) {
				b.Errorf("inspect: error %v, want why the store cannot tell", err)
			}
			time.Sleep(time.Second)
			if probes, told := len(b.inner.probes()), b.events.failures(kind); probes != 0 || told != 7 {
				b.Errorf("%s: %d probes, and told of %d calls; want none, and the 7 that there were", kind, probes, told)
			}
			b.inner.breaks(nil)
			b.wantTake(cheap("a"), true, false)
			b.wantUsed(cheap("a"), 1) // nothing was owed
			if log := b.events.all(); len(log) != 0 {
				b.Errorf("events %q, want none", log)
			}
		})
	}
	// A store that was too slow has answered when it says so.
	inBubble(t, failopen.Options{}, func(b *bench) {
		b.inner.breaks(blackhole)
		b.wantTake(cheap("a"), true, true)
		b.inner.breaks(func(context.Context, called) error { return signpost.ErrUnknownHome })
		time.Sleep(2 * time.Second) // the rest of a probe that was lost, and the next
		if log := b.events.all(); !slices.Equal(log, []string{"degraded  timeout", "healed "}) {
			b.Errorf("events %q, want an outage that has ended", log)
		}
	})
}

// A panic of the store is told with where it was.
func TestPanicIsReported(t *testing.T) {
	causes := make(chan error, 1)
	s, err := failopen.New(panicking{newInner()}, failopen.Options{Timeout: time.Minute, Hooks: failopen.Hooks{
		Degraded: func(_ string, _ failopen.Kind, err error) { causes <- err },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d, _, err := s.Take(t.Context(), cheap("a")); err != nil || !d.Admitted || !d.Degraded {
		t.Errorf("take: %+v, %v", d, err)
	}
	if text := fmt.Sprint(<-causes); !strings.Contains(text, "broken invariant") || !strings.Contains(text, "panicking.Take") {
		t.Errorf("cause %q does not say what panicked and where", text)
	}
	s.Release(signpost.Lease{Key: cheap("a").Key, ID: signpost.NewLeaseID()})
}

type panicking struct{ *inner }

func (panicking) Take(context.Context, signpost.Request) (signpost.Decision, signpost.Commit, error) {
	panic("broken invariant")
}
func (panicking) Release(signpost.Lease) { panic("broken invariant") }
