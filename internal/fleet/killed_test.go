// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
)

// A process that is killed frees its slots when their leases expire, on the server's clock: not one before, and none of those
// that a process which lives has renewed.
func TestKilledProcessFreesItsSlots(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	killed, lives, next := start(t, setup{URL: url}, wrong[3]), start(t, setup{URL: url}, wrong[4]), start(t, setup{URL: url}, wrong[2])
	q := signpost.Request{Key: signpost.KeyOf("fleet", "killed"), Bound: signpost.MustParseBound("10000/hour 10 concurrent"), Expensive: true}
	take := func(p *process) signpost.Decision {
		t.Helper()
		q.LeaseID = signpost.NewLeaseID()
		d, _, err := p.Take(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	var ends []signpost.Instant // when the slots of the killed process are free, first to last
	var held []signpost.Lease   // by the one that lives
	for range 6 {
		d := take(killed)
		ends = append(ends, d.Lease.Expires)
	}
	for range 4 {
		held = append(held, take(lives).Lease)
	}
	killed.kill()
	if d := take(next); d.Admitted || d.InUse != 10 || d.At.Add(d.RetryAfter()) != ends[0] {
		t.Fatalf("as the process is killed: admitted=%v with %d in use, free at %d; want 10 until %d", d.Admitted, d.InUse, d.At.Add(d.RetryAfter()), ends[0])
	}
	renewed := time.Now()
	for freed := 0; freed < len(ends); time.Sleep(10 * time.Millisecond) {
		if time.Since(renewed) > signpost.LeaseLife/6 {
			renewed = time.Now()
			for i := range held {
				l, err := lives.Renew(t.Context(), held[i], 0)
				if err != nil {
					t.Fatalf("renew a lease of the process that lives: %v", err)
				}
				held[i] = l
			}
		}
		d := take(next)
		if !d.Admitted {
			if d.At >= ends[freed] {
				t.Fatalf("refused at %d, when the slot had been free since %d", d.At, ends[freed])
			}
			continue
		}
		if d.At < ends[freed] {
			t.Fatalf("the slot was granted at %d, before %d", d.At, ends[freed])
		}
		freed++
	}
	if d := take(next); d.Admitted || d.InUse != 10 {
		t.Errorf("with six slots granted again and four renewed: admitted=%v with %d in use", d.Admitted, d.InUse)
	}
}
