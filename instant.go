// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost

import "time"

// Instant is a moment in Unix milliseconds. In a [Request] the zero Instant means "the
// store's own clock".
type Instant int64

// MaxInstant is the last instant that a request may name: the end of the year 9999.
const MaxInstant Instant = 253402300799999

// InstantOf returns t in Unix milliseconds, rounded down.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time returns the instant in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add returns the instant d later, in whole milliseconds.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i-j) * time.Millisecond }
