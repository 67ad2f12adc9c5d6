// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/redis"
)

// LinksRun finds what so many live links cost a server that has nothing else.
type LinksRun struct {
	Links   int
	Callers int
	For     time.Duration // after a warm-up of a quarter of it
	Addr    string
}

// LinksFigures is what a run found.
type LinksFigures struct {
	Bytes      float64 // the server's memory for the two windows of a link, its name and expiry included
	LeaseBytes float64 // on top while one lease is out, by MEMORY USAGE
	PerSecond  float64
	ServerUs   float64 // of one take inside the server, by its own account
	Wrong      int
}

// Do measures.
func (r LinksRun) Do() (f LinksFigures, err error) {
	ctx := context.Background()
	c, err := client(r.Addr)
	if err != nil {
		return f, fmt.Errorf("open client: %w", err)
	}
	defer c.Close()
	s, err := redis.Open(ctx, redis.Options{URL: "redis://" + r.Addr})
	if err != nil {
		return f, err
	}
	defer s.Close()
	bound, err := signpost.NewBound(signpost.MaxConcurrent, Windows(2, admitLimit)...)
	if err != nil {
		return f, err
	}
	limiter := signpost.New(s, signpost.Options{})
	take := func(expensive bool) func(*Caller) error {
		return func(who *Caller) error {
			d, err := limiter.Take(ctx, signpost.Request{Key: who.Key, Bound: bound, Expensive: expensive})
			if err == nil && !d.Admitted {
				err = errors.New("refused")
			}
			return err
		}
	}
	callers := Shuffled(r.Links)
	const creators = 256 // so that the creating shares round trips
	creator := Callers(r.Links + creators)[r.Links:]
	spread(creators, creator, 0, take(false)) // so that the server knows the script and its clients
	memory := func() float64 {                // but for what it keeps of its connections
		return fact(ctx, c, "memory", `used_memory:(\d+)`, &err) - fact(ctx, c, "memory", `mem_clients_normal:(\d+)`, &err)
	}
	none := memory()
	f.Wrong += spread(creators, callers, 0, take(false)).Wrong
	f.Bytes = (memory() - none) / float64(r.Links)

	spread(r.Callers, callers, r.For/4, take(false))
	if err := c.Do(ctx, c.B().ConfigResetstat().Build()).Error(); err != nil {
		return f, fmt.Errorf("reset statistics: %w", err)
	}
	warm := spread(r.Callers, callers, r.For, take(false))
	f.PerSecond, f.Wrong = warm.PerSecond, f.Wrong+warm.Wrong
	f.ServerUs = fact(ctx, c, "commandstats", `cmdstat_evalsha:.*usec=(\d+)`, &err) / // one has many takes
		fact(ctx, c, "commandstats", `cmdstat_get:calls=(\d+)`, &err) // and each reads its windows once

	if err := take(true)(&callers[0]); err != nil {
		return f, err
	}
	names, failed := c.Do(ctx, c.B().Keys().Pattern("*:leases").Build()).AsStrSlice()
	if failed != nil || len(names) != 1 {
		return f, errors.Join(err, fmt.Errorf("look for the lease: %d keys, %w", len(names), failed))
	}
	bytes, failed := c.Do(ctx, c.B().MemoryUsage().Key(names[0]).Build()).AsInt64()
	f.LeaseBytes = float64(bytes)
	return f, errors.Join(err, failed)
}

// fact reads a number out of what a server says of itself. It adds to err what goes wrong.
func fact(ctx context.Context, c rueidis.Client, section, pattern string, err *error) float64 {
	text, failed := c.Do(ctx, c.B().Info().Section(section).Build()).ToString()
	if failed != nil {
		*err = errors.Join(*err, fmt.Errorf("ask for %s: %w", section, failed))
		return 0
	}
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		*err = errors.Join(*err, fmt.Errorf("ask for %s: the server does not say %s", section, pattern))
		return 0
	}
	n, _ := strconv.ParseFloat(found[1], 64)
	return n
}
