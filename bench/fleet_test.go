// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"
	"time"
)

func TestSharedSubjectsAnswerRightInARun(t *testing.T) {
	addr, stop, err := StartRedis(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for _, s := range SharedSubjects() {
		t.Run(s.Name, func(t *testing.T) {
			f, err := SharedRun{Callers: 4, Keys: 200, For: 50 * time.Millisecond, Addr: addr}.Do(s)
			if err != nil {
				t.Fatal(err)
			}
			if f.Wrong != 0 || f.PerSecond == 0 || f.P50Us <= 0 || f.P99Us < f.P50Us {
				t.Errorf("%d wrong of %.0f a second, in %.0f us and %.0f us", f.Wrong, f.PerSecond, f.P50Us, f.P99Us)
			}
		})
	}
}

func TestLinksRun(t *testing.T) {
	addr, stop, err := StartRedis(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	f, err := LinksRun{Links: 2000, Callers: 4, For: 50 * time.Millisecond, Addr: addr}.Do()
	if err != nil {
		t.Fatal(err)
	}
	// A name of 59 bytes and a value of 27 are there at least.
	if f.Wrong != 0 || f.PerSecond == 0 || f.ServerUs <= 0 || f.Bytes < 59+27 || f.Bytes > 1000 || f.LeaseBytes < 59 || f.LeaseBytes > 1000 {
		t.Errorf("%+v", f)
	}
}
