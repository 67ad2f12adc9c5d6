// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/memory"
)

// opened is a store, the registry of links that it keeps, and its health.
type opened struct {
	*leaseCounter
	links   link.Registry
	trouble func() error // nil while counts are kept as they should be
}

// openStore opens the store that a configuration names.
func openStore(c *Config, t *telemetry) (opened, error) {
	o := opened{
		leaseCounter: newLeaseCounter(memory.New(memory.Options{OnClear: t.clears.WithLabelValues(ofLinks).Inc})),
		links:        memory.NewLinks(),
		trouble:      func() error { return nil },
	}
	t.countLeases(o.count)
	return o, nil
}
