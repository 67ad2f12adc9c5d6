// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost_test

import (
	"strings"
	"testing"

	"github.com/signposthq/signpost"
)

func TestParseHome(t *testing.T) {
	for _, name := range []string{"", "eu", "eu-west-1", "ap-southeast-2", strings.Repeat("x", signpost.MaxHome)} {
		h, err := signpost.ParseHome(name)
		if err != nil || h.String() != name || h.IsZero() != (name == "") {
			t.Errorf("%q: %q, zero %v, error %v", name, h, h.IsZero(), err)
		}
		var read signpost.Home
		text, _ := h.MarshalText()
		if err := read.UnmarshalText(text); err != nil || read != h {
			t.Errorf("%q: read as %q, error %v", text, read, err)
		}
	}
	for _, name := range []string{"EU", "eu west", "eu=", "ü", "\x00", "eu\x00", strings.Repeat("x", signpost.MaxHome+1)} {
		if h, err := signpost.ParseHome(name); err == nil || !h.IsZero() {
			t.Errorf("%q is taken for the home %q", name, h)
		}
	}
}

func TestKeyInHome(t *testing.T) {
	eu, err := signpost.ParseHome("eu")
	if err != nil {
		t.Fatal(err)
	}
	k := signpost.KeyOf("link", "x")
	there := k.In(eu)
	if there == k || there.Home() != eu || there.In(signpost.Home{}) != k || there.Digest() != k.Digest() || there.Tag() != k.Tag() {
		t.Errorf("key %v, at home %v", k, there)
	}
	if !(signpost.Key{}).In(eu).IsZero() {
		t.Error("no key at a home is a key")
	}
}
