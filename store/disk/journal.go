// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
)

// A log is a header and frames. A frame is a batch of records, or a part of a large one:
//
//	0   4  length of the records
//	4   4  checksum of what follows
//	8   8  number of the frame: one more than that of the frame before it in the file
//	16  8  the last frame that was durable when this one was written
//	24     the records, then zeros up to a multiple of 8
//
// The last frame of a log that was closed in good order has no records.
//
// Files are written over, so behind the last frame there may be old ones. Their numbers are lower.
const (
	frameHeader = 24
	maxFrame    = 256 << 10 // of records; the last one may go over by a value
)

// frames numbers the frames of a store across its logs. No number is used twice.
type frames struct {
	written atomic.Uint64 // the last that was begun
	durable atomic.Uint64 // the last that is durable
}

// journal is the log that is written to. It belongs to one goroutine. After an error it is of no use any more:
// what of the frame has reached the disk is not known.
type journal struct {
	dir    *directory
	frames *frames
	sync   bool // each frame, before write returns
	number uint64
	file   file
	at     int64
	buf    []byte
	last   uint64      // the last frame that was written here, or was durable before
	synced uint64      // the last frame that is durable
	fenced atomic.Bool // another journal goes on: nothing may be written here any more
}

// errFenced ends a committer that was left behind.
var errFenced = errors.New("left behind")

func openJournal(d *directory, fr *frames, sync bool) (*journal, error) {
	durable := fr.durable.Load()
	number, f, err := d.newLog(durable)
	if err != nil {
		return nil, err
	}
	return &journal{dir: d, frames: fr, sync: sync, number: number, file: f, at: headerLen, last: durable, synced: durable}, nil
}

// begin empties the buffer for the records of a frame.
func (j *journal) begin() { j.buf = append(j.buf[:0], make([]byte, frameHeader)...) }

// add puts a record into the frame.
func (j *journal) add(n key, value []byte) { j.buf = appendRecord(j.buf, n, value) }

// full reports that the frame holds as much as one should, and empty that it holds nothing.
func (j *journal) full() bool  { return len(j.buf) >= maxFrame }
func (j *journal) empty() bool { return len(j.buf) == frameHeader }

// write appends the frame, and begins another. It is durable then, if frames are synced.
func (j *journal) write() error {
	size := len(j.buf) - frameHeader
	j.buf = append(j.buf, make([]byte, -size&7)...)
	if j.at+int64(len(j.buf)) > j.dir.logSize {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	// The number comes first. If the fence is not up by now, every log that another journal opens, and every frame
	// in it, has a higher number than this one: what is written here late is replayed first.
	number := j.frames.written.Add(1)
	if j.fenced.Load() {
		return errFenced
	}
	b := j.buf
	binary.LittleEndian.PutUint32(b, uint32(size))
	binary.LittleEndian.PutUint64(b[8:], number)
	binary.LittleEndian.PutUint64(b[16:], j.synced)
	binary.LittleEndian.PutUint32(b[4:], checksum(b[8:frameHeader+size]))
	if _, err := j.file.WriteAt(b, j.at); err != nil {
		return fmt.Errorf("write %s: %w", j.dir.logName(j.number), err)
	}
	j.at += int64(len(b))
	j.last = number
	if j.sync {
		if err := j.flush(); err != nil {
			return err
		}
		j.synced = number
	}
	j.begin()
	return nil
}

func (j *journal) flush() error {
	if err := j.file.sync(); err != nil {
		return fmt.Errorf("sync %s: %w", j.dir.logName(j.number), err)
	}
	return nil
}

// rotate goes on in a new file. The old one is durable then.
func (j *journal) rotate() error {
	if err := j.close(); err != nil {
		return err
	}
	number, f, err := j.dir.newLog(j.synced)
	if err != nil {
		return err
	}
	j.number, j.file, j.at = number, f, headerLen
	return nil
}

// seal ends the log for good with a frame of no records. It says that the frame before it was durable.
func (j *journal) seal() error {
	j.begin()
	if err := j.write(); err != nil {
		return err
	}
	return j.close()
}

// close ends the file in good order.
func (j *journal) close() error {
	if !j.sync {
		if err := j.flush(); err != nil {
			return err
		}
		j.synced = j.last
	}
	if err := j.file.Close(); err != nil {
		return fmt.Errorf("close %s: %w", j.dir.logName(j.number), err)
	}
	j.dir.release(j.number)
	return nil
}

// abandon gives the file up after an error. It is not written over: nobody knows what may still be under way to it.
func (j *journal) abandon() { j.file.Close() }

// replay reads the log file name, applies its records in order, and returns the last frame of it, or last if there
// is none, and where in the file that ends. A frame that was being written when the process ended is where the log ends. If one is
// unreadable that must have been durable, the error is ErrCorrupt.
func replay(f file, name string, last uint64, apply func(key, []byte) error) (_ uint64, end int64, _ error) {
	h, err := readHeader(f, name, logFile)
	if err != nil {
		return 0, 0, err
	}
	if h.sequence > last {
		return 0, 0, fmt.Errorf("%w: frames %d to %d are missing before %s: the log before it is damaged", ErrCorrupt, last+1, h.sequence, name)
	}
	size, err := f.size()
	if err != nil {
		return 0, 0, fmt.Errorf("read %s: %w", name, err)
	}
	b := make([]byte, max(0, size-headerLen))
	if _, err := f.ReadAt(b, headerLen); err != nil {
		return 0, 0, fmt.Errorf("read %s: %w", name, err)
	}
	first := true
	for at := 0; ; {
		fr, ok := parseFrame(b[min(at, len(b)):], last)
		if !ok || !first && fr.number != last+1 {
			if lost := durableAfter(b[min(at, len(b)):], last); lost > last {
				return 0, 0, fmt.Errorf("%w: %s is damaged at byte %d: frames %d to %d were durable and cannot be read",
					ErrCorrupt, name, headerLen+at, last+1, lost)
			}
			return last, int64(headerLen + at), nil
		}
		for rest := fr.records; len(rest) > 0; {
			n, value, r, ok := cutRecord(rest)
			if !ok {
				return 0, 0, fmt.Errorf("%w: %s has a malformed record in frame %d", ErrCorrupt, name, fr.number)
			}
			if err := apply(n, value); err != nil {
				return 0, 0, fmt.Errorf("%w: %s, frame %d: %w", ErrCorrupt, name, fr.number, err)
			}
			rest = r
		}
		first, last = false, fr.number
		at += fr.size
	}
}

type frame struct {
	number, durable uint64
	records         []byte
	size            int // in the file
}

// parseFrame reads the frame at the beginning of b, if there is a whole one with a number above last.
func parseFrame(b []byte, last uint64) (frame, bool) {
	if len(b) < frameHeader {
		return frame{}, false
	}
	size := int(binary.LittleEndian.Uint32(b))
	number := binary.LittleEndian.Uint64(b[8:])
	if number <= last || size < 0 || size > len(b)-frameHeader ||
		checksum(b[8:frameHeader+size]) != binary.LittleEndian.Uint32(b[4:]) {
		return frame{}, false
	}
	return frame{
		number: number, durable: binary.LittleEndian.Uint64(b[16:]),
		records: b[frameHeader : frameHeader+size], size: frameHeader + size + -size&7,
	}, true
}

// durableAfter looks for a whole frame anywhere in b with a number above last, and returns the highest that one
// of them says was durable. Numbers of frames that are not there (old ones, or noise) are mostly out of range,
// which spares their checksums.
func durableAfter(b []byte, last uint64) (highest uint64) {
	for at := 0; at+frameHeader <= len(b); at += 8 {
		if n := binary.LittleEndian.Uint64(b[at+8:]); n <= last || n-last > uint64(len(b)) {
			continue
		}
		if fr, ok := parseFrame(b[at:], last); ok {
			highest = max(highest, fr.durable)
		}
	}
	return highest
}
