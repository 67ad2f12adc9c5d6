// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/clock"
)

func TestNowIsTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.New()
		for _, step := range []time.Duration{
			0, time.Microsecond, time.Millisecond, 998 * time.Millisecond, time.Nanosecond, time.Second, 999_999_999, time.Hour, 40 * 24 * time.Hour, 1500 * time.Millisecond,
		} {
			time.Sleep(step)
			if got, want := c.Now(), signpost.InstantOf(time.Now()); got != want {
				t.Fatalf("%v later: %d, want %d", step, got, want)
			}
		}
	})
}

// Readers on several goroutines never see the clock run ahead of what time.Now tells after, nor behind what it told
// before, by more than the parts of a millisecond that rounding takes.
func TestNowFromManyGoroutines(t *testing.T) {
	c := clock.New()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10_000 {
				before, now, after := signpost.InstantOf(time.Now()), c.Now(), signpost.InstantOf(time.Now())
				if now < before-1 || now > after+1 {
					t.Errorf("%d is not from %d to %d", now, before, after)
					return
				}
			}
		})
	}
	wg.Wait()
}
