// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import "time"

// Known returns how many full keys a store knows of.
func Known(s *Store) int64 { return s.facts.known.Load() }

// Age lets time pass for what a registry remembers.
func Age(l *Links, d time.Duration) { l.known.began = l.known.began.Add(-d) }
