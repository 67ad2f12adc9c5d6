// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/admin"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/disk"
	"github.com/signposthq/signpost/store/memory"
)

// opened is a store that counts its leases, the registry of links that it keeps, and its health.
type opened struct {
	*leaseCounter
	links  link.Registry
	checks []admin.Check // on whether counts are kept as they should be
}

// openStore opens the store that a configuration names.
func openStore(ctx context.Context, c *Config, t *telemetry, log *slog.Logger) (opened, error) {
	switch {
	case c.shared():
		return openShared(ctx, c, t, log)
	case c.Store == StoreMemory:
		s := memory.New(memory.Options{OnClear: t.clears.WithLabelValues(ofLinks).Inc})
		return newOpened(t, s, memory.NewLinks(), admin.Check{Name: "store", Err: func() error { return nil }}), nil
	}
	sync := disk.SyncAlways
	if c.Sync == "off" {
		sync = disk.SyncOff
	}
	s, err := disk.Open(c.Data, disk.Options{Sync: sync, Logger: log})
	switch {
	case errors.Is(err, disk.ErrLocked):
		return opened{}, fmt.Errorf("%w; stop that one, or choose another directory with --data", err)
	case errors.Is(err, disk.ErrCorrupt):
		return opened{}, fmt.Errorf("%w; restore it, or move the directory away: counts and links start anew", err)
	case err != nil:
		return opened{}, err
	}
	t.watchDisk(s.Stats)
	return newOpened(t, s, s.Links(), admin.Check{Name: "store", Err: func() error {
		if stats := s.Stats(); stats.Degraded {
			return errors.New(stats.Cause)
		}
		return nil
	}}), nil
}

func newOpened(t *telemetry, s signpost.Store, links link.Registry, checks ...admin.Check) opened {
	o := opened{newLeaseCounter(s), links, checks}
	t.watchStore(o.count, func() bool {
		return slices.ContainsFunc(checks, func(c admin.Check) bool { return c.Err() != nil })
	})
	return o
}
