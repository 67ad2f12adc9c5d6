// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/signposthq/signpost"
)

// The windows of a key as lua/state.lua describes them.
const (
	stateVersion = 1
	recordSize   = 4 + 5 + 4
	maxLengths   = 8
)

// checkState says what is wrong with the windows that a server returned.
func checkState(state string) error {
	switch {
	case state == "":
		return nil
	case state[0] != stateVersion, (len(state)-1)%recordSize != 0, (len(state)-1)/recordSize > maxLengths:
		return fmt.Errorf("windows of %d bytes are malformed", len(state))
	}
	return nil
}

// record is one window of a state.
type record struct {
	seconds uint32
	start   signpost.Instant
	used    uint32
}

// recordAt reads the i-th record of a state that has been checked, and reports whether there is one.
func recordAt(state string, i int) (r record, ok bool) {
	at := 1 + i*recordSize
	if at+recordSize > len(state) {
		return record{}, false
	}
	b := state[at : at+recordSize]
	r.seconds = be32(b)
	number := int64(b[4])<<32 | int64(be32(b[5:]))
	r.start = signpost.Instant(number) * signpost.Instant(r.seconds) * 1000
	r.used = be32(b[9:])
	return r, true
}

// stored returns the window of a length in a state that has been checked; the zero RawWindow if there is none.
func stored(state string, seconds uint32) signpost.RawWindow {
	for i := 0; ; i++ {
		r, ok := recordAt(state, i)
		if !ok {
			return signpost.RawWindow{}
		}
		if r.seconds == seconds {
			return signpost.RawWindow{Start: r.start, Used: r.used}
		}
	}
}

// appendRecords appends counts as records, one for an interval. What cannot be of any interval is left out, and
// what is above the lengths that a key can have.
func appendRecords(b []byte, counts []signpost.Count) []byte {
	counts = counts[:min(len(counts), maxLengths)]
	for i, c := range counts {
		ms := signpost.Instant(c.Len / time.Millisecond)
		same := func(o signpost.Count) bool { return o.Len == c.Len && o.Start == c.Start }
		if c.Len < signpost.MinWindowLen || c.Len%time.Second != 0 || c.Start%ms != 0 || slices.ContainsFunc(counts[:i], same) {
			continue
		}
		used := uint64(c.Used)
		for _, o := range counts[i+1:] {
			if same(o) {
				used += uint64(o.Used)
			}
		}
		number := uint64(c.Start / ms)
		b = binary.BigEndian.AppendUint32(b, uint32(c.Len/time.Second))
		b = binary.BigEndian.AppendUint32(append(b, byte(number>>32)), uint32(number))
		b = binary.BigEndian.AppendUint32(b, uint32(min(used, math.MaxUint32)))
	}
	return b
}

func be32(s string) uint32 {
	return uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
}

func be64(s string) int64 { return int64(be32(s))<<32 | int64(be32(s[4:])) }
