// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Every record that an Append returned for must be in the file, once and whole.
func TestLogKeepsEveryRecord(t *testing.T) {
	const goroutines, each = 16, 50
	for _, preallocate := range []int64{0, 1 << 20} {
		name := filepath.Join(t.TempDir(), "log")
		log, err := CreateLog(name, preallocate, fdatasync)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := range each {
					var record [recordSize]byte
					binary.LittleEndian.PutUint64(record[:], uint64(g*each+i+1))
					binary.LittleEndian.PutUint64(record[recordSize-8:], uint64(g*each+i+1))
					if err := log.Append(&record); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := map[uint64]bool{}
		for ; len(data) >= recordSize; data = data[recordSize:] {
			head, tail := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[recordSize-8:])
			if head != tail {
				t.Fatalf("a torn record: %d and %d", head, tail)
			}
			if head != 0 && found[head] {
				t.Errorf("record %d is there twice", head)
			}
			found[head] = true
		}
		delete(found, 0) // what is left of the preallocation
		if len(found) != goroutines*each {
			t.Errorf("preallocate %d: %d records, want %d", preallocate, len(found), goroutines*each)
		}
	}
}
