// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

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
	next, err := Load(d.Sources)
	if err != nil {
		d.reloadFailed(err)
		return
	}
	running := &d.current.Load().config
	var changed, waiting []string
	for i := range fields {
		f := &fields[i]
		switch {
		case f.same(running, &next):
		case f.live:
			changed = append(changed, f.path)
		default:
			waiting = append(waiting, f.path)
			f.set(&next, f.get(running)) // its own text: it parses
		}
	}
	next.AdminToken, next.APIToken = running.AdminToken, running.APIToken
	if err := d.apply(next); err != nil {
		d.reloadFailed(err)
		return
	}
	d.telemetry.reloads.WithLabelValues("ok").Inc()
	d.log.Info("reload", "changed", changed)
	if len(waiting) > 0 {
		d.log.Warn("these changes wait for a restart", "fields", waiting)
	}
}

func (d *daemon) reloadFailed(err error) {
	d.telemetry.reloads.WithLabelValues("failed").Inc()
	d.log.Error("reload failed; the last good configuration stays", "err", err.Error())
}
