// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sort"
	"sync/atomic"
)

// A table is a header, blocks of records in the order of their keys, an index, and a footer. A block ends with its
// checksum. The index has for each block its first key, its place and its length. The footer:
//
//	0   8  place of the index
//	8   4  length of the index
//	12  4  checksum of the index
//	16  8  how many records there are
//	24  4  checksum of what comes before
//	28  4  zero
//	32  8  magic
const (
	blockSize  = 4 << 10
	footerLen  = 40
	indexEntry = len(key{}) + 8 + 4
)

type blockRef struct {
	first key
	at    int64
	size  uint32
}

// table is an immutable file of records. Its index is in memory. It is safe for concurrent use. It is closed when its
// last user has released it.
type table struct {
	name    string
	file    file
	header  header
	index   []blockRef
	records uint64
	bytes   int64
	users   atomic.Int32
	// onUnused runs once the last user is gone and the file is closed.
	onUnused func()
	// blamed says that an unreadable block of it has been logged.
	blamed atomic.Bool
}

// openTable reads the index of a table. The caller is its first user.
func openTable(fs files, name string) (*table, error) {
	f, err := fs.open(name, false)
	if err != nil {
		return nil, fmt.Errorf("open table: %w", err)
	}
	t := &table{name: name, file: f, onUnused: func() {}}
	t.users.Store(1)
	if err := t.readIndex(); err != nil {
		f.Close()
		return nil, err
	}
	return t, nil
}

func (t *table) readIndex() (err error) {
	if t.header, err = readHeader(t.file, t.name, tableFile); err != nil {
		return err
	}
	if t.bytes, err = t.file.size(); err != nil {
		return fmt.Errorf("read %s: %w", t.name, err)
	}
	damaged := fmt.Errorf("%w: the index of %s is damaged", ErrCorrupt, t.name)
	if t.bytes < headerLen+footerLen {
		return damaged
	}
	var foot [footerLen]byte
	if _, err := t.file.ReadAt(foot[:], t.bytes-footerLen); err != nil {
		return fmt.Errorf("read %s: %w", t.name, err)
	}
	at, size := binary.LittleEndian.Uint64(foot[:]), binary.LittleEndian.Uint32(foot[8:])
	if string(foot[32:]) != magic || checksum(foot[:24]) != binary.LittleEndian.Uint32(foot[24:]) ||
		at+uint64(size)+footerLen != uint64(t.bytes) || size%uint32(indexEntry) != 0 {
		return damaged
	}
	b := make([]byte, size)
	if _, err := t.file.ReadAt(b, int64(at)); err != nil && size > 0 {
		return fmt.Errorf("read %s: %w", t.name, err)
	}
	if checksum(b) != binary.LittleEndian.Uint32(foot[12:]) {
		return damaged
	}
	t.records = binary.LittleEndian.Uint64(foot[16:])
	t.index = make([]blockRef, 0, len(b)/indexEntry)
	for ; len(b) > 0; b = b[indexEntry:] {
		t.index = append(t.index, blockRef{
			first: key(b[:len(key{})]),
			at:    int64(binary.LittleEndian.Uint64(b[len(key{}):])),
			size:  binary.LittleEndian.Uint32(b[len(key{})+8:]),
		})
	}
	return nil
}

// block returns the index of the block that holds n if any does, or -1. It does not touch the file. A nil table has none.
func (t *table) block(n key) int {
	if t == nil {
		return -1
	}
	return sort.Search(len(t.index), func(i int) bool { return bytes.Compare(t.index[i].first[:], n[:]) > 0 }) - 1
}

// get returns the value of a record, or nil.
func (t *table) get(n key) ([]byte, error) {
	c := cursor{table: t}
	if err := c.seek(n); err != nil || c.done || c.key != n {
		return nil, err
	}
	return c.value, nil
}

func (t *table) readBlock(i int) ([]byte, error) {
	ref := t.index[i]
	b := make([]byte, ref.size)
	if _, err := t.file.ReadAt(b, ref.at); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read %s: %w", t.name, err)
	}
	n := len(b) - 4
	if n < 0 || checksum(b[:n]) != binary.LittleEndian.Uint32(b[n:]) {
		return nil, fmt.Errorf("%w: %s is damaged at byte %d", ErrCorrupt, t.name, ref.at)
	}
	return b[:n], nil
}

// use counts a user in. It fails if the last one has gone.
func (t *table) use() bool {
	for {
		n := t.users.Load()
		if n == 0 {
			return false
		}
		if t.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (t *table) release() {
	if t.users.Add(-1) == 0 {
		t.file.Close()
		t.onUnused()
	}
}

// cursor walks over the records of a table in order. A nil table is empty.
type cursor struct {
	table *table
	next  int    // block
	rest  []byte // of the current block
	key   key
	value []byte
	done  bool
}

// seek goes to the first record that is not below n.
func (c *cursor) seek(n key) error {
	c.next, c.rest, c.done = max(0, c.table.block(n)), nil, false
	for {
		if err := c.advance(); err != nil || c.done || bytes.Compare(c.key[:], n[:]) >= 0 {
			return err
		}
	}
}

// advance goes to the next record, the first one at first.
func (c *cursor) advance() (err error) {
	for len(c.rest) == 0 {
		if c.table == nil || c.next == len(c.table.index) {
			c.done = true
			return nil
		}
		if c.rest, err = c.table.readBlock(c.next); err != nil {
			return err
		}
		c.next++
	}
	var ok bool
	if c.key, c.value, c.rest, ok = cutRecord(c.rest); !ok {
		return fmt.Errorf("%w: %s has a malformed record", ErrCorrupt, c.table.name)
	}
	return nil
}

// tableWriter writes a table. Records are added in the order of their keys.
type tableWriter struct {
	file    file
	buf     []byte // what is not written yet
	at      int64  // where buf goes
	block   int    // where in buf the current block begins
	first   key
	index   []byte
	records uint64
}

// newTableWriter begins a table that holds everything up to a frame.
func newTableWriter(f file, number, sequence uint64) *tableWriter {
	w := &tableWriter{file: f}
	w.buf = header{kind: tableFile, number: number, sequence: sequence}.append(w.buf)
	w.block = len(w.buf)
	return w
}

func (w *tableWriter) add(n key, value []byte) error {
	if len(w.buf) == w.block {
		w.first = n
	}
	w.buf = appendRecord(w.buf, n, value)
	w.records++
	if len(w.buf)-w.block < blockSize {
		return nil
	}
	return w.endBlock()
}

func (w *tableWriter) endBlock() error {
	if len(w.buf) == w.block {
		return nil
	}
	w.buf = binary.LittleEndian.AppendUint32(w.buf, checksum(w.buf[w.block:]))
	w.index = append(w.index, w.first[:]...)
	w.index = binary.LittleEndian.AppendUint64(w.index, uint64(w.at)+uint64(w.block))
	w.index = binary.LittleEndian.AppendUint32(w.index, uint32(len(w.buf)-w.block))
	w.block = len(w.buf)
	if len(w.buf) < 64*blockSize {
		return nil
	}
	return w.flush()
}

func (w *tableWriter) flush() error {
	if _, err := w.file.WriteAt(w.buf, w.at); err != nil {
		return err
	}
	w.at += int64(len(w.buf))
	w.buf, w.block = w.buf[:0], 0
	return nil
}

// finish writes what is left, durably.
func (w *tableWriter) finish() error {
	if err := w.endBlock(); err != nil {
		return err
	}
	var foot [footerLen]byte
	binary.LittleEndian.PutUint64(foot[:], uint64(w.at)+uint64(len(w.buf)))
	binary.LittleEndian.PutUint32(foot[8:], uint32(len(w.index)))
	binary.LittleEndian.PutUint32(foot[12:], checksum(w.index))
	binary.LittleEndian.PutUint64(foot[16:], w.records)
	binary.LittleEndian.PutUint32(foot[24:], checksum(foot[:24]))
	copy(foot[32:], magic)
	w.buf = append(append(w.buf, w.index...), foot[:]...)
	if err := w.flush(); err != nil {
		return err
	}
	return w.file.sync()
}
