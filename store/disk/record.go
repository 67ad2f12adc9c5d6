// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
)

// id is what the store keeps of a digest, of a key's or of a link's: 128 bits.
type id [16]byte

func idOf(k signpost.Key) id {
	d := k.Digest()
	return id(d[:16])
}

// key is the name of a record. Records are ordered by it.
type key [17]byte

// kind is the first byte of a key.
type kind byte

const (
	countKind kind = 'c' // the windows of a key
	linkKind  kind = 'l' // a link
	seenKind  kind = 's' // when a link was last seen
	tryKind   kind = 't' // a try link that may be alive, and until when
	metaKind  kind = 'm' // what is known of the store
)

var versionKey = metaKind.of(id{})

func (k kind) of(i id) (n key) {
	n[0] = byte(k)
	copy(n[1:], i[:])
	return n
}

func (n key) kind() kind { return kind(n[0]) }
func (n key) id() id     { return id(n[1:]) }

// A record is a key and a value: what the key is now, never what was added. An empty value says that there is nothing any more.
type record struct {
	key   key
	value []byte
}

// appendWindows encodes the value of a count: for each window its length in seconds, its start and what is used.
func appendWindows(b []byte, windows []state.Window) []byte {
	for _, w := range windows {
		b = binary.AppendUvarint(b, uint64(w.Seconds))
		b = binary.AppendUvarint(b, uint64(w.Start))
		b = binary.AppendUvarint(b, uint64(w.Used))
	}
	return b
}

// parseWindows reads what appendWindows wrote, into buf.
func parseWindows(buf []state.Window, value []byte) ([]state.Window, error) {
	for len(value) > 0 {
		var fields [3]uint64
		for i := range fields {
			v, used := binary.Uvarint(value)
			if used <= 0 {
				return nil, fmt.Errorf("count ends early")
			}
			fields[i], value = v, value[used:]
		}
		if fields[0] == 0 || fields[0] > math.MaxUint32 || fields[1] > uint64(signpost.MaxInstant) || fields[2] > math.MaxUint32 || len(buf) == state.MaxLengths {
			return nil, fmt.Errorf("count is out of range")
		}
		buf = append(buf, state.Window{Seconds: uint32(fields[0]), Start: signpost.Instant(fields[1]), Used: uint32(fields[2])})
	}
	return buf, nil
}
