// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package signpost

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
)

// Key is what a count belongs to. It holds a SHA-256 digest and never the text it was
// made from, so a store, a log or a metric that sees a Key sees no credential. Keys are comparable.
// The zero Key is no key; taking with it is an error.
type Key struct {
	digest [32]byte
	tag    [8]byte
	home   Home
}

// KeyOf returns the key of an id in a namespace. The parts are length-prefixed
// before they are hashed, so no two different pairs make the same key.
func KeyOf(namespace, id string) Key {
	var k Key
	k.digest = digest(domainKey, namespace, id)
	copy(k.tag[:], k.digest[:])
	return k
}

// KeyIn is KeyOf for keys that are taken together: keys with the same tag are kept in
// the same place by a store that is spread over several. The tag is part of the key.
func KeyIn(tag, namespace, id string) Key {
	var k Key
	k.digest = digest(domainTaggedKey, tag, namespace, id)
	t := digest(domainTag, tag)
	copy(k.tag[:], t[:])
	return k
}

// RestoreKey is for stores and wires that carry a key as its parts, as
// returned by [Key.Digest] and [Key.Tag]. Its home, if it has one, is to be added with [Key.In].
func RestoreKey(digest [32]byte, tag [8]byte) Key { return Key{digest: digest, tag: tag} }

// Digest returns the 32 bytes that tell this key from every other.
func (k Key) Digest() [32]byte { return k.digest }

// Tag returns the 8 bytes by which a store that is spread over several places routes the key.
func (k Key) Tag() [8]byte { return k.tag }

// IsZero reports whether k is no key, whatever its home.
func (k Key) IsZero() bool { return k.tag == [8]byte{} && k.digest == [32]byte{} } // the short comparison settles it nearly always

// String returns the first 12 hexadecimal digits of the digest: enough to find a key in a
// log, too little to be one.
func (k Key) String() string { return hex.EncodeToString(k.digest[:6]) }

// LogValue is String, so that a log shows no more of a key.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// What a digest is of is part of the digest, so that a tag is never a key.
const (
	domainKey       = "signpost key 1"
	domainTaggedKey = "signpost tagged key 1"
	domainTag       = "signpost tag 1"
)

func digest(domain string, parts ...string) [32]byte {
	var stack [256]byte
	b := append(stack[:0], domain...)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	return sha256.Sum256(b)
}
