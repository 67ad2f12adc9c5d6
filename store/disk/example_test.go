// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk_test

import (
	"context"
	"fmt"
	"os"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/disk"
)

// The count is there when the store is opened again.
func Example() {
	dir, err := os.MkdirTemp("", "signpost")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	request := signpost.Request{
		Key:   signpost.KeyOf("job", "nightly"),
		Bound: signpost.MustParseBound("2/366d"),
	}
	for range 3 {
		store, err := disk.Open(dir, disk.Options{})
		if err != nil {
			panic(err)
		}
		d, err := signpost.New(store, signpost.Options{}).Take(context.Background(), request)
		if err != nil {
			panic(err)
		}
		fmt.Println("admitted:", d.Admitted, "remaining:", d.Windows()[0].Remaining())
		if err := store.Close(); err != nil {
			panic(err)
		}
	}
	// Output:
	// admitted: true remaining: 1
	// admitted: true remaining: 0
	// admitted: false remaining: 0
}
