// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package homes_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/homes"
	"github.com/signposthq/signpost/store/memory"
)

// A key is counted at its home. In a fleet the stores are on servers, each with a failopen.Store around it.
func Example() {
	home := func(name string) signpost.Home {
		h, err := signpost.ParseHome(name)
		if err != nil {
			log.Fatal(err)
		}
		return h
	}
	store, err := homes.New(map[signpost.Home]signpost.Store{
		home("eu"): memory.New(memory.Options{}),
		home("us"): memory.New(memory.Options{}),
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter := signpost.New(store, signpost.Options{})

	ci := signpost.KeyOf("link", "ci")
	for _, name := range []string{"eu", "us", "eu", "mars"} {
		d, err := limiter.Take(context.Background(), signpost.Request{Key: ci.In(home(name)), Bound: signpost.MustParseBound("1/day")})
		fmt.Println(name, d.Admitted, errors.Is(err, signpost.ErrUnknownHome))
	}
	// Output:
	// eu true false
	// us true false
	// eu false false
	// mars false true
}
