package wal

import (
	"encoding/binary"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/codec"
)

// FormatVersion is the version of the folder and of the journal. A process leaves a folder with
// a higher version alone, and clears a folder with a lower one.
const FormatVersion = 1

// A RecordKind is the first byte of a record.
type RecordKind uint8

const (
	HeaderRecord RecordKind = iota + 1
	NameRecord
	SegmentRecord
	AddRecord
	DropRecord
	EvictRecord
	FileRecord
	ForgetRecord
	EndRecord
	CloseRecord
	recordKinds // from here on, kinds belong to newer programs
)

// A Record is one change of the index. Its kind determines the fields; see the comment of
// package disk.
type Record struct {
	Kind RecordKind

	Version uint64
	ID      [16]byte
	Number  uint64    // of the journal, or of the segment
	Time    uint64    // Unix seconds, or nanoseconds of the time of modification
	Key     index.Key // of a name; the hash alone, of a whole file
	Queue   index.Queue
	Off     uint64            // in the segment
	Size    uint64            // of a whole file
	CRC     uint32            // of a whole file
	CTime   uint64            // of a whole file, in nanoseconds; 0: unknown
	Rows    []index.Row       // one of a drop
	Infos   []index.ChunkInfo // of all rows of an add
}

// NewFileRecord returns the record of a whole file.
func NewFileRecord(w *index.WholeFile) *Record {
	return &Record{
		Kind: FileRecord, Key: index.Key{Hash: w.Hash}, Size: uint64(w.Size), Time: uint64(w.MTime), CRC: w.CRC,
		CTime: uint64(w.CTime.Load()),
	}
}

// append adds the encoding of r to b.
func (r *Record) append(b []byte) []byte {
	b = append(b, byte(r.Kind))
	switch r.Kind {
	case HeaderRecord:
		b = binary.AppendUvarint(b, r.Version)
		b = append(b, r.ID[:]...)
		b = binary.AppendUvarint(b, r.Number)
		b = binary.AppendUvarint(b, r.Time)
	case NameRecord:
		b = append(b, byte(r.Key.Kind))
		b = append(b, r.Key.Hash[:]...)
	case SegmentRecord:
		b = binary.AppendUvarint(b, r.Number)
		b = append(b, byte(r.Queue))
	case AddRecord:
		b = r.appendRows(b)
	case DropRecord:
		b = append(b, byte(r.Key.Kind))
		b = append(b, r.Key.Hash[:]...)
		b = binary.AppendUvarint(b, uint64(r.Rows[0].First))
		b = binary.AppendUvarint(b, uint64(r.Rows[0].N))
	case EvictRecord:
		b = binary.AppendUvarint(b, r.Number)
	case FileRecord:
		b = append(b, r.Key.Hash[:]...)
		b = binary.AppendUvarint(b, r.Size)
		b = binary.AppendUvarint(b, r.Time)
		b = binary.LittleEndian.AppendUint32(b, r.CRC)
		if r.CTime != 0 {
			b = binary.AppendUvarint(b, r.CTime)
		}
	case ForgetRecord:
		b = append(b, r.Key.Hash[:]...)
	}
	return b
}

func (r *Record) appendRows(b []byte) []byte {
	b = binary.AppendUvarint(b, r.Number)
	b = binary.AppendUvarint(b, r.Off)
	infos := r.Infos
	for _, w := range r.Rows {
		b = appendRow(b, w)
		for _, p := range infos[:w.N] {
			b = binary.AppendUvarint(b, uint64(p.Size)<<2|uint64(p.Uses))
			b = binary.LittleEndian.AppendUint32(b, p.CRC)
		}
		infos = infos[w.N:]
	}
	return b
}

func appendRow(b []byte, w index.Row) []byte {
	b = binary.AppendUvarint(b, uint64(w.Ref))
	b = binary.AppendUvarint(b, uint64(w.First))
	return binary.AppendUvarint(b, uint64(w.N))
}

// decode makes r the record b. It reuses the memory of r and allocates at most what b can
// fill.
func (r *Record) decode(b []byte) error {
	*r = Record{Rows: r.Rows[:0], Infos: r.Infos[:0]}
	in := decoder{b: b}
	r.Kind = RecordKind(in.byte())
	switch r.Kind {
	case HeaderRecord:
		r.Version = in.uvarint()
		copy(r.ID[:], in.bytes(len(r.ID)))
		r.Number, r.Time = in.uvarint(), in.uvarint()
	case NameRecord:
		r.Key.Kind = index.Kind(in.byteBelow(byte(index.NumKinds), "kind of object"))
		r.Key.Hash = in.hash()
	case SegmentRecord:
		r.Number = in.below(1<<32, "segment")
		r.Queue = index.Queue(in.byteBelow(byte(index.NumQueues), "queue"))
	case AddRecord:
		r.decodeRows(&in)
	case DropRecord:
		r.Key.Kind = index.Kind(in.byteBelow(byte(index.NumKinds), "kind of object"))
		r.Key.Hash = in.hash()
		r.Rows = append(r.Rows, in.chunks())
	case EvictRecord:
		r.Number = in.below(1<<32, "segment")
	case FileRecord:
		r.Key.Hash = in.hash()
		r.Size = in.below(1<<62, "size")
		r.Time = in.uvarint()
		r.CRC = in.uint32()
		if in.err == nil && in.off < len(b) { // absent in records of earlier programs
			if r.CTime = in.uvarint(); r.CTime == 0 {
				in.fail("touched at no time")
			}
		}
	case ForgetRecord:
		r.Key.Hash = in.hash()
	case EndRecord, CloseRecord:
	default:
		in.fail("kind %d is not known", r.Kind)
	}
	if in.err == nil && in.off < len(b) {
		in.fail("%d bytes are left over", len(b)-in.off)
	}
	return in.err
}

func (r *Record) decodeRows(in *decoder) {
	r.Number = in.below(1<<32, "segment")
	r.Off = in.below(index.MaxSegment+1, "offset")
	end := r.Off
	for in.err == nil && (len(r.Rows) == 0 || in.off < len(in.b)) {
		w := in.row()
		// A chunk takes at least 5 bytes, so a wrong count cannot cause a large allocation.
		if w.N > (len(in.b)-in.off)/5 {
			in.fail("%d chunks, %d bytes are left", w.N, len(in.b)-in.off)
			return
		}
		r.Rows = append(r.Rows, w)
		for range w.N {
			v := in.below(index.MaxSegment<<2, "size of a chunk")
			if v>>2 == 0 {
				in.fail("a chunk of no bytes")
			}
			r.Infos = append(r.Infos, index.ChunkInfo{Size: int(v >> 2), Uses: uint8(v & index.MaxUses), CRC: in.uint32()})
			end += v >> 2
		}
	}
	if in.err == nil && end > index.MaxSegment {
		in.fail("chunks end at byte %d of a segment, %d is the most", end, index.MaxSegment)
	}
}

// A decoder reads a record. It returns zeros after the first error.
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

// uvarint accepts a number only in its shortest form, so a record has one spelling.
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

func (in *decoder) row() index.Row {
	ref := uint32(in.below(1<<32-1, "reference"))
	w := in.chunks()
	w.Ref = ref
	return w
}

// chunks reads the first chunk of a row and the number of chunks.
func (in *decoder) chunks() index.Row {
	w := index.Row{First: uint32(in.below(codec.MaxXorbChunks, "chunk"))}
	w.N = int(in.below(codec.MaxXorbChunks+1, "count"))
	if in.err == nil && (w.N == 0 || int(w.First)+w.N > codec.MaxXorbChunks) {
		in.fail("%d chunks from %d on", w.N, w.First)
	}
	return w
}
