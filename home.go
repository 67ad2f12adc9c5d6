// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnknownHome is wrapped by the error of a store of several homes that was asked for a key of none of them.
var ErrUnknownHome = errors.New("home is not known to this process")

// MaxHome is the length of the longest name of a home, in bytes.
const MaxHome = 16

// Home names the place where a key is counted, of several that are far apart. Homes are comparable. The zero Home is no
// place in particular: the one store that there is, or the one that a store of several homes keeps for such keys.
type Home struct{ name [MaxHome]byte }

// ParseHome returns the home of a name: 1 to MaxHome lower-case letters, digits and hyphens. "" is the zero Home.
func ParseHome(name string) (Home, error) {
	var h Home
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	if len(name) > MaxHome || strings.ContainsFunc(name, odd) {
		return Home{}, fmt.Errorf("home %q is not a name of 1 to %d lower-case letters, digits and hyphens", name, MaxHome)
	}
	copy(h.name[:], name)
	return h, nil
}

// IsZero reports whether h is no place in particular.
func (h Home) IsZero() bool { return h == Home{} }

// String returns the name.
func (h Home) String() string { return strings.TrimRight(string(h.name[:]), "\x00") }

// MarshalText returns the name.
func (h Home) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is ParseHome.
func (h *Home) UnmarshalText(name []byte) (err error) {
	*h, err = ParseHome(string(name))
	return err
}

// In returns the key at a home. A store of several homes counts it there and nowhere else; one that is in one place
// has no use for homes, and counts the key as it would without.
func (k Key) In(h Home) Key {
	k.home = h
	return k
}

// Home returns where the key is counted.
func (k Key) Home() Home { return k.home }
