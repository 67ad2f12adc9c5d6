// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// directory is where a store keeps its files. Logs and tables are numbered from one sequence: table n holds all that
// the logs below n held, so those are obsolete. What is being made has a name that says so, and is removed at
// the next open.
type directory struct {
	path    string
	files   files
	logSize int64 // of each log file

	mu      sync.Mutex
	next    uint64   // number of the next file
	logs    []logRef // that are not obsolete, oldest first
	spares  []string // names of files that have been written through and can become a log
	made    int      // how many spares were made; for their names
	filling bool     // a spare is being made
	work    sync.WaitGroup
	// noRoom is called when a spare cannot be made: it is time to merge, while there is room for that.
	noRoom func()
}

type logRef struct {
	number uint64
	// reusable says that the file can become a spare: this process wrote it, and no write to it is left hanging.
	reusable bool
}

// maxSpares is how many obsolete logs are kept to be written over. A sync of a file that is written over costs a
// quarter less than that of one which grows.
const maxSpares = mergeLogs

const (
	logSuffix   = ".log"
	tableSuffix = ".table"
	spareSuffix = ".spare"
	tempSuffix  = ".tmp"
)

func (d *directory) logName(n uint64) string   { return d.name(n, logSuffix) }
func (d *directory) tableName(n uint64) string { return d.name(n, tableSuffix) }

func (d *directory) name(n uint64, suffix string) string {
	return filepath.Join(d.path, fmt.Sprintf("%06d%s", n, suffix))
}

// scan finds what is there and removes what is obsolete or was never finished. It returns the number of the table, or 0.
func (d *directory) scan() (table uint64, err error) {
	names, err := d.files.list(d.path)
	if err != nil {
		return 0, fmt.Errorf("list: %w", err)
	}
	var tables []uint64
	var obsolete []string
	for _, name := range names {
		var n uint64
		switch {
		case strings.HasSuffix(name, spareSuffix), strings.HasSuffix(name, tempSuffix):
			obsolete = append(obsolete, filepath.Join(d.path, name))
		case numbered(name, logSuffix, &n):
			d.logs = append(d.logs, logRef{number: n})
		case numbered(name, tableSuffix, &n):
			tables = append(tables, n)
			table = max(table, n)
		}
		d.next = max(d.next, n)
	}
	d.next++
	for _, n := range tables {
		if n < table {
			obsolete = append(obsolete, d.tableName(n))
		}
	}
	d.logs = slices.DeleteFunc(d.logs, func(l logRef) bool {
		if l.number < table {
			obsolete = append(obsolete, d.logName(l.number))
		}
		return l.number < table
	})
	slices.SortFunc(d.logs, func(a, b logRef) int { return cmp.Compare(a.number, b.number) })
	for _, name := range obsolete {
		if err := d.files.remove(name); err != nil {
			return 0, fmt.Errorf("remove what is obsolete: %w", err)
		}
	}
	if table > 0 && (len(d.logs) == 0 || d.logs[0].number != table) {
		return 0, fmt.Errorf("%w: %s is missing", ErrCorrupt, d.logName(table))
	}
	return table, nil
}

func numbered(name, suffix string, n *uint64) bool {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return false
	}
	var v uint64
	for _, c := range digits {
		if c < '0' || c > '9' || v > 1<<60 {
			return false
		}
		v = v*10 + uint64(c-'0')
	}
	*n = v
	return v > 0
}

// newLog makes the next log file, from a spare if there is one. sequence is the last frame that is durable.
func (d *directory) newLog(sequence uint64) (number uint64, f file, err error) {
	spare, err := d.takeSpare()
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		if err != nil {
			d.files.remove(spare)
		}
	}()
	d.mu.Lock()
	number = d.next
	d.next++
	d.mu.Unlock()
	b := header{kind: logFile, number: number, sequence: sequence}.append(nil)
	// The header is durable before the file has its name, so that a log without one is damage.
	if err := d.writeFile(spare, b); err != nil {
		return 0, nil, err
	}
	name := d.logName(number)
	if err := d.files.rename(spare, name); err != nil {
		return 0, nil, fmt.Errorf("name log: %w", err)
	}
	if err := d.files.syncDir(d.path); err != nil {
		return 0, nil, fmt.Errorf("sync %s: %w", d.path, err)
	}
	f, err = d.files.open(name, true)
	if err != nil {
		return 0, nil, fmt.Errorf("open log: %w", err)
	}
	d.mu.Lock()
	d.logs = append(d.logs, logRef{number: number})
	d.mu.Unlock()
	d.fillSpares()
	return number, f, nil
}

// writeFile writes b at the beginning of a file that is there, durably.
func (d *directory) writeFile(name string, b []byte) error {
	f, err := d.files.open(name, true)
	if err != nil {
		return fmt.Errorf("open spare log: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		return fmt.Errorf("write spare log: %w", err)
	}
	if err := f.sync(); err != nil {
		return fmt.Errorf("sync %s: %w", name, err)
	}
	return nil
}

func (d *directory) takeSpare() (string, error) {
	d.mu.Lock()
	if n := len(d.spares); n > 0 {
		name := d.spares[n-1]
		d.spares = d.spares[:n-1]
		d.mu.Unlock()
		return name, nil
	}
	d.mu.Unlock()
	return d.makeSpare(0) // it grows as it is written: slower, but nobody waits for it to be made
}

// makeSpare writes a file through to a size, so that its blocks are there and a sync has no size to record.
func (d *directory) makeSpare(size int64) (string, error) {
	d.mu.Lock()
	d.made++
	name := d.name(uint64(d.made), spareSuffix)
	d.mu.Unlock()
	f, err := d.files.create(name)
	if err != nil {
		return "", fmt.Errorf("make log: %w", err)
	}
	zeros := make([]byte, min(size, 256<<10))
	for at := int64(0); at < size && err == nil; at += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
	}
	if err == nil {
		err = f.sync()
	}
	f.Close()
	if err != nil {
		d.files.remove(name)
		return "", fmt.Errorf("make log: %w", err)
	}
	return name, nil
}

// fillSpares makes a spare in the background if there is none.
func (d *directory) fillSpares() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.filling || len(d.spares) > 0 {
		return
	}
	d.filling = true
	d.work.Go(func() {
		name, err := d.makeSpare(d.logSize)
		d.mu.Lock()
		d.filling = false
		if err == nil {
			d.spares = append(d.spares, name)
		}
		d.mu.Unlock()
		if err != nil {
			d.noRoom()
		}
	})
}

// fillFirst makes the first spare, so that the first log is one that is written over. It is only faster for it.
func (d *directory) fillFirst() {
	if name, err := d.makeSpare(d.logSize); err == nil {
		d.spares = append(d.spares, name)
	}
}

// dropSpares gives their room back.
func (d *directory) dropSpares() {
	d.mu.Lock()
	spares := d.spares
	d.spares = nil
	d.mu.Unlock()
	for _, name := range spares {
		d.files.remove(name) // or the next Open does
	}
}

// release marks a log that was closed in good order: its file can be used again once it is obsolete.
func (d *directory) release(number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.logs {
		if d.logs[i].number == number {
			d.logs[i].reusable = true
		}
	}
}

// dropLogs makes spares of the logs below a table, or removes them.
func (d *directory) dropLogs(table uint64) error {
	d.mu.Lock()
	var old []logRef
	for len(d.logs) > 0 && d.logs[0].number < table {
		old = append(old, d.logs[0])
		d.logs = d.logs[1:]
	}
	d.mu.Unlock()
	var failed error
	for _, l := range old {
		if err := d.drop(l); err != nil {
			failed = err
		}
	}
	return failed
}

func (d *directory) drop(l logRef) error {
	d.mu.Lock()
	keep := l.reusable && len(d.spares) < maxSpares
	d.made++
	spare := d.name(uint64(d.made), spareSuffix)
	d.mu.Unlock()
	if !keep {
		return d.files.remove(d.logName(l.number))
	}
	if err := d.files.rename(d.logName(l.number), spare); err != nil {
		return err
	}
	d.mu.Lock()
	d.spares = append(d.spares, spare)
	d.mu.Unlock()
	return nil
}

func (d *directory) logCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.logs)
}
