// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

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
	if url, err = parseStore(url); err != nil {
		return homeServer{}, fmt.Errorf("%s: %w", name, err)
	}
	return homeServer{home, url}, nil
}

func (h homeServer) String() string { return h.Home.String() + "=" + h.URL }

// passwordVariable begins the names of the variables that hold the password of one home's server.
const passwordVariable = "SIGNPOST_STORE_PASSWORD_"

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
	if !c.Home.IsZero() && !known[c.Home] {
		l.fault(said(where, "home"), "home: %s is none of homes: %s", c.Home, strings.Join(names, ", "))
	}
	for name := range c.HomePasswords {
		if !variables[name] {
			l.fault(passwordVariable+name, "no home has that name; homes: %s", strings.Join(names, ", "))
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

// openHomes puts the servers of the homes beside the one store that there is without them, which it closes if it fails.
func openHomes(ctx context.Context, c *Config, main counts, log *slog.Logger, guard func(signpost.Home, signpost.Store) (counts, error)) (counts, error) {
	at := map[signpost.Home]signpost.Store{{}: main}
	undo := func(err error) (counts, error) {
		for _, s := range at {
			err = errors.Join(err, s.Close())
		}
		return nil, err
	}
	for _, h := range c.Homes {
		inner, err := redis.Open(ctx, redis.Options{URL: h.URL, Password: c.passwordOf(h.Home).Reveal(), Prefix: c.StorePrefix})
		if err != nil {
			return undo(fmt.Errorf("home %s: %w", h.Home, err))
		}
		warnOfEviction(ctx, inner, log.With("home", h.Home.String()))
		if at[h.Home], err = guard(h.Home, inner); err != nil {
			return undo(errors.Join(err, inner.Close()))
		}
	}
	elsewhere, err := guard(signpost.Home{}, homes.Nowhere())
	if err != nil {
		return undo(err)
	}
	return homes.New(at, elsewhere)
}
