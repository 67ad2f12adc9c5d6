// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/redis"
)

// Shared is one subject of the measurement on a Redis server.
type Shared struct {
	Name string
	// Package is the module that is measured, whose version the report quotes; empty for our own.
	Package string
	How     string
	Rival   bool
	// Hot says that all callers share one key.
	Hot bool
	// Open connects to a server. A take of a floor decides nothing and is always admitted.
	Open func(addr string) (take Take, closeIt func(), err error)
}

// The names of the rows that the report compares.
const (
	SharedEvalsha  = "trivial EVALSHA, rueidis"
	SharedWrite    = "EVALSHA of one SET, rueidis"
	SharedSignpost = "signpost"
)

// SharedSubjects returns every subject, the floors first. Rivals hold a window each, and are asked once a window.
func SharedSubjects() []Shared {
	return []Shared{
		{Name: "PING, rueidis", How: "a floor: one round trip that does nothing", Open: openFloor(func(c rueidis.Client) rueidis.Completed { return c.B().Ping().Build() })},
		{Name: SharedEvalsha, How: "a floor: a script that returns 1", Open: openEvalsha("return 1")},
		{Name: SharedWrite, How: "a floor: a script that sets 27 bytes, as two windows take, and an expiry", Open: openEvalsha("return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])", strings.Repeat("v", 27), "3660000")},
		{Name: SharedSignpost, How: "one take of two windows", Open: openShared(false)},
		{Name: "signpost, one hot key", How: "the same, all callers on one key", Hot: true, Open: openShared(false)},
		{Name: "signpost, expensive + release", How: "the same with the concurrency bound, a lease and its release in the background", Open: openShared(true)},
		{Name: "redis_rate", Package: "github.com/go-redis/redis_rate/v10", How: "GCRA, a call a window, go-redis", Rival: true, Open: openRedisRate},
		{Name: "ulule/limiter", Package: "github.com/ulule/limiter/v3", How: "fixed window, a call a window, go-redis", Rival: true, Open: openUluleRedis},
		{Name: "throttled", Package: "github.com/throttled/throttled/v2", How: "GCRA by compare-and-swap, a call a window, go-redis", Rival: true, Open: openThrottledRedis},
	}
}

// FindShared returns the subject of that name.
func FindShared(name string) (Shared, error) {
	for _, s := range SharedSubjects() {
		if s.Name == name {
			return s, nil
		}
	}
	return Shared{}, fmt.Errorf("find shared subject: there is none called %q", name)
}

// client returns rueidis as the store sets it up.
func client(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true, PipelineMultiplex: -1, AlwaysPipelining: true,
	})
}

func openFloor(command func(rueidis.Client) rueidis.Completed) func(string) (Take, func(), error) {
	return func(addr string) (Take, func(), error) {
		c, err := client(addr)
		if err != nil {
			return nil, nil, err
		}
		return func(*Caller) bool { return c.Do(context.Background(), command(c)).Error() == nil }, c.Close, nil
	}
}

func openEvalsha(script string, args ...string) func(string) (Take, func(), error) {
	return func(addr string) (Take, func(), error) {
		c, err := client(addr)
		if err != nil {
			return nil, nil, err
		}
		ctx := context.Background()
		sha, err := c.Do(ctx, c.B().ScriptLoad().Script(script).Build()).ToString()
		if err != nil {
			c.Close()
			return nil, nil, err
		}
		return func(who *Caller) bool {
			return c.Do(ctx, c.B().Evalsha().Sha1(sha).Numkeys(1).Key(who.ID).Arg(args...).Build()).Error() == nil
		}, c.Close, nil
	}
}

func openShared(expensive bool) func(string) (Take, func(), error) {
	return func(addr string) (Take, func(), error) {
		ctx := context.Background()
		s, err := redis.Open(ctx, redis.Options{URL: "redis://" + addr})
		if err != nil {
			return nil, nil, err
		}
		bound, err := signpost.NewBound(signpost.MaxConcurrent, Windows(2, admitLimit)...)
		if err != nil {
			return nil, nil, err
		}
		limiter := signpost.New(s, signpost.Options{})
		take := func(c *Caller) bool {
			d, err := limiter.Take(ctx, signpost.Request{Key: c.Key, Bound: bound, Expensive: expensive})
			limiter.Release(d.Lease)
			return err == nil && d.Admitted
		}
		return take, func() { s.Close() }, nil
	}
}

func goRedis(addr string) *goredis.Client { return goredis.NewClient(&goredis.Options{Addr: addr}) }

func openRedisRate(addr string) (Take, func(), error) {
	c := goRedis(addr)
	l, ctx := redis_rate.NewLimiter(c), context.Background()
	take := each(Windows(2, admitLimit), func(w signpost.Window) Take {
		limit, prefix := redis_rate.Limit{Rate: int(w.Limit), Burst: int(w.Limit), Period: w.Len}, w.Name()+":"
		return func(who *Caller) bool {
			r, err := l.Allow(ctx, prefix+who.ID, limit)
			return err == nil && r.Allowed > 0
		}
	})
	return take, func() { c.Close() }, nil
}

func openUluleRedis(addr string) (Take, func(), error) {
	c := goRedis(addr)
	var faults []error
	take := each(Windows(2, admitLimit), func(w signpost.Window) Take {
		store, err := ululeredis.NewStoreWithOptions(c, ulule.StoreOptions{Prefix: w.Name()})
		if err != nil {
			faults = append(faults, err)
			return nil
		}
		l, ctx := ulule.New(store, ulule.Rate{Period: w.Len, Limit: int64(w.Limit)}), context.Background()
		return func(who *Caller) bool {
			r, err := l.Get(ctx, who.ID)
			return err == nil && !r.Reached
		}
	})
	return take, func() { c.Close() }, errors.Join(faults...)
}

func openThrottledRedis(addr string) (Take, func(), error) {
	c := goRedis(addr)
	var faults []error
	take := each(Windows(2, admitLimit), func(w signpost.Window) Take {
		store, err := goredisstore.NewCtx(c, w.Name()+":")
		if err != nil {
			faults = append(faults, err)
			return nil
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerDuration(int(w.Limit), w.Len), MaxBurst: int(w.Limit)})
		if err != nil {
			faults = append(faults, err)
			return nil
		}
		return func(who *Caller) bool {
			limited, _, err := l.RateLimitCtx(context.Background(), who.ID, 1)
			return err == nil && !limited
		}
	})
	return take, func() { c.Close() }, errors.Join(faults...)
}

// SharedRun is one measurement on a server: so many callers, each of whom waits for its answer before it asks again.
type SharedRun struct {
	Subject string
	Callers int
	Keys    int
	For     time.Duration // after a warm-up of a quarter of it
	Addr    string
}

// SharedFigures is what a run found.
type SharedFigures struct {
	PerSecond    float64
	P50Us, P99Us float64
	Wrong        int // takes that failed or were refused, those that made the keys included
}

// Do measures. Every key is there before the clock runs.
func (r SharedRun) Do(s Shared) (SharedFigures, error) {
	take, closeIt, err := s.Open(r.Addr)
	if err != nil {
		return SharedFigures{}, fmt.Errorf("open %s: %w", s.Name, err)
	}
	defer closeIt()
	keys := r.Keys
	if s.Hot {
		keys = 1
	}
	callers := Shuffled(keys)
	refused := errors.New("refused")
	ask := func(c *Caller) error {
		if !take(c) {
			return refused
		}
		return nil
	}
	const creators = 256 // so that the creating shares round trips and syncs
	made := spread(min(creators, keys), callers, 0, ask)
	warm := spread(r.Callers, callers, r.For/4, ask)
	var (
		mu    sync.Mutex
		times = make([]time.Duration, 0, 1<<20)
	)
	f := spread(r.Callers, callers, r.For, func(c *Caller) error {
		begin := time.Now()
		err := ask(c)
		took := time.Since(begin)
		mu.Lock()
		times = append(times, took)
		mu.Unlock()
		return err
	})
	slices.Sort(times)
	at := func(q float64) float64 {
		return float64(times[int(q*float64(len(times)-1))]) / float64(time.Microsecond)
	}
	return SharedFigures{PerSecond: f.PerSecond, P50Us: at(0.5), P99Us: at(0.99), Wrong: f.Wrong + made.Wrong + warm.Wrong}, nil
}

// StartRedis starts a redis-server in an empty directory and returns its address when it answers. With always, it syncs each
// write before it answers; else it keeps nothing.
func StartRedis(dir string, always bool) (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("find a port: %w", err)
	}
	addr = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	appendonly := "no"
	if always {
		appendonly = "yes"
	}
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--appendonly", appendonly, "--appendfsync", "always", "--daemonize", "no")
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start redis-server: %w", err)
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err := client(addr); err == nil {
			c.Close()
			return addr, stop, nil
		}
	}
	stop()
	return "", nil, errors.New("start redis-server: it does not answer")
}
