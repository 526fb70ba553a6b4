package page

import (
	"bytes"
	"encoding/binary"
)

const (
	headerSize = 64
	hashSize   = len(Hash{})
	pointSize  = 4
)

const (
	magic         = "XETFSPG\x02"
	identityMagic = "XETFSID\x01" // of identity forms, which are only hashed
)

// A header is the first 64 bytes of a page, drawn in the package comment.
type header struct {
	level   int
	restart int // rows from one restart point to the next
	rows    int
	entries int64 // below
	bytes   int64 // sum of the sizes of the files below
	base    int64 // seconds that times of the page are counted from
	shards  int   // in the table
	points  int   // restart points
	body    int   // bytes
}

// size returns the length of the page.
func (h *header) size() int {
	return headerSize + hashSize*h.shards + h.body + pointSize*h.points
}

func (h *header) append(b []byte, magic string) []byte {
	le := binary.LittleEndian
	b = append(b, magic...)
	b = append(b, byte(h.level), 0)
	b = le.AppendUint16(b, uint16(h.restart))
	b = le.AppendUint32(b, uint32(h.rows))
	b = le.AppendUint64(b, uint64(h.entries))
	b = le.AppendUint64(b, uint64(h.bytes))
	b = le.AppendUint64(b, uint64(h.base))
	b = le.AppendUint32(b, uint32(h.shards))
	b = le.AppendUint32(b, uint32(h.points))
	b = le.AppendUint32(b, uint32(h.body))
	return append(b, make([]byte, 12)...)
}

// decodeHeader decodes the header of the page b, and holds its counts against the
// length of the page. After it, no count is larger than b.
func decodeHeader(b []byte) (header, error) {
	if len(b) < headerSize {
		return header{}, bad(int64(len(b)), "ends after %d of %d bytes", len(b), headerSize)
	}
	le := binary.LittleEndian
	h := header{
		level:   int(b[8]),
		restart: int(le.Uint16(b[10:])),
		rows:    int(le.Uint32(b[12:])),
		entries: int64(le.Uint64(b[16:])),
		bytes:   int64(le.Uint64(b[24:])),
		base:    int64(le.Uint64(b[32:])),
		shards:  int(le.Uint32(b[40:])),
		points:  int(le.Uint32(b[44:])),
		body:    int(le.Uint32(b[48:])),
	}
	switch {
	case string(b[:7]) != magic[:7]:
		return header{}, bad(0, "no magic tag")
	case b[7] != magic[7]:
		return header{}, bad(7, "version %d is not known", b[7])
	case h.level > MaxLevel:
		return header{}, bad(8, "level %d, at most %d are allowed", h.level, MaxLevel)
	case b[9] != 0:
		return header{}, bad(9, "codec %d is not known", b[9])
	case h.restart == 0:
		return header{}, bad(10, "restart interval 0")
	case !bytes.Equal(b[52:headerSize], make([]byte, 12)):
		return header{}, bad(52, "reserved bytes are not zero")
	}
	return h, h.check(len(b))
}

// check holds the counts against each other and against the length of the page.
func (h *header) check(size int) error {
	switch {
	case size > MaxSize:
		return bad(MaxSize, "a page of %d bytes, at most %d are allowed", size, MaxSize)
	case h.entries < 0:
		return bad(16, "more than 2^63 entries")
	case h.bytes < 0:
		return bad(24, "more than 2^63 bytes")
	case h.size() != size:
		return bad(40, "shards, body and restart points make %d bytes, the page has %d", h.size(), size)
	case h.rows > h.body/minRow:
		return bad(12, "%d rows in a body of %d bytes", h.rows, h.body)
	case h.points != (h.rows+h.restart-1)/h.restart:
		return bad(44, "%d restart points for %d rows", h.points, h.rows)
	case h.level > 0 && h.rows == 0:
		return bad(12, "no links")
	case h.level > 0 && h.base != 0:
		return bad(32, "a base time above the leaves")
	case h.level > 0 && h.shards != 0:
		return bad(40, "a shard table above the leaves")
	case h.level == 0 && h.entries != int64(h.rows):
		return bad(16, "%d entries in a leaf of %d rows", h.entries, h.rows)
	case h.rows == 0 && h.base != 0:
		return bad(32, "a base time without entries")
	}
	return nil
}
