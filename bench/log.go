// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"sync"
)

// recordSize is what the bare log writes for one take: a key of 32 bytes, two counts, and a checksum's worth.
const recordSize = 64

// Log is a bare group-commit log, the yardstick of the disk store: an append returns when its record is
// synced, and what arrives during a sync shares the next. It decides nothing and can not be read back.
type Log struct {
	file *os.File
	sync func(*os.File) error
	wake chan struct{} // holds one: there is a batch to write
	done chan struct{} // closed when the committer has ended

	mu   sync.Mutex
	next *batch
}

type batch struct {
	records []byte
	synced  chan struct{} // closed when err is set
	err     error
}

// CreateLog makes the file of a new log. With preallocate above 0, that many bytes are written and synced first, so
// that a sync has no new file size to record: cheaper, and a log must then know its own end.
func CreateLog(name string, preallocate int64, sync func(*os.File) error) (*Log, error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	if err := fill(file, preallocate); err != nil {
		file.Close()
		return nil, fmt.Errorf("preallocate log: %w", err)
	}
	l := &Log{file: file, sync: sync, wake: make(chan struct{}, 1), done: make(chan struct{}), next: newBatch(nil)}
	go l.commit()
	return l, nil
}

func newBatch(buf []byte) *batch { return &batch{records: buf[:0], synced: make(chan struct{})} }

// fill writes zeros and goes back to the start.
func fill(file *os.File, size int64) error {
	zeros := make([]byte, 1<<20)
	for size > 0 {
		n, err := file.Write(zeros[:min(size, int64(len(zeros)))])
		if err != nil {
			return err
		}
		size -= int64(n)
	}
	if err := file.Sync(); err != nil {
		return err
	}
	_, err := file.Seek(0, 0)
	return err
}

// Append returns when the record is on disk.
func (l *Log) Append(record *[recordSize]byte) error {
	l.mu.Lock()
	b := l.next
	first := len(b.records) == 0
	b.records = append(b.records, record[:]...)
	l.mu.Unlock()
	if first {
		l.wake <- struct{}{}
	}
	<-b.synced
	return b.err
}

// commit writes batches until Close.
func (l *Log) commit() {
	defer close(l.done)
	var spare []byte
	for range l.wake {
		l.mu.Lock()
		b := l.next
		l.next = newBatch(spare)
		l.mu.Unlock()
		if _, b.err = l.file.Write(b.records); b.err == nil {
			b.err = l.sync(l.file)
		}
		spare = b.records
		close(b.synced)
	}
}

// Close ends a log that nobody appends to any more.
func (l *Log) Close() error {
	close(l.wake)
	<-l.done
	return l.file.Close()
}
