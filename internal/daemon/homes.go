// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/homes"
	"github.com/signposthq/signpost/store/redis"
)

// homeServer is the server that counts the links of a home.
type homeServer struct {
	Home signpost.Home
	URL  string
}

func parseHomeServer(s string) (homeServer, error) {
	name, url, ok := strings.Cut(s, "=")
	if !ok || name == "" || !strings.Contains(url, "://") {
		return homeServer{}, errors.New("is not NAME=URL, such as eu=redis://eu.internal:6379")
	}
	home, err := signpost.ParseHome(name)
	if err != nil {
		return homeServer{}, err
	}
	if url, err = parseServer(url, passwordVariable+variableOf(home)); err != nil {
		return homeServer{}, fmt.Errorf("%s: %w", name, err)
	}
	return homeServer{home, url}, nil
}

func (h homeServer) String() string { return h.Home.String() + "=" + h.URL }

// passwordVariable begins the names of the variables that hold the password of one home's server.
const passwordVariable = storePassword + "_"

// passwordOf returns the password of a home's server: its own, else that of all.
func (c *Config) passwordOf(h signpost.Home) Secret {
	if own, ok := c.HomePasswords[variableOf(h)]; ok {
		return own
	}
	return c.StorePassword
}

// variableOf is a home as the name of a variable has it.
func variableOf(h signpost.Home) string {
	return strings.ToUpper(strings.ReplaceAll(h.String(), "-", "_"))
}

// homeFaults finds what is wrong with the homes together.
func (l *loader) homeFaults(c *Config, where map[string]string) {
	known := map[signpost.Home]bool{}
	variables := map[string]bool{}
	var names []string
	for _, h := range c.Homes {
		if known[h.Home] {
			l.fault(said(where, "homes"), "homes: %s is there twice", h.Home)
		}
		known[h.Home], variables[variableOf(h.Home)] = true, true
		names = append(names, h.Home.String())
	}
	if len(c.Homes) > 0 && !c.shared() {
		l.fault(said(where, "homes"), "homes: the links of all homes are registered in one server; set store to its URL")
	}
	list := cmp.Or(strings.Join(names, ", "), "none is named there")
	if !c.Home.IsZero() && !known[c.Home] {
		l.fault(said(where, "home"), "home: %s is none of homes: %s", c.Home, list)
	}
	for name := range c.HomePasswords {
		if !variables[name] {
			l.fault(passwordVariable+name, "no home has that name; homes: %s", list)
		}
	}
}

// homeNames returns the homes that links can be minted for.
func (c *Config) homeNames() []signpost.Home {
	var all []signpost.Home
	for _, h := range c.Homes {
		all = append(all, h.Home)
	}
	return all
}

// guard puts local rules around the server of a home. The name is empty for the server of the links that have none.
type guard func(home string, inner signpost.Store) (counts, error)

// openHomes returns a store of all homes, each guarded by itself: that of no home on main, those that this process was not told of on
// elsewhere. It owns both, and closes them if it fails. It is also what a process needs that knows of no homes, which must not count
// the links of one in the wrong place.
func openHomes(ctx context.Context, c *Config, main, elsewhere signpost.Store, log *slog.Logger, guarded guard) (counts, error) {
	// All at once: one that cannot be reached makes nobody wait for it but the start, and that once.
	inner := make([]signpost.Store, len(c.Homes))
	faults := make([]error, len(c.Homes))
	var all sync.WaitGroup
	for i, h := range c.Homes {
		all.Go(func() {
			o := c.server(h.URL, c.passwordOf(h.Home))
			s, err := redis.Open(ctx, o)
			if err != nil { // not a nil *redis.Store in an interface
				faults[i] = fmt.Errorf("home %s: %w", h.Home, withoutPassword(err, &o, passwordVariable+variableOf(h.Home)))
				return
			}
			warnOfEviction(ctx, s, log.With("home", h.Home.String()))
			inner[i] = s
		})
	}
	all.Wait()

	at := map[signpost.Home]signpost.Store{}
	add := func(h signpost.Home, s signpost.Store) {
		g, err := guarded(h.String(), s)
		if err != nil {
			faults = append(faults, err, s.Close())
			return
		}
		at[h] = g
	}
	add(signpost.Home{}, main)
	for i, h := range c.Homes {
		if inner[i] != nil {
			add(h.Home, inner[i])
		}
	}
	if err := errors.Join(faults...); err != nil {
		err = errors.Join(err, elsewhere.Close())
		for _, s := range at {
			err = errors.Join(err, s.Close())
		}
		return nil, err
	}
	return homes.New(at, elsewhere)
}

// look asks every home once, so that an outage that is there already shows before the first request meets it.
func look(ctx context.Context, c *Config, s signpost.Store) error {
	all := append(c.homeNames(), signpost.Home{})
	faults := make([]error, len(all))
	var asked sync.WaitGroup
	for i, h := range all {
		asked.Go(func() {
			_, _, faults[i] = s.Peek(ctx, signpost.Request{Key: signpost.KeyOf("signpost start", "").In(h), Bound: c.Links})
		})
	}
	asked.Wait()
	return errors.Join(faults...)
}
