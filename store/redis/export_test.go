// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"time"

	"github.com/signposthq/signpost"
)

// Known returns how many full keys a store knows of.
func Known(s *Store) int64 { return s.facts.known.Load() }

// RefuseLate has a caller that looked at the clock some time ago be refused by what is known now.
func RefuseLate(s *Store, q signpost.Request, ago time.Duration) (d signpost.Decision, refused bool) {
	refused = s.facts.refuse(&q, s.facts.now()-ago, &d)
	return d, refused
}

// LearnLate has a refusal arrive that was asked for some time ago.
func LearnLate(s *Store, q signpost.Request, d signpost.Decision, ago time.Duration) {
	raw := signpost.Raw{Now: d.At}
	for i, w := range d.Windows() {
		raw.Windows[i] = signpost.RawWindow{Start: w.Start, Used: w.Used}
	}
	s.facts.learn(&q, &raw, &d, s.facts.now()-ago)
}

// Age lets time pass for what a registry remembers.
func Age(l *Links, d time.Duration) { l.known.began = l.known.began.Add(-d) }
