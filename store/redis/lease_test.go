// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/redis"
)

// However many leases are still to be given back, and however slowly the server takes them, a program that ends does not wait for all.
func TestCloseDoesNotWaitForEveryLease(t *testing.T) {
	slow := redistest.NewProxy(t, redistest.Start(t).Addr)
	s := open(t, redis.Options{URL: slow.URL()})
	slow.Delay(300 * time.Millisecond)
	for i := range 8000 { // 32 batches, each 600 ms
		s.Release(signpost.Lease{Key: signpost.KeyOf("leases", strconv.Itoa(i)), ID: signpost.LeaseID{1}, Expires: 1})
	}
	began := time.Now()
	s.Close()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Close took %v, want two or three seconds", took)
	}
}
