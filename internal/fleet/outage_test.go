// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
)

// In an outage, too, processes whose clocks are wrong by more than a window decide by the server's, and what they owe is added to its windows.
func TestOutageWithWrongClocks(t *testing.T) {
	const owed, year = 5, 366 * 24 * time.Hour
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	var all []*process
	for _, skew := range []time.Duration{0, year + time.Hour, -year - time.Hour} {
		all = append(all, start(t, setup{URL: server.URL(), Guard: true}, skew))
	}
	q := signpost.Request{Key: signpost.KeyOf("fleet", "outage"), Bound: signpost.MustParseBound("1000/366d")}
	take := func(p *process) signpost.Decision {
		t.Helper()
		d, _, err := p.Take(t.Context(), q)
		if err != nil || !d.Admitted {
			t.Fatalf("take: admitted=%v, error %v", d.Admitted, err)
		}
		return d
	}
	want := uint32(0)
	for _, p := range all {
		take(p)
		want++
	}
	server.Kill()
	for _, p := range all {
		server.Eventually("the process has noticed", func() bool { return take(p).Degraded })
		for range owed {
			switch d := take(p); {
			case !d.Degraded:
				t.Error("a server that is down has answered")
			case d.At.Sub(signpost.InstantOf(time.Now())).Abs() > liveness:
				t.Errorf("in an outage a process decides for %v", d.At.Time())
			}
			want++
		}
	}
	server.Restart()
	// What was under way as the server went may have been counted, once for each process.
	server.Eventually("what was owed is counted", func() bool {
		d, _, err := all[0].Peek(t.Context(), q)
		used := d.Windows()[0].Used
		if used > want+uint32(len(all)) {
			t.Fatalf("%d are counted, of at most %d", used, want+uint32(len(all)))
		}
		return err == nil && !d.Degraded && used >= want
	})
}
