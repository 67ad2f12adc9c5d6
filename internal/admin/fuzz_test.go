// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"testing"
	"time"

	"github.com/signposthq/signpost"
)

// Whatever is asked for, a link ends after it begins, at an instant that a store can hold, or the text is refused.
func FuzzExpiry(f *testing.F) {
	for _, seed := range []string{"90d", "12h", "0d", "-1h", "65535d", "65536d", "2030-01-31T00:00:00Z", "9999-12-31T23:59:59.9999Z", "0000-01-01T00:00:00Z", "9223372036s", "1ns", "d", ""} {
		f.Add(seed)
	}
	now := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseExpiry(text, now)
		if err == nil && (!at.After(now) || at.After(signpost.MaxInstant.Time()) || at.Location() != time.UTC) {
			t.Errorf("%q ends at %v", text, at)
		}
	})
}
