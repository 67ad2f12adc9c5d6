// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// appendLog is the bare group-commit log.
type appendLog struct {
	file *os.File
	buf  []byte
	at   int64
	size int64 // what is written over, again and again; 0: the file grows
}

func openLog(dir string, ready int64) (*appendLog, error) {
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	l := &appendLog{file: f, size: ready}
	zero := make([]byte, 1<<20)
	for at := int64(0); at < ready; at += int64(len(zero)) {
		if _, err := f.WriteAt(zero, at); err != nil {
			return nil, fmt.Errorf("write ahead: %w", err)
		}
	}
	return l, f.Sync()
}

func (l *appendLog) commit(batch []record) error {
	l.buf = l.buf[:0]
	for i := range batch {
		l.buf = append(l.buf, batch[i].key[:]...)
		l.buf = append(l.buf, batch[i].value[:]...)
	}
	if l.size > 0 && l.at+int64(len(l.buf)) > l.size {
		l.at = 0
	}
	if _, err := l.file.WriteAt(l.buf, l.at); err != nil {
		return err
	}
	l.at += int64(len(l.buf))
	return syscall.Fdatasync(int(l.file.Fd()))
}

func (l *appendLog) close() error { return l.file.Close() }
