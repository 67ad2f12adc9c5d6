// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

// Package link is the bearer credential of Signpost and the registry of those that were minted.
//
// A link is "sp_" and 32 characters of base62: 190 bits, not guessable. Only its SHA-256 is ever
// stored, so a registry that leaks gives nobody a link.
package link

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"

	"github.com/signposthq/signpost"
)

const (
	prefix   = "sp_"
	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	random   = 32

	// Len is the length of a link in characters.
	Len = len(prefix) + random
)

// ErrMalformed is returned by Parse. It does not repeat what was parsed, which may be
// a credential with a slip in it.
var ErrMalformed = errors.New(`not a link: want "sp_" and 32 letters or digits`)

// Link is a bearer credential. It prints and logs as "sp_..."; only Reveal shows it. Links are told apart by their
// Hash. The zero Link is no link.
type Link struct {
	_ [0]func() // not comparable: == would compare the pointers
	// A pointer, because package fmt cannot call String on an unexported field of somebody's struct, and prints
	// what it finds there.
	text *string
}

// Mint returns a new link from crypto/rand. Each character is drawn without bias.
func Mint() Link {
	text := make([]byte, 0, Len)
	text = append(text, prefix...)
	var buf [2 * random]byte
	for len(text) < Len {
		rand.Read(buf[:]) // never fails, as crypto/rand documents
		for _, b := range buf {
			// 248 is the largest multiple of 62 in a byte: what is above would favour the first letters.
			if b < 248 && len(text) < Len {
				text = append(text, alphabet[b%62])
			}
		}
	}
	return of(string(text))
}

// Parse reads a link. Links are case-sensitive, and nothing around one is trimmed.
func Parse(s string) (Link, error) {
	if len(s) != Len || s[:len(prefix)] != prefix {
		return Link{}, ErrMalformed
	}
	for i := len(prefix); i < Len; i++ {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z') {
			return Link{}, ErrMalformed
		}
	}
	return of(s), nil
}

func of(text string) Link { return Link{text: &text} }

// Reveal returns the credential itself, to hand it to its holder, once.
func (l Link) Reveal() string {
	if l.text == nil {
		return ""
	}
	return *l.text
}

// String returns "sp_...", whatever the link.
func (l Link) String() string { return prefix + "..." }

// GoString is String, so that %#v shows no more than %v.
func (l Link) GoString() string { return l.String() }

// LogValue is String.
func (l Link) LogValue() slog.Value { return slog.StringValue(l.String()) }

// Hash returns what is stored of the link.
func (l Link) Hash() Hash {
	var text [Len]byte // on the stack
	return sha256.Sum256(append(text[:0], l.Reveal()...))
}

// Hash is the SHA-256 of a link.
type Hash [sha256.Size]byte

// ID returns the public name of the link: the first 16 hexadecimal digits of its hash. It
// is safe to log, and what people call the link by.
func (h Hash) ID() string {
	var text [16]byte
	hex.Encode(text[:], h[:8])
	return string(text[:])
}

// Key returns the link's key at no home. That of a Record is at its home.
func (h Hash) Key() signpost.Key { return signpost.KeyOf("link", string(h[:])) }
