// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/signposthq/signpost/internal/state"
)

// TestOpenReadsNoKeys opens a store of many keys: none of them is in memory, and each can be taken from.
func TestOpenReadsNoKeys(t *testing.T) {
	dir := t.TempDir()
	e := mustOpenEngine(t, dir, vfs.Default)
	w := e.write()
	value := appendWindows(nil, []state.Window{{Start: t0, Seconds: 60, Used: 7}, {Start: t0, Seconds: 3600, Used: 7}})
	const keys = 100_000
	for i := range uint64(keys) {
		var n id
		binary.BigEndian.PutUint64(n[:], i*0x9e3779b97f4a7c15)
		if err := w.put(countKind.of(n), value); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		w.put(countKind.of(idOf(keyOf(i))), value)
	}
	if err := w.commit(); err != nil {
		t.Fatal(err)
	}
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir, Options{})
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys are in memory", n)
	}
	for i := range 100 {
		wantUsed(t, s, i, 7)
	}
	wantUsed(t, s, 100, 0)
}

// TestEviction takes from more keys than memory may hold. None is forgotten, and memory stays what it was.
func TestEviction(t *testing.T) {
	const most, keys, rounds = 100, 1000, 3
	s := mustOpen(t, t.TempDir(), Options{MaxKeys: most})
	for range rounds {
		for i := range keys {
			if d := take(t, s, request(i)); d.Degraded || !d.Admitted {
				t.Fatalf("admitted=%v degraded=%v", d.Admitted, d.Degraded)
			}
		}
	}
	if st := s.Stats(); st.Keys > 2*most || st.Forgotten > 0 {
		t.Errorf("%d keys in memory of %d at most, %d forgotten", st.Keys, most, st.Forgotten)
	}
	for i := range keys {
		wantUsed(t, s, i, rounds)
	}
}
