// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"net/http"
	"sync"
	"time"

	tollbooth "github.com/didip/tollbooth/v7/limiter"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/go-chi/httprate"
	sethvargo "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/signposthq/signpost"
)

// rivals holds a window each: for two windows the second is asked if the first admits, which is not one decision,
// since the first stays charged when the second refuses. Each is called as its own documents show.
var rivals = []Limiter{
	{Name: "x/time/rate, RWMutex map", Package: "golang.org/x/time", How: "one look-up for both windows, token buckets", Rival: true, New: newXTimeRWMutex},
	{Name: "x/time/rate, sync.Map", Package: "golang.org/x/time", How: "one look-up for both windows, token buckets", Rival: true, New: newXTimeSyncMap},
	{Name: "failsafe-go, sync.Map", Package: "github.com/failsafe-go/failsafe-go", How: "bursty; one look-up for both windows", Rival: true, New: newFailsafe},
	{Name: "sethvargo/go-limiter", Package: "github.com/sethvargo/go-limiter", How: "memorystore, a call a window", Rival: true, New: newSethvargo},
	{Name: "throttled", Package: "github.com/throttled/throttled/v2", How: "memstore, GCRA, a call a window", Rival: true, New: newThrottled},
	{Name: "ulule/limiter", Package: "github.com/ulule/limiter/v3", How: "memory store, a call a window", Rival: true, New: newUlule},
	{Name: "tollbooth", Package: "github.com/didip/tollbooth/v7", How: "LimitReached, a call a window", Rival: true, New: newTollbooth},
	{Name: "go-chi/httprate", Package: "github.com/go-chi/httprate", How: "OnLimit, which also writes headers, a call a window", Rival: true, New: newHTTPRate},
}

// each makes one take of a limiter per window.
func each(ws []signpost.Window, one func(w signpost.Window) Take) Take {
	first := one(ws[0])
	if len(ws) == 1 {
		return first
	}
	second := one(ws[1])
	return func(c *Caller) bool { return first(c) && second(c) }
}

// must is for constructors that refuse bad options only.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// bucket returns x/time's own form of a window: full at first, filled evenly.
func bucket(w signpost.Window) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(w.Limit)/w.Len.Seconds()), int(w.Limit))
}

// buckets is one caller's limiters, one per window; the second may be missing.
type buckets struct{ first, second *rate.Limiter }

func newBuckets(ws []signpost.Window) *buckets {
	b := &buckets{first: bucket(ws[0])}
	if len(ws) > 1 {
		b.second = bucket(ws[1])
	}
	return b
}

func (b *buckets) allow() bool { return b.first.Allow() && (b.second == nil || b.second.Allow()) }

func newXTimeRWMutex(ws []signpost.Window) Take {
	var mu sync.RWMutex
	keys := map[string]*buckets{}
	return func(c *Caller) bool {
		mu.RLock()
		b := keys[c.ID]
		mu.RUnlock()
		if b == nil {
			mu.Lock()
			if b = keys[c.ID]; b == nil {
				b = newBuckets(ws)
				keys[c.ID] = b
			}
			mu.Unlock()
		}
		return b.allow()
	}
}

func newXTimeSyncMap(ws []signpost.Window) Take {
	var keys sync.Map
	return func(c *Caller) bool {
		b, ok := keys.Load(c.ID)
		if !ok {
			b, _ = keys.LoadOrStore(c.ID, newBuckets(ws))
		}
		return b.(*buckets).allow()
	}
}

func newFailsafe(ws []signpost.Window) Take {
	type pair struct{ first, second ratelimiter.RateLimiter[any] }
	newPair := func() *pair {
		p := &pair{first: ratelimiter.NewBursty[any](uint(ws[0].Limit), ws[0].Len)}
		if len(ws) > 1 {
			p.second = ratelimiter.NewBursty[any](uint(ws[1].Limit), ws[1].Len)
		}
		return p
	}
	var keys sync.Map
	return func(c *Caller) bool {
		v, ok := keys.Load(c.ID)
		if !ok {
			v, _ = keys.LoadOrStore(c.ID, newPair())
		}
		p := v.(*pair)
		return p.first.TryAcquirePermit() && (p.second == nil || p.second.TryAcquirePermit())
	}
}

func newSethvargo(ws []signpost.Window) Take {
	ctx := context.Background()
	return each(ws, func(w signpost.Window) Take {
		var store sethvargo.Store = must(memorystore.New(&memorystore.Config{Tokens: uint64(w.Limit), Interval: w.Len}))
		return func(c *Caller) bool {
			_, _, _, ok, err := store.Take(ctx, c.ID)
			return err == nil && ok
		}
	})
}

func newThrottled(ws []signpost.Window) Take {
	ctx := context.Background()
	return each(ws, func(w signpost.Window) Take {
		quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(w.Limit), w.Len), MaxBurst: int(w.Limit) - 1}
		limiter := must(throttled.NewGCRARateLimiterCtx(must(memstore.NewCtx(0)), quota))
		return func(c *Caller) bool {
			limited, _, err := limiter.RateLimitCtx(ctx, c.ID, 1)
			return err == nil && !limited
		}
	})
}

func newUlule(ws []signpost.Window) Take {
	ctx := context.Background()
	return each(ws, func(w signpost.Window) Take {
		limiter := ulule.New(ululememory.NewStore(), ulule.Rate{Period: w.Len, Limit: int64(w.Limit)})
		return func(c *Caller) bool {
			got, err := limiter.Get(ctx, c.ID)
			return err == nil && !got.Reached
		}
	})
}

func newTollbooth(ws []signpost.Window) Take {
	return each(ws, func(w signpost.Window) Take {
		limiter := tollbooth.New(&tollbooth.ExpirableOptions{DefaultExpirationTTL: 24 * time.Hour})
		limiter.SetMax(float64(w.Limit) / w.Len.Seconds()).SetBurst(int(w.Limit))
		return func(c *Caller) bool { return !limiter.LimitReached(c.ID) }
	})
}

// headers is a response that keeps its headers and drops the rest.
type headers http.Header

func (h headers) Header() http.Header         { return http.Header(h) }
func (h headers) Write(p []byte) (int, error) { return len(p), nil }
func (h headers) WriteHeader(int)             {}

func newHTTPRate(ws []signpost.Window) Take {
	return each(ws, func(w signpost.Window) Take {
		limiter := httprate.NewRateLimiter(int(w.Limit), w.Len)
		request := must(http.NewRequest(http.MethodGet, "/", nil))
		return func(c *Caller) bool { return !limiter.OnLimit(headers{}, request, c.ID) }
	})
}
