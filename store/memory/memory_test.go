// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"testing"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/store/memory"
	"github.com/signposthq/signpost/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Options{
		Open: func(testing.TB) signpost.Store { return memory.New(memory.Options{}) },
	})
}
