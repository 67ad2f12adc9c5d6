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
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/store/redis"
)

// shared reports whether the store is a server that a fleet shares.
func (c *Config) shared() bool { return strings.Contains(c.Store, "://") }

// parseStore reads the name of a store, or the URL of one that is shared. A password has no place in it, as this field is printed.
func parseStore(s string) (string, error) {
	if s == StoreDisk || s == StoreMemory {
		return s, nil
	}
	if !strings.Contains(s, "://") {
		return "", fmt.Errorf("%q is not one of: %s, %s, or the URL of a server such as redis://host:6379", s, StoreDisk, StoreMemory)
	}
	u, err := url.Parse(s)
	if err != nil {
		return "", errors.New("is not a URL such as redis://host:6379")
	}
	if _, has := u.User.Password(); has {
		return "", errors.New("holds a password; put it into SIGNPOST_STORE_PASSWORD")
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
	o := redis.Options{URL: c.Store, Password: c.StorePassword.Reveal(), Prefix: c.StorePrefix}
	inner, err := redis.Open(ctx, o)
	if err != nil {
		return opened{}, err
	}
	links, err := redis.OpenLinks(ctx, o)
	if err != nil {
		return opened{}, errors.Join(err, inner.Close())
	}
	warnOfEviction(ctx, inner, log)
	outages := &outages{causes: map[string]error{}}
	guard := func(h signpost.Home, inner signpost.Store) (counts, error) {
		s, err := guarded(h, inner, c, outages, t, log)
		if err != nil { // not a nil *failopen.Store in an interface
			return nil, err
		}
		return s, nil
	}
	s, err := guard(signpost.Home{}, inner)
	if err != nil {
		return opened{}, errors.Join(err, links.Close(), inner.Close())
	}
	if len(c.Homes) > 0 {
		if s, err = openHomes(ctx, c, s, log, guard); err != nil {
			return opened{}, errors.Join(err, links.Close())
		}
	}
	// An outage that is there already shows before the first request meets it.
	for _, h := range append(c.homeNames(), signpost.Home{}) {
		if _, _, err := s.Peek(ctx, signpost.Request{Key: signpost.KeyOf("signpost start", "").In(h), Bound: c.Links}); err != nil {
			return opened{}, errors.Join(err, links.Close(), s.Close())
		}
	}
	return newOpened(t, bundle{s, links}, links, outages.trouble), nil
}

// warnOfEviction tells of a server that forgets counts when its memory is full.
func warnOfEviction(ctx context.Context, s *redis.Store, log *slog.Logger) {
	if policy := s.Eviction(ctx); policy != "" && policy != "noeviction" {
		log.Warn("the server evicts keys when its memory is full, and counts with them; set maxmemory-policy to noeviction", "policy", policy)
	}
}

// guarded puts local rules around the server of a home, or of none, and tells log and metrics when they decide.
func guarded(h signpost.Home, inner signpost.Store, c *Config, outages *outages, t *telemetry, log *slog.Logger) (*failopen.Store, error) {
	name := func(slice string) string { return slice }
	if !h.IsZero() {
		log = log.With("home", h.String())
		name = func(slice string) string { return h.String() + ": " + slice }
	}
	down := t.serversDown.WithLabelValues(h.String())
	return failopen.New(inner, failopen.Options{
		Timeout: c.StoreTimeout, Cheap: c.DegradedCheap, Expensive: c.DegradedExpensive,
		Hooks: failopen.Hooks{
			Degraded: func(slice string, kind failopen.Kind, cause error) {
				outages.begin(name(slice), cause)
				down.Inc()
				log.Error("store does not answer; local rules decide", "server", slice, "kind", string(kind), "error", cause)
			},
			Healed: func(slice string, after time.Duration) {
				outages.end(name(slice))
				down.Dec()
				log.Info("store answers again", "server", slice, "after", after.Round(time.Millisecond).String())
			},
			Failed:  func(_ string, kind failopen.Kind, _ error) { t.storeFailures.WithLabelValues(string(kind)).Inc() },
			Cleared: t.clears.WithLabelValues(ofLinks).Inc,
			DebtDropped: func(keys int, cause error) {
				t.debtDropped.Add(float64(keys))
				log.Warn("counts of an outage will not reach the store", "keys", keys, "error", cause)
			},
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
	causes map[string]error
}

func (o *outages) begin(server string, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.causes[server] = cause
}

func (o *outages) end(server string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.causes, server)
}

// trouble returns why one of them does not answer, or nil.
func (o *outages) trouble() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for server, cause := range o.causes {
		return fmt.Errorf("%s: %w", server, cause)
	}
	return nil
}
