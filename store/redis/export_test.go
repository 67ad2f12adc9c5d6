// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

// Known returns how many full keys a store knows of.
func Known(s *Store) int64 { return s.facts.known.Load() }
