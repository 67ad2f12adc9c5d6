// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/store/memory"
)

// spoilt is a store that cannot read what it has of any key.
type spoilt struct{ signpost.Store }

func (spoilt) Take(context.Context, signpost.Request) (signpost.Decision, signpost.Commit, error) {
	return signpost.Decision{}, signpost.Commit{}, fmt.Errorf("%w: it is a list", signpost.ErrSpoilt)
}

// Keys that cannot be read are no outage, and the log does not grow with those who ask for them.
func TestSpoiltKeysInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		telemetry, none := newTelemetry(Build{}), &outages{causes: map[part]error{}}
		s, err := guarded("", spoilt{memory.New(memory.Options{})}, &Config{}, none, telemetry, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		q := signpost.Request{Key: signpost.KeyOf("test", "spoilt"), Bound: signpost.DefaultBound()}
		for range 2 {
			for range 100 {
				if d, _, err := s.Take(t.Context(), q); err != nil || !d.Admitted || !d.Degraded {
					t.Fatalf("take: admitted=%v, degraded=%v, error %v", d.Admitted, d.Degraded, err)
				}
			}
			time.Sleep(time.Minute)
		}
		text := log.String()
		if n := strings.Count(text, "\n"); n != 2 || strings.Count(text, q.Key.String()) != 2 || !strings.Contains(text, "it is a list") {
			t.Errorf("in two minutes the log has %d lines, want 2 that name the key and the cause:\n%s", n, text)
		}
		if none.at("") != nil {
			t.Errorf("an outage: %v", none.at(""))
		}
	})
}

// away is a store that nobody can reach.
type away struct{ signpost.Store }

func (away) Take(context.Context, signpost.Request) (signpost.Decision, signpost.Commit, error) {
	return signpost.Decision{}, signpost.Commit{}, fmt.Errorf("%w: %w", signpost.ErrUnreachable, signpost.ErrNotCharged)
}

// In an outage with more keys than the fallback holds, counts are dropped all the time, and the log does not grow with that.
func TestDroppedDebtInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		telemetry, outages := newTelemetry(Build{}), &outages{causes: map[part]error{}}
		s, err := guarded("", away{memory.New(memory.Options{})}, &Config{}, outages, telemetry, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		const minutes, keys = 3, 5 * failopen.DefaultFallbackKeys
		for minute := range minutes {
			for i := range keys {
				q := signpost.Request{Key: signpost.KeyOf("test", fmt.Sprint(minute, i)), Bound: signpost.DefaultBound()}
				if d, _, err := s.Take(t.Context(), q); err != nil || !d.Admitted || !d.Degraded {
					t.Fatalf("take: admitted=%v, degraded=%v, error %v", d.Admitted, d.Degraded, err)
				}
			}
			time.Sleep(time.Minute)
		}
		text := log.String()
		if n := strings.Count(text, "will not reach the store"); n != minutes {
			t.Errorf("in %d minutes the log has %d lines on counts that were dropped:\n%s", minutes, n, text)
		}
		// The first line of each minute is of what was dropped until then.
		if want := fmt.Sprintf("keys=%d", keys); !strings.Contains(text, want) {
			t.Errorf("no line has %s:\n%s", want, text)
		}
	})
}
