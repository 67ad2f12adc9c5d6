// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"encoding/binary"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/state"
)

// id is what a table keeps of a key: 192 bits of its digest, so that a cell is one cache line.
type id [24]byte

func idOf(k signpost.Key) id {
	d := k.Digest()
	return id(d[:24])
}

// hash returns the bits that place an id. A digest is evenly spread as it is.
func (d *id) hash() uint32 { return binary.LittleEndian.Uint32(d[:4]) }

// cell is one key.
type cell struct {
	id    id
	state state.State
}

// table is a hash table with linear probing. A Go map would do; this one takes half the memory and half the
// time, because an id is its own hash and a cell is in one piece. The zero table is empty.
type table struct {
	cells  []cell // in no order, without holes
	slots  []slot // a power of two of them, at most three quarters in use
	cursor int    // the cell where the next sweep begins
}

// slot is empty (0), or points to a cell: its hash above, its number plus 1 below.
type slot uint64

func newSlot(hash uint32, number int) slot { return slot(hash)<<32 | slot(number+1) }
func (s slot) hash() uint32                { return uint32(s >> 32) }
func (s slot) number() int                 { return int(uint32(s)) - 1 }

const minSlots = 8

// find returns the slot of an id, or the empty one where it would go.
func (t *table) find(d *id) (at uint32, ok bool) {
	hash, mask := d.hash(), uint32(len(t.slots)-1)
	for at = hash & mask; ; at = (at + 1) & mask {
		s := t.slots[at]
		if s == 0 {
			return at, false
		}
		if s.hash() == hash && t.cells[s.number()].id == *d {
			return at, true
		}
	}
}

// number returns the number of an id's cell.
func (t *table) number(d *id) (number int, ok bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	at, ok := t.find(d)
	return t.slots[at].number(), ok
}

// get returns the state of an id, or nil. It is valid until the next put or delete.
func (t *table) get(d *id) *state.State {
	if number, ok := t.number(d); ok {
		return &t.cells[number].state
	}
	return nil
}

// put adds an id that is not there.
func (t *table) put(d *id, s state.State) {
	if len(t.cells) >= len(t.slots)/4*3 {
		t.grow()
	}
	at, _ := t.find(d)
	t.slots[at] = newSlot(d.hash(), len(t.cells))
	t.cells = append(t.cells, cell{*d, s})
}

func (t *table) grow() {
	t.slots = make([]slot, max(minSlots, 2*len(t.slots)))
	for number := range t.cells {
		d := &t.cells[number].id
		at, _ := t.find(d)
		t.slots[at] = newSlot(d.hash(), number)
	}
}

// delete drops the cell of a number. The last cell takes its place.
func (t *table) delete(number int) {
	t.unlink(number)
	last := len(t.cells) - 1
	if number != last {
		moved := &t.cells[last]
		at, _ := t.find(&moved.id)
		t.slots[at] = newSlot(moved.id.hash(), number)
		t.cells[number] = *moved
	}
	t.cells[last] = cell{} // lets go of what it points to
	t.cells = t.cells[:last]
}

// unlink empties the slot of a cell, and moves up what was displaced behind it.
func (t *table) unlink(number int) {
	mask := uint32(len(t.slots) - 1)
	hole, _ := t.find(&t.cells[number].id)
	for at := (hole + 1) & mask; t.slots[at] != 0; at = (at + 1) & mask {
		// It may move if the hole is no further from its home than it is.
		if home := t.slots[at].hash() & mask; (at-home)&mask >= (at-hole)&mask {
			t.slots[hole] = t.slots[at]
			hole = at
		}
	}
	t.slots[hole] = 0
}

// sweep looks at up to n cells, in turn, and drops those that have ended. It returns how many.
func (t *table) sweep(n int, now signpost.Instant) int {
	dropped := 0
	for n = min(n, len(t.cells)); n > 0; n-- {
		if t.cursor >= len(t.cells) {
			t.cursor = 0
		}
		if t.cells[t.cursor].state.Ended(now) {
			t.delete(t.cursor)
			dropped++
			continue
		}
		t.cursor++
	}
	return dropped
}
