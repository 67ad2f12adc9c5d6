// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/failopen"
	"github.com/signposthq/signpost/store/memory"
)

// closing tells that it was closed.
type closing struct {
	signpost.Store
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return c.Store.Close()
}

// When one home cannot be opened, all that was opened is closed: that of links without a home, and that of homes nobody knows.
func TestHomeThatCannotBeOpened(t *testing.T) {
	home, err := signpost.ParseHome("eu")
	if err != nil {
		t.Fatal(err)
	}
	main, elsewhere := &closing{Store: memory.New(memory.Options{})}, &closing{Store: memory.New(memory.Options{})}
	s, err := openHomes(t.Context(), &Config{Homes: []homeServer{{home, "redis://127.0.0.1:no-port"}}}, main, elsewhere, slog.New(slog.DiscardHandler),
		func(_ string, inner signpost.Store) (counts, error) {
			return failopen.New(inner, failopen.Options{})
		})
	if err == nil || s != nil || !strings.Contains(err.Error(), "home eu: ") {
		t.Fatalf("store %v, error %v; want one that names the home", s, err)
	}
	if main.closed != 1 || elsewhere.closed != 1 {
		t.Errorf("closed %d and %d times, want once each", main.closed, elsewhere.closed)
	}
}
