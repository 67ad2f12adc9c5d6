// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/redis"
)

// nobody is where no server listens, so that the examples show what a program does until there is one.
const nobody = "redis://127.0.0.1:1"

// A program starts without its server, and works as soon as the server does. Until then it counts by itself, and says so.
func ExampleOpen() {
	ctx := context.Background()
	shared, err := redis.Open(ctx, redis.Options{URL: nobody})
	if err != nil {
		log.Fatal(err) // the options are wrong, or the server turned this program away
	}
	store, err := failopen.New(shared, failopen.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close() // and shared with it
	limiter := signpost.New(store, signpost.Options{})

	q := signpost.Request{Key: signpost.KeyOf("link", "ci"), Bound: signpost.MustParseBound("1/day")}
	for range 2 {
		d, err := limiter.Take(ctx, q)
		fmt.Println("admitted:", d.Admitted, "degraded:", d.Degraded, err)
	}
	// Output:
	// admitted: true degraded: true <nil>
	// admitted: false degraded: true <nil>
}

// While the server cannot be asked, a link that was not read before is neither known nor unknown: that is a 503, and no 401.
func ExampleOpenLinks() {
	ctx := context.Background()
	links, err := redis.OpenLinks(ctx, redis.Options{URL: nobody})
	if err != nil {
		log.Fatal(err)
	}
	defer links.Close()

	_, err = links.Resolve(ctx, link.Mint().Hash())
	fmt.Println("unavailable:", errors.Is(err, link.ErrUnavailable), "unknown:", errors.Is(err, link.ErrUnknown))
	// Output: unavailable: true unknown: false
}
