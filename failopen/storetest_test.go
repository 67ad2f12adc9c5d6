// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package failopen_test

import (
	"testing"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/store/memory"
	"github.com/signposthq/signpost/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Options{
		Open: func(t testing.TB) signpost.Store { return around(t, memory.New(memory.Options{})) },
	})
}

// around returns a Store that any failure of the store inside fails the test of.
func around(t testing.TB, inner signpost.Store) signpost.Store {
	s, err := failopen.New(inner, failopen.Options{Hooks: failopen.Hooks{
		Failed: func(_ string, _ failopen.Kind, err error) { t.Errorf("the store inside failed: %v", err) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
