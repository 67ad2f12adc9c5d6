// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// version is that of the format of both kinds of file.
const version = 1

// Every file begins with a header:
//
//	0   8  magic
//	8   4  version
//	12  4  kind: 1 log, 2 table
//	16  8  number of the file
//	24  8  sequence: of a log, the last frame that was durable before it; of a table, the last one in it
//	32  4  checksum of what comes before
//	36  4  zero
const (
	headerLen = 40
	magic     = "signpost"
)

type fileKind uint32

const (
	logFile   fileKind = 1
	tableFile fileKind = 2
)

type header struct {
	kind     fileKind
	number   uint64
	sequence uint64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func (h header) append(b []byte) []byte {
	from := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.kind))
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, h.sequence)
	b = binary.LittleEndian.AppendUint32(b, checksum(b[from:]))
	return binary.LittleEndian.AppendUint32(b, 0)
}

// readHeader reads and checks the header of the file name.
func readHeader(f file, name string, want fileKind) (header, error) {
	var b [headerLen]byte
	if _, err := f.ReadAt(b[:], 0); err == io.EOF {
		return header{}, fmt.Errorf("%w: %s ends within its header", ErrCorrupt, name)
	} else if err != nil {
		return header{}, fmt.Errorf("read header of %s: %w", name, err)
	}
	h := header{
		kind:     fileKind(binary.LittleEndian.Uint32(b[12:])),
		number:   binary.LittleEndian.Uint64(b[16:]),
		sequence: binary.LittleEndian.Uint64(b[24:]),
	}
	// The first 36 bytes keep their meaning in every version, so that a newer one is told from damage.
	if string(b[:8]) != magic || checksum(b[:32]) != binary.LittleEndian.Uint32(b[32:]) {
		return header{}, fmt.Errorf("%w: the header of %s is damaged", ErrCorrupt, name)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v > version {
		return header{}, fmt.Errorf("%w: %s has format version %d, and this program reads up to %d", ErrNewer, name, v, version)
	}
	if h.kind != want {
		return header{}, fmt.Errorf("%w: %s is another kind of file", ErrCorrupt, name)
	}
	return h, nil
}
