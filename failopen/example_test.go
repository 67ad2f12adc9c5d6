// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/store/memory"
)

// away is a store that cannot be reached.
type away struct{ signpost.Store }

func (away) Take(context.Context, signpost.Request) (signpost.Decision, signpost.Commit, error) {
	return signpost.Decision{}, signpost.Commit{}, fmt.Errorf("take: %w: %w", signpost.ErrUnreachable, errors.New("connection refused"))
}

func Example() {
	store, err := failopen.New(away{memory.New(memory.Options{})}, failopen.Options{
		Expensive: failopen.Deny,
		Hooks: failopen.Hooks{
			Degraded: func(slice string, kind failopen.Kind, cause error) { log.Printf("degraded (%s): %v", kind, cause) },
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter := signpost.New(store, signpost.Options{})

	q := signpost.Request{Key: signpost.KeyOf("link", "ci"), Bound: signpost.MustParseBound("2/366d 10 concurrent")}
	for range 3 {
		d, err := limiter.Take(context.Background(), q)
		fmt.Println("admitted:", d.Admitted, "degraded:", d.Degraded, err)
	}
	q.Expensive = true
	d, err := limiter.Take(context.Background(), q)
	fmt.Println("admitted:", d.Admitted, "degraded:", d.Degraded, "retry after:", d.RetryAfter(), err)
	// Output:
	// admitted: true degraded: true <nil>
	// admitted: true degraded: true <nil>
	// admitted: false degraded: true <nil>
	// admitted: false degraded: true retry after: 1s <nil>
}
