// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"sync"
	"testing"
	"time"
)

func TestDurablesAnswerRightInARun(t *testing.T) {
	for _, d := range Durables() {
		t.Run(d.Name, func(t *testing.T) {
			f, err := DurableRun{Callers: 16, Keys: 500, For: 50 * time.Millisecond, Dir: t.TempDir()}.Do(d)
			if err != nil {
				t.Fatal(err)
			}
			if f.Wrong != 0 || f.PerSecond == 0 {
				t.Errorf("%d operations failed, of %.0f a second", f.Wrong, f.PerSecond)
			}
		})
	}
}

// Each caller must have keys of its own, or a bound's concurrency would be shared; and every key must be made.
func TestDurableRunTouchesEveryKey(t *testing.T) {
	const keys = 1000
	var mu sync.Mutex
	touched, busy := map[string]bool{}, map[string]bool{}
	spy := Durable{Open: func(string) (func(*Caller) error, func() error, error) {
		do := func(c *Caller) error {
			mu.Lock()
			if busy[c.ID] {
				t.Errorf("%s is asked by two callers at once", c.ID)
			}
			touched[c.ID], busy[c.ID] = true, true
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				busy[c.ID] = false
			}()
			return errors.New("no")
		}
		return do, func() error { return nil }, nil
	}}
	f, err := DurableRun{Callers: 16, Keys: keys, For: time.Millisecond}.Do(spy)
	if err != nil {
		t.Fatal(err)
	}
	if len(touched) != keys {
		t.Errorf("%d keys were touched, want %d", len(touched), keys)
	}
	if f.Wrong == 0 {
		t.Error("no failed operation was counted, and each failed")
	}
}
