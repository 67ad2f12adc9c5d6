// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package link_test

import (
	"context"
	"fmt"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/link"
	"github.com/signposthq/signpost/store/memory"
)

// A link is minted and registered, the holder sends it, and it is revoked.
func Example() {
	ctx := context.Background()
	var registry link.Registry = memory.NewLinks()

	minted := link.Mint()
	record := link.NewRecord(minted, link.Owner, "nightly build", time.Now())
	record.Bound = signpost.MustParseBound("60/min 4 concurrent")
	if err := registry.Add(ctx, record); err != nil {
		fmt.Println("not registered:", err)
		return
	}
	sent := minted.Reveal() // once, to the holder; the registry could not tell it again

	// A request comes in. Nothing is looked up, or counted, for what is not a link.
	presented, err := link.Parse(sent)
	if err != nil {
		fmt.Println("401:", err)
		return
	}
	known, err := registry.Resolve(ctx, presented.Hash())
	fmt.Println(presented, known.Label, known.HeldTo(signpost.DefaultBound()), err)

	if _, err := registry.Revoke(ctx, presented.Hash().ID(), time.Now()); err != nil {
		fmt.Println("not revoked:", err)
		return
	}
	_, err = registry.Resolve(ctx, presented.Hash())
	fmt.Println(err)

	// Output:
	// sp_... nightly build 60/min 4 concurrent <nil>
	// unknown link
}
