// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/store/homes"
	"github.com/signposthq/signpost/store/redis"
)

// shared reports whether the store is a server that a fleet shares.
func (c *Config) shared() bool { return strings.Contains(c.Store, "://") }

// parseStore reads the name of a store, or the URL of one that is shared. A password has no place in it, as this field is printed.
func parseStore(s string) (string, error) { return parseServer(s, storePassword) }

const (
	// storePassword is the variable that holds the password of the shared server.
	storePassword = "SIGNPOST_STORE_PASSWORD"
	// sentinelPassword is the one that holds what Sentinels want.
	sentinelPassword = "SIGNPOST_SENTINEL_PASSWORD"
)

// parseServer is parseStore for a server whose password is in a variable of its own.
func parseServer(s, variable string) (string, error) {
	if s == StoreDisk || s == StoreMemory {
		return s, nil
	}
	const want = "is not one of: " + StoreDisk + ", " + StoreMemory + ", or the URL of a server such as redis://host:6379 or unix:///run/redis.sock"
	isURL := strings.Contains(s, "://")
	if !isURL && !strings.Contains(s, "@") {
		return "", fmt.Errorf("%q %s", s, want)
	}
	u, err := url.Parse(s)
	if !isURL || err != nil { // it can hold a password, and is not repeated
		return "", errors.New(want)
	}
	if _, has := u.User.Password(); has || strings.Contains(u.RawQuery, "@") {
		return "", fmt.Errorf("holds a password; put it into %s", variable)
	}
	return s, redis.Options{URL: s}.Check()
}

// counts is a store with all that this daemon asks of one.
type counts interface {
	signpost.Store
	signpost.Renewer
	signpost.Inspector
	signpost.Resetter
	signpost.Settler
}

// openShared opens a store that a fleet shares, with local rules for when it does not answer.
func openShared(ctx context.Context, c *Config, t *telemetry, log *slog.Logger) (opened, error) {
	o := c.server(c.Store, c.StorePassword)
	inner, err := redis.Open(ctx, o)
	if err != nil {
		return opened{}, withoutPassword(err, &o, storePassword)
	}
	links, err := redis.OpenLinks(ctx, o)
	if err != nil {
		return opened{}, errors.Join(err, inner.Close())
	}
	warnOfEviction(ctx, inner, log)
	outages := &outages{causes: map[part]error{}}
	outages.watch(links, log)
	elsewhere, err := strays(c, t, log)
	if err != nil {
		return opened{}, errors.Join(err, links.Close(), inner.Close())
	}
	s, err := openHomes(ctx, c, inner, elsewhere, log, func(home string, inner signpost.Store) (counts, error) {
		s, err := guarded(home, inner, c, outages, t, log)
		if err != nil { // not a nil *failopen.Store in an interface
			return nil, err
		}
		return s, nil
	})
	if err != nil {
		return opened{}, errors.Join(err, links.Close())
	}
	if err := look(ctx, c, s); err != nil {
		return opened{}, errors.Join(err, links.Close(), s.Close())
	}
	return newOpened(t, bundle{s, links}, links, outages.checks(c)...), nil
}

// server returns how the server at a URL is reached.
func (c *Config) server(url string, password Secret) redis.Options {
	return redis.Options{URL: url, Password: password.Reveal(), SentinelPassword: c.SentinelPassword.Reveal(), Prefix: c.StorePrefix}
}

// withoutPassword says of a server that turned this process away which password it was not given, as one is easily forgotten.
func withoutPassword(err error, o *redis.Options, variable string) error {
	if !errors.Is(err, signpost.ErrStoreAuth) {
		return err
	}
	var unset []string
	if o.Password == "" {
		unset = append(unset, variable)
	}
	if o.SentinelPassword == "" && strings.Contains(o.URL, "master_set=") {
		unset = append(unset, sentinelPassword)
	}
	switch len(unset) {
	case 0:
		return err
	case 1:
		return fmt.Errorf("%w; %s is not set", err, unset[0])
	}
	return fmt.Errorf("%w; %s are not set", err, strings.Join(unset, " and "))
}

// warnOfEviction tells of a server that forgets counts when its memory is full.
func warnOfEviction(ctx context.Context, s *redis.Store, log *slog.Logger) {
	if policy := s.Eviction(ctx); policy != "" && policy != "noeviction" {
		log.Warn("the server evicts keys when its memory is full, and counts with them; set maxmemory-policy to noeviction", "policy", policy)
	}
}

// guarded puts local rules around the server of a home, and tells log and metrics when they decide.
func guarded(home string, inner signpost.Store, c *Config, outages *outages, t *telemetry, log *slog.Logger) (*failopen.Store, error) {
	if home != "" {
		log = log.With("home", home)
	}
	down := t.serversDown.WithLabelValues(home)
	spoilt, dropped := seldom{began: time.Now()}, seldom{began: time.Now()}
	var untold atomic.Int64 // keys whose counts were dropped since the log has said so
	return failopen.New(inner, failopen.Options{
		Timeout: c.StoreTimeout, Cheap: c.DegradedCheap, Expensive: c.DegradedExpensive,
		Hooks: failopen.Hooks{
			Degraded: func(slice string, kind failopen.Kind, cause error) {
				outages.begin(part{home, slice}, cause)
				down.Inc()
				log.Error("store does not answer; local rules decide", "server", slice, "kind", string(kind), "err", cause)
			},
			Healed: func(slice string, after time.Duration) {
				outages.end(part{home, slice})
				down.Dec()
				log.Info("store answers again", "server", slice, "after", after.Round(time.Millisecond).String())
			},
			Failed: func(slice string, kind failopen.Kind, err error) {
				t.storeFailures.WithLabelValues(string(kind)).Inc()
				if kind == failopen.Spoilt && spoilt.now() {
					log.Error("what is stored of a key cannot be read; local rules decide it until it is reset", "server", slice, "kind", string(kind), "err", err)
				}
			},
			Cleared: t.clears.WithLabelValues(ofLinks).Inc,
			DebtDropped: func(keys int, cause error) {
				t.debtDropped.Add(float64(keys))
				if untold.Add(int64(keys)); dropped.now() {
					log.Warn("counts of an outage will not reach the store", "keys", untold.Swap(0), "err", cause)
				}
			},
		},
	})
}

// seldom is for what is said once a minute, however often it happens.
type seldom struct {
	began time.Time
	next  atomic.Int64 // by the monotonic clock
}

func (s *seldom) now() bool {
	at, next := int64(time.Since(s.began)), s.next.Load()
	return at >= next && s.next.CompareAndSwap(next, at+int64(time.Minute))
}

// strays decides by local rules for the links of homes that this process was not told of. That is no outage, as only a restart ends it. The
// metric counts such takes, so that it rests when they stop, and the log has a line for each home.
func strays(c *Config, t *telemetry, log *slog.Logger) (*failopen.Store, error) {
	var told sync.Map
	return failopen.New(homes.Nowhere(), failopen.Options{
		Timeout: c.StoreTimeout, Cheap: c.DegradedCheap, Expensive: c.DegradedExpensive,
		Hooks: failopen.Hooks{
			Failed: func(home string, kind failopen.Kind, err error) {
				t.storeFailures.WithLabelValues(string(kind)).Inc()
				if _, before := told.LoadOrStore(home, true); !before {
					log.Error("links of a home that is not in homes; local rules decide them until a restart with the whole list",
						"home", home, "kind", string(kind), "err", err)
				}
			},
			Cleared: t.clears.WithLabelValues(ofLinks).Inc,
		},
	})
}

// bundle closes the links together with the counts.
type bundle struct {
	counts
	links *redis.Links
}

// Close implements [signpost.Store].
func (b bundle) Close() error { return errors.Join(b.counts.Close(), b.links.Close()) }

// outages are the servers that do not answer, and why.
type outages struct {
	mu     sync.Mutex
	causes map[part]error
	links  error // why they cannot be read
}

// part is a server of a home, as its store names it.
type part struct{ home, server string }

func (o *outages) begin(p part, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.causes[p] = cause
}

func (o *outages) end(p part) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.causes, p)
}

// watch tells of the registry. Its server may count nothing, if every link has a home.
func (o *outages) watch(links *redis.Links, log *slog.Logger) {
	set := func(cause error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.links = cause
	}
	links.Watch(func(cause error) {
		set(cause)
		log.Error("links cannot be read; those that were read before go on for a while, others are turned away", "err", cause)
	}, func(after time.Duration) {
		set(nil)
		log.Info("links can be read again", "after", after.Round(time.Millisecond).String())
	})
}

func (o *outages) ofLinks() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.links
}

// at returns why a server of a home does not answer, or nil.
func (o *outages) at(home string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for p, cause := range o.causes {
		if p.home == home {
			return fmt.Errorf("%s: %w", p.server, cause)
		}
	}
	return nil
}

// checks tell of each home by itself.
func (o *outages) checks(c *Config) []admin.Check {
	all := []admin.Check{{Name: "store", Err: func() error { return o.at("") }}, {Name: "links", Err: o.ofLinks}}
	for _, h := range c.Homes {
		all = append(all, admin.Check{Name: "home:" + h.Home.String(), Err: func() error { return o.at(h.Home.String()) }})
	}
	return all
}
