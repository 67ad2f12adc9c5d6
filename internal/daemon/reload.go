// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"strings"
)

// apply puts a configuration in force, for every request that comes after.
func (d *daemon) apply(c Config) error {
	s, err := newSettings(c, &d.parts)
	if err != nil {
		return err
	}
	d.current.Store(s)
	d.level.Set(c.LogLevel)
	d.telemetry.reloadedAt.SetToCurrentTime()
	return nil
}

// reload reads the sources again. What can change at once does; what cannot is said and stays; a
// configuration with any fault changes nothing. Counts, leases and links are not touched.
func (d *daemon) reload() {
	sources := d.Sources
	next, err := Load(sources)
	if err != nil {
		d.reloadFailed(err)
		return
	}
	running := &d.current.Load().config
	var changed, waiting []string
	for i := range fields {
		if f := &fields[i]; !f.live && !f.same(running, &next) {
			waiting = append(waiting, f.path)
			sources.stays = append(sources.stays, f.as(running))
		}
	}
	if len(waiting) > 0 { // again, with what stays: defaults depend on it, and so do contradictions
		if next, err = Load(sources); err != nil {
			d.reloadFailed(fmt.Errorf("while these changes wait for a restart: %s: %w", strings.Join(waiting, ", "), err))
			return
		}
	}
	for i := range fields {
		if f := &fields[i]; !f.same(running, &next) {
			changed = append(changed, f.path)
		}
	}
	if err := d.apply(next); err != nil {
		d.reloadFailed(err)
		return
	}
	d.log.Info("reload", "changed", changed)
	if len(waiting) > 0 {
		d.log.Warn("these changes wait for a restart", "fields", waiting)
	}
	d.telemetry.reloads.WithLabelValues("ok").Inc() // last: whoever sees it finds the log complete
}

func (d *daemon) reloadFailed(err error) {
	d.log.Error("reload failed; the last good configuration stays", "err", err.Error())
	d.telemetry.reloads.WithLabelValues("failed").Inc()
}
