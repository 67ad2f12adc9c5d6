// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/signposthq/signpost"
)

func TestKeyGolden(t *testing.T) {
	for _, want := range readGolden(t).Keys {
		k := signpost.KeyOf(want.Namespace, want.ID)
		if want.InTag != nil {
			k = signpost.KeyIn(*want.InTag, want.Namespace, want.ID)
		}
		digest, tag := k.Digest(), k.Tag()
		if hex.EncodeToString(digest[:]) != want.Digest || hex.EncodeToString(tag[:]) != want.Tag {
			t.Errorf("%+v: digest %x, tag %x", want, digest, tag)
		}
		if restored := signpost.RestoreKey(digest, tag); restored != k {
			t.Errorf("RestoreKey gave %v for %v", restored, k)
		}
		if k.IsZero() || k.String() != want.Digest[:12] {
			t.Errorf("%v: IsZero %v, want false; String, want %s", k, k.IsZero(), want.Digest[:12])
		}
	}
}

// No two different pairs of parts make one key, wherever a separator might be guessed.
func TestKeysDoNotCollide(t *testing.T) {
	part := rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune{'a', 'b', ':', '|', '/', 0, '\n', '{', '}'}), 0, 4, -1),
		rapid.String(),
	)
	rapid.Check(t, func(t *rapid.T) {
		a := [3]string{part.Draw(t, "tag"), part.Draw(t, "namespace"), part.Draw(t, "id")}
		b := [3]string{part.Draw(t, "tag"), part.Draw(t, "namespace"), part.Draw(t, "id")}
		if rapid.Bool().Draw(t, "moved border") { // the same bytes, cut elsewhere
			all := a[1] + a[2]
			cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
			b = [3]string{a[0], all[:cut], all[cut:]}
		}
		if x, y := signpost.KeyOf(a[1], a[2]), signpost.KeyOf(b[1], b[2]); (x == y) != (a[1] == b[1] && a[2] == b[2]) {
			t.Fatalf("KeyOf(%q, %q) == KeyOf(%q, %q): %v", a[1], a[2], b[1], b[2], x == y)
		}
		x, y := signpost.KeyIn(a[0], a[1], a[2]), signpost.KeyIn(b[0], b[1], b[2])
		if (x == y) != (a == b) {
			t.Fatalf("KeyIn(%q) == KeyIn(%q): %v", a, b, x == y)
		}
		if (x.Tag() == y.Tag()) != (a[0] == b[0]) {
			t.Fatalf("tags of %q and %q are equal: %v", a[0], b[0], x.Tag() == y.Tag())
		}
		if x.Digest() == signpost.KeyOf(a[1], a[2]).Digest() {
			t.Fatalf("a key with the tag %q is the key without one", a[0])
		}
	})
}

// The digest is not cut short: of so many ids, 32 bits of it would be the same for ten pairs.
func TestManyKeysAreDistinct(t *testing.T) {
	seen := make(map[[32]byte]struct{}, 300_000)
	for i := range 300_000 {
		seen[signpost.KeyOf("link", fmt.Sprint(i)).Digest()] = struct{}{}
	}
	if len(seen) != 300_000 {
		t.Errorf("%d keys of 300,000 ids", len(seen))
	}
}

func TestKeyNeverShowsItsText(t *testing.T) {
	const secret = "sp_0123456789abcdefghijABCDEFGHIJKL"
	k := signpost.KeyOf("link", secret)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if text := fmt.Sprintf(format, k); strings.Contains(text, secret) || strings.Contains(text, hex.EncodeToString([]byte(secret))) {
			t.Errorf("%s shows the id: %s", format, text)
		}
	}
	if k.LogValue().String() != k.String() {
		t.Errorf("a log shows %s of key %s", k.LogValue(), k)
	}
	if !(signpost.Key{}).IsZero() || k.IsZero() {
		t.Error("IsZero is not true of the zero Key alone")
	}
}
