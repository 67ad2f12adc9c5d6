// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"log/slog"
	"sync"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/door/render"
)

// maxRefused is how many refused keys are remembered. Past it all are forgotten at once, which
// costs a second line for some of them.
const maxRefused = 4096

// refusals logs the first refusal of a key until the bounds that refused it can admit again:
// a line for each loop that ran into its bound, none for its turns.
type refusals struct {
	log *slog.Logger

	mu    sync.Mutex
	until map[signpost.Key]signpost.Instant
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, until: map[signpost.Key]signpost.Instant{}}
}

// see is told of every refusal. The link is the ID of the one that was refused, or "": an address is logged by its
// key alone.
func (r *refusals) see(door, link string, k signpost.Key, d *signpost.Decision) {
	if !r.first(k, d) {
		return
	}
	attrs := []any{"door", door, "key", k.String(), "bounds", render.Violated(d),
		"never", d.Never, "degraded", d.Degraded, "retry_after_seconds", d.RetryAfterSeconds()}
	if link != "" {
		attrs = append(attrs, "link", link)
	}
	r.log.Info("first refusal of a key", attrs...)
}

// first reports whether the key was not refused before for as long as this refusal holds.
func (r *refusals) first(k signpost.Key, d *signpost.Decision) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until[k] > d.At {
		return false
	}
	if len(r.until) >= maxRefused {
		clear(r.until)
	}
	r.until[k] = quietUntil(d)
	return true
}

// quietUntil returns the end of the window that refused. What no window refused, a full
// concurrency or what can never pass, is quiet for a minute.
func quietUntil(d *signpost.Decision) signpost.Instant {
	until := d.At.Add(time.Minute)
	if d.Never {
		return until
	}
	for _, w := range d.Windows() {
		if w.Refused {
			until = render.Reset(d, w) // the longest window comes last
		}
	}
	return until
}
