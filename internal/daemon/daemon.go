// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/httpdoor"
	"github.com/signposthq/signpost/door/render"
	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/memory"
)

// Options are what Run needs.
type Options struct {
	// Sources are read at the start, and again on SIGHUP.
	Sources Sources
	// Stdout gets the greeting, once; Stderr the JSON log.
	Stdout, Stderr io.Writer
	// JSON makes the greeting one JSON object on one line.
	JSON bool
}

// daemon is a running signpost.
type daemon struct {
	Options
	log       *slog.Logger
	level     *slog.LevelVar
	telemetry *telemetry
	refusals  *refusals

	store     opened
	parts     parts
	current   atomic.Pointer[settings]
	beginStop context.CancelFunc // ends parts.stopping

	door, api, admin, sample *server // sample is nil in front of an upstream
	failed                   chan error
}

// Run serves until ctx ends, then stops accepting, lets what is in flight end, makes what was
// counted durable, and returns nil. An error means that it could not start, or could not go on.
func Run(ctx context.Context, o Options) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // from the start: the default is to die of it
	defer signal.Stop(hangup)

	c, err := Load(o.Sources)
	if err != nil {
		return err
	}
	d := &daemon{Options: o, level: new(slog.LevelVar), failed: make(chan error, 4)}
	d.level.Set(c.LogLevel)
	d.log = newLogger(o.Stderr, d.level)
	defer takeGlobalLog(d.log)()
	d.refusals = newRefusals(d.log)
	d.telemetry = newTelemetry(ReadBuild())
	defer d.close()
	if err := d.start(ctx, c); err != nil {
		return err
	}
	return d.run(ctx, hangup)
}

// run does what signals ask for until ctx ends or a listener fails.
func (d *daemon) run(ctx context.Context, hangup <-chan os.Signal) error {
	for {
		select {
		case <-hangup:
			d.reload()
		case err := <-d.failed:
			d.log.Error("listener failed", "err", err.Error())
			return errors.Join(err, d.stop())
		case <-ctx.Done():
			return d.stop()
		}
	}
}

// start opens everything and serves. What it opened before an error, close closes.
func (d *daemon) start(ctx context.Context, c Config) (err error) {
	if d.store, err = openStore(ctx, &c, d.telemetry, d.log); err != nil {
		return err
	}
	token, err := adminToken(&c)
	if err != nil {
		return err
	}
	for _, l := range []struct {
		name, address string
		server        **server
	}{{"door", c.Door, &d.door}, {"api", c.API, &d.api}, {"admin", c.Admin, &d.admin}} {
		if *l.server, err = listen(l.name, l.address); err != nil {
			return fmt.Errorf("%w; choose another address with --%s; port 0 takes one that is free", err, l.name)
		}
	}
	if err := d.wire(&c); err != nil {
		return err
	}
	if err := d.apply(c); err != nil {
		return err
	}
	// The greeting goes before the link is registered, and all of it before anything is served: a link
	// that nobody was shown is never the one that keeps a later start from minting another.
	first, err := firstLink(ctx, d.store.links)
	switch {
	case errors.Is(err, link.ErrUnavailable): // a server that will come; links can be minted then
		d.log.Warn("no first link", "err", err)
	case err != nil:
		return err
	}
	if err := d.greet(&c, first, err != nil, token); err != nil {
		return err
	}
	if first.Reveal() != "" {
		record := link.NewRecord(first, link.Owner, "first", time.Now())
		record.Home = c.Home
		if err := d.store.links.Add(ctx, record); err != nil {
			return fmt.Errorf("register the first link: %w", err)
		}
	}

	d.door.serve(&doorHandler{live: d.current.Load, observe: d.observe(c.doorName())}, d.log, d.failed)
	for _, s := range []*server{d.api, d.admin} {
		s.http.ReadTimeout, s.http.WriteTimeout = smallTimeout, smallTimeout
	}
	d.api.serve(newAPI(&api{
		limiter: signpost.New(d.store, signpost.Options{Observe: d.telemetry.observer(doorAPI)}),
		links:   d.store.links,
		live:    d.current.Load,
		took:    d.took,
	}, c.APIToken), d.log, d.failed)
	d.admin.serve(d.adminHandler(token), d.log, d.failed)

	build := ReadBuild()
	d.log.Info("start", "version", build.Version, "revision", build.Revision, "store", c.Store, "upstream", formatUpstream(c.Upstream), "mcp", formatUpstream(c.MCP),
		"door", d.door.address(), "api", d.api.address(), "admin", d.admin.address())
	return nil
}

// wire makes the parts that every configuration shares.
func (d *daemon) wire(c *Config) error {
	upstream := c.Upstream
	if upstream == nil {
		upstream = c.MCP
	}
	if upstream == nil {
		var err error
		if d.sample, err = listen("sample", "127.0.0.1:0"); err != nil {
			return err
		}
		d.sample.serve(newSample(func() Shape { return d.current.Load().config.Shape }), d.log, d.failed)
		upstream = &url.URL{Scheme: "http", Host: d.sample.address()}
	}
	transport := newTransport(c.UpstreamTimeout)
	health := &upstreamHealth{log: d.log, telemetry: d.telemetry, upstream: upstream.Host}
	stopping, beginStop := context.WithCancel(context.Background())
	d.beginStop = beginStop
	strangers := memory.New(memory.Options{MaxKeys: httpdoor.DefaultMaxAddresses, OnClear: d.telemetry.clears.WithLabelValues(ofAddresses).Inc})
	d.parts = parts{
		links:     d.store.links,
		limiter:   signpost.New(d.store, signpost.Options{Observe: d.telemetry.observer(c.doorName())}),
		strangers: signpost.New(strangers, signpost.Options{Observe: d.telemetry.observer(doorTry)}),
		upstream:  newProxy(upstream, transport, health, d.current.Load),
		reach:     &watched{transport, health},
		observe:   d.observe,
		stopping:  stopping,
	}
	return nil
}

func (d *daemon) adminHandler(token Secret) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", admin.RequireToken(token.Reveal(), http.HandlerFunc(admin.Denied), d.telemetry.handler()))
	mux.Handle("/", admin.New(admin.Options{
		Token: token.Reveal(),
		Links: d.store.links,
		Store: d.store,
		Bound: func() signpost.Bound { return d.current.Load().config.Links },
		Home:  func() signpost.Home { return d.current.Load().config.Home },
		Homes: d.current.Load().config.homeNames(),
		Checks: append([]admin.Check{{Name: "serving", Vital: true, Err: func() error {
			if d.parts.stopping.Err() != nil {
				return errors.New("stopping")
			}
			return nil
		}}}, d.store.checks...),
		Log: d.log,
	}))
	return mux
}

// firstLink mints a link on the first start, when there is none. It does not register it.
func firstLink(ctx context.Context, links link.Registry) (link.Link, error) {
	known, err := links.List(ctx, "", 1)
	if err != nil {
		return link.Link{}, fmt.Errorf("look for links: %w", err)
	}
	if len(known) > 0 {
		return link.Link{}, nil
	}
	return link.Mint(), nil
}

// observe returns what a door reports each request to.
func (d *daemon) observe(door string) func(httpdoor.Event) {
	return func(e httpdoor.Event) {
		id := e.Caller.Name
		if e.Caller.Kind == render.Address {
			id = ""
		}
		switch {
		case e.Decision.At != 0:
			d.took(door, id, e.Caller.Key, &e.Decision, nil)
		case e.Outcome == httpdoor.Unavailable && !e.Caller.Key.IsZero():
			d.took(door, id, e.Caller.Key, &e.Decision, e.Err)
		case e.Outcome != httpdoor.Uncounted && e.Outcome != httpdoor.Aborted:
			d.telemetry.turnedAway.WithLabelValues(door, string(e.Outcome)).Inc()
		}
	}
}

// took counts one take and logs it if it is a transition. The link is the ID of the one that took, or "".
func (d *daemon) took(door, link string, k signpost.Key, decision *signpost.Decision, err error) {
	d.telemetry.took(door, decision, err)
	if err == nil && !decision.Admitted {
		d.refusals.see(door, link, k, decision)
	}
}

// stop drains the listeners and closes the store. The admin listener goes last, so that it
// tells all the while that no traffic should come.
func (d *daemon) stop() error {
	d.beginStop()
	drain := d.current.Load().config.Drain
	d.log.Info("stopping", "drain", drain.String())
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	var both sync.WaitGroup
	var cut atomic.Bool
	for _, s := range []*server{d.door, d.api} {
		both.Go(func() {
			if s.drain(ctx) {
				cut.Store(true)
			}
		})
	}
	both.Wait()
	d.admin.close()
	if err := d.store.Close(); err != nil {
		d.log.Error("stop", "cut_off", cut.Load(), "err", err.Error())
		return fmt.Errorf("close store: %w", err)
	}
	d.log.Info("stop", "cut_off", cut.Load())
	return nil
}

// close closes whatever is open. Closing twice is safe.
func (d *daemon) close() {
	for _, s := range []*server{d.door, d.api, d.admin, d.sample} {
		if s != nil {
			s.close()
		}
	}
	if d.store.leaseCounter != nil {
		d.store.Close()
	}
}
