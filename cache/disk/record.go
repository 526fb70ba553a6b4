package disk

import (
	"encoding/binary"

	"github.com/xetfs/xetfs/codec"
)

// formatVersion is that of the folder and of the journal. Who finds a higher one leaves
// the folder alone; who finds a lower one clears it.
const formatVersion = 1

// A recordKind is the first byte of a record.
type recordKind uint8

const (
	headerRecord recordKind = iota + 1
	nameRecord
	segmentRecord
	addRecord
	dropRecord
	evictRecord
	fileRecord
	forgetRecord
	endRecord
	closeRecord
	recordKinds // what is not below is of a newer program
)

// A record is one change of the index. Which fields it has depends on its kind; see the
// comment of the package.
type record struct {
	kind recordKind

	version uint64
	id      [16]byte
	number  uint64 // of the journal, or of the segment
	time    uint64 // Unix seconds, or nanoseconds of the time of change
	key     key    // of a name; the hash alone, of a whole file
	queue   queue
	off     uint64      // in the segment
	size    uint64      // of a whole file
	crc     uint32      // of a whole file
	ctime   uint64      // of a whole file, in nanoseconds; 0: unknown
	rows    []chunkRow  // one of a drop
	pieces  []chunkInfo // of all rows, if it is an add
}

// A chunkRow is consecutive chunks of one object.
type chunkRow struct {
	ref   uint32
	first uint32
	n     int
}

// append adds the encoding of r to b.
func (r *record) append(b []byte) []byte {
	b = append(b, byte(r.kind))
	switch r.kind {
	case headerRecord:
		b = binary.AppendUvarint(b, r.version)
		b = append(b, r.id[:]...)
		b = binary.AppendUvarint(b, r.number)
		b = binary.AppendUvarint(b, r.time)
	case nameRecord:
		b = append(b, byte(r.key.kind))
		b = append(b, r.key.hash[:]...)
	case segmentRecord:
		b = binary.AppendUvarint(b, r.number)
		b = append(b, byte(r.queue))
	case addRecord:
		b = r.appendRows(b)
	case dropRecord:
		b = append(b, byte(r.key.kind))
		b = append(b, r.key.hash[:]...)
		b = binary.AppendUvarint(b, uint64(r.rows[0].first))
		b = binary.AppendUvarint(b, uint64(r.rows[0].n))
	case evictRecord:
		b = binary.AppendUvarint(b, r.number)
	case fileRecord:
		b = append(b, r.key.hash[:]...)
		b = binary.AppendUvarint(b, r.size)
		b = binary.AppendUvarint(b, r.time)
		b = binary.LittleEndian.AppendUint32(b, r.crc)
		if r.ctime != 0 {
			b = binary.AppendUvarint(b, r.ctime)
		}
	case forgetRecord:
		b = append(b, r.key.hash[:]...)
	}
	return b
}

func (r *record) appendRows(b []byte) []byte {
	b = binary.AppendUvarint(b, r.number)
	b = binary.AppendUvarint(b, r.off)
	pieces := r.pieces
	for _, w := range r.rows {
		b = w.append(b)
		for _, p := range pieces[:w.n] {
			b = binary.AppendUvarint(b, uint64(p.size)<<2|uint64(p.uses))
			b = binary.LittleEndian.AppendUint32(b, p.crc)
		}
		pieces = pieces[w.n:]
	}
	return b
}

func (w chunkRow) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(w.ref))
	b = binary.AppendUvarint(b, uint64(w.first))
	return binary.AppendUvarint(b, uint64(w.n))
}

// decode makes r the record b, which must be known and complete. It reuses the memory of
// r and allocates no more than b can fill.
func (r *record) decode(b []byte) error {
	*r = record{rows: r.rows[:0], pieces: r.pieces[:0]}
	in := decoder{b: b}
	r.kind = recordKind(in.byte())
	switch r.kind {
	case headerRecord:
		r.version = in.uvarint()
		copy(r.id[:], in.bytes(len(r.id)))
		r.number, r.time = in.uvarint(), in.uvarint()
	case nameRecord:
		r.key.kind = kind(in.byteBelow(byte(numKinds), "kind of object"))
		r.key.hash = in.hash()
	case segmentRecord:
		r.number = in.below(1<<32, "segment")
		r.queue = queue(in.byteBelow(byte(numQueues), "queue"))
	case addRecord:
		r.decodeRows(&in)
	case dropRecord:
		r.key.kind = kind(in.byteBelow(byte(numKinds), "kind of object"))
		r.key.hash = in.hash()
		r.rows = append(r.rows, in.chunks())
	case evictRecord:
		r.number = in.below(1<<32, "segment")
	case fileRecord:
		r.key.hash = in.hash()
		r.size = in.below(1<<62, "size")
		r.time = in.uvarint()
		r.crc = in.uint32()
		if in.err == nil && in.off < len(b) { // earlier programs did not write it
			if r.ctime = in.uvarint(); r.ctime == 0 {
				in.fail("touched at no time")
			}
		}
	case forgetRecord:
		r.key.hash = in.hash()
	case endRecord, closeRecord:
	default:
		in.fail("kind %d is not known", r.kind)
	}
	if in.err == nil && in.off < len(b) {
		in.fail("%d bytes are left over", len(b)-in.off)
	}
	return in.err
}

func (r *record) decodeRows(in *decoder) {
	r.number = in.below(1<<32, "segment")
	r.off = in.below(maxSegment+1, "offset")
	end := r.off
	for in.err == nil && (len(r.rows) == 0 || in.off < len(in.b)) {
		w := in.row()
		// A chunk takes 5 bytes at least, so a count cannot make much of a short record.
		if w.n > (len(in.b)-in.off)/5 {
			in.fail("%d chunks, %d bytes are left", w.n, len(in.b)-in.off)
			return
		}
		r.rows = append(r.rows, w)
		for range w.n {
			v := in.below(maxSegment<<2, "size of a chunk")
			if v>>2 == 0 {
				in.fail("a chunk of no bytes")
			}
			r.pieces = append(r.pieces, chunkInfo{size: int(v >> 2), uses: uint8(v & maxUses), crc: in.uint32()})
			end += v >> 2
		}
	}
	if in.err == nil && end > maxSegment {
		in.fail("chunks end at byte %d of a segment, %d is the most", end, maxSegment)
	}
}

// An input is a record that is being decoded. After the first error it gives zeros.
type decoder struct {
	b   []byte
	off int
	err error
}

func (in *decoder) fail(format string, args ...any) {
	if in.err == nil {
		in.err = codec.Corrupt("cache record", int64(in.off), format, args...)
	}
}

func (in *decoder) bytes(n int) []byte {
	if n > len(in.b)-in.off {
		in.fail("ends after %d bytes, %d more are missing", len(in.b), n-(len(in.b)-in.off))
	}
	if in.err != nil {
		return nil
	}
	in.off += n
	return in.b[in.off-n : in.off]
}

func (in *decoder) byte() byte {
	if b := in.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (in *decoder) byteBelow(limit byte, what string) byte {
	b := in.byte()
	if b >= limit {
		in.off--
		in.fail("%s %d is not known", what, b)
		return 0
	}
	return b
}

func (in *decoder) uint32() uint32 {
	if b := in.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (in *decoder) hash() (h codec.Hash) {
	copy(h[:], in.bytes(len(h)))
	return h
}

// uvarint takes a number in its shortest form only, so that a record has one spelling.
func (in *decoder) uvarint() uint64 {
	if in.err != nil {
		return 0
	}
	v, n := binary.Uvarint(in.b[in.off:])
	if n <= 0 || n > 1 && in.b[in.off+n-1] == 0 {
		in.fail("no number")
		return 0
	}
	in.off += n
	return v
}

func (in *decoder) below(limit uint64, what string) uint64 {
	at := in.off
	v := in.uvarint()
	if v >= limit {
		in.off = at
		in.fail("%s %d is out of range", what, v)
		return 0
	}
	return v
}

func (in *decoder) row() chunkRow {
	ref := uint32(in.below(1<<32-1, "reference"))
	w := in.chunks()
	w.ref = ref
	return w
}

// chunks takes the first chunk of a row and how many there are.
func (in *decoder) chunks() chunkRow {
	w := chunkRow{first: uint32(in.below(codec.MaxXorbChunks, "chunk"))}
	w.n = int(in.below(codec.MaxXorbChunks+1, "count"))
	if in.err == nil && (w.n == 0 || int(w.first)+w.n > codec.MaxXorbChunks) {
		in.fail("%d chunks from %d on", w.n, w.first)
	}
	return w
}
