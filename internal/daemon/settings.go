// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"net/http"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/mcpdoor"
	"github.com/signposthq/signpost/link"
)

// settings is a configuration in the form that requests need it in. A reload makes a new one
// and swaps it in whole. Counts and links are elsewhere and stay.
type settings struct {
	config   Config
	identify func(*http.Request) (httpdoor.Caller, error)
	upstream http.Handler // the door for links, and what is behind it
	try      http.Handler // the door for strangers; nil: closed
}

// parts are what outlives every configuration.
type parts struct {
	links     link.Registry
	limiter   *signpost.Limiter // of links
	strangers *signpost.Limiter // of addresses, in a memory of its own
	upstream  http.Handler      // the service behind the door
	reach     http.RoundTripper // the same for a server of MCP
	observe   func(door string) func(httpdoor.Event)
	stopping  context.Context // ends when the daemon begins to stop
	mcp       *mcpdoor.Proxy  // of the last configuration, if any
}

func newSettings(c Config, p *parts) (*settings, error) {
	expensive, err := newClassifier(c.Expensive)
	if err != nil {
		return nil, err
	}
	s := &settings{config: c, identify: httpdoor.Links(p.links, c.Links)}
	shared := httpdoor.Options{ // by both doors
		MaxBody:        c.Shape.MaxBody(),
		BeforeHandler:  c.BeforeHandler,
		CountPreflight: !c.Preflights,
		OmitRateLimit:  !c.RateLimit,
		OmitXRateLimit: !c.XRateLimit,
		Terms:          terms,
	}
	if c.MCP != nil {
		s.upstream, err = newMCPProxy(s, p)
	} else {
		forLinks := shared
		forLinks.Identify, forLinks.Observe = s.identify, p.observe(doorHTTP)
		forLinks.Classify = func(r *http.Request) httpdoor.Work { return httpdoor.Work{Expensive: expensive.match(r)} }
		s.upstream, err = wrap(p.limiter, forLinks, p.upstream)
	}
	if err != nil {
		return nil, fmt.Errorf("make door: %w", err)
	}
	if !c.Try {
		return s, nil
	}
	forAddresses := shared
	forAddresses.Observe = p.observe(doorTry)
	if forAddresses.Identify, err = httpdoor.ByAddress(httpdoor.Addresses{Trusted: c.TrustedProxies, Bound: c.Strangers}); err != nil {
		return nil, fmt.Errorf("make try door: %w", err)
	}
	if s.try, err = wrap(p.strangers, forAddresses, mintTryLink(p.links, &s.config)); err != nil {
		return nil, fmt.Errorf("make try door: %w", err)
	}
	return s, nil
}

// wrap puts a door of its own around a handler.
func wrap(l *signpost.Limiter, o httpdoor.Options, next http.Handler) (http.Handler, error) {
	door, err := httpdoor.New(l, o)
	if err != nil {
		return nil, err
	}
	return door.Wrap(next), nil
}
