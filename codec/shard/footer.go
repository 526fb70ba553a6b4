package shard

import (
	"cmp"
	"slices"

	"github.com/xetfs/xetfs/codec"
)

const (
	footerSize    = 200
	footerVersion = 1
	noExpiry      = ^uint64(0)

	fileTableField = 24 // in the footer

	inFooter = "shard footer"

	// minSize is a shard with two bookends and nothing else, minFooterSize the same
	// with a footer.
	minSize       = 3 * recordSize
	minFooterSize = minSize + footerSize
)

// Meta is what a shard says about itself.
type Meta struct {
	Version uint64 // of the header
	Size    int64  // of the shard in bytes

	// Footer reports whether the shard has a footer. All fields below, except the offsets of
	// the sections, come from the footer. Without a footer they are zero.
	Footer bool

	FileInfoOffset int64
	XorbInfoOffset int64
	FooterOffset   int64

	FileTable  Table
	XorbTable  Table
	ChunkTable Table

	// Key is the raw chunk hash key. If it is not zero the shard is Keyed. Its chunk hashes
	// then equal keyed hashes only, and prove nothing about the bytes of a chunk. Hashes of
	// files and xorbs are as always.
	Key   [32]byte
	Keyed bool

	Created uint64 // Unix seconds, 0 if the writer did not say
	Expires uint64 // Unix seconds, as stored: 2^64-1 and, from some writers, 0 mean never

	// Totals as the writer saw them. They are not checked: some leave them 0.
	PackedBytes   uint64 // of the xorbs as serialized
	UnpackedBytes uint64 // of the xorbs
	FileBytes     uint64
}

// A Table is the place of a lookup table. The offset of one without entries means
// nothing: writers differ.
type Table struct {
	Offset uint64 // in the shard, in bytes
	Count  uint64 // entries
}

// appendFooter adds the footer that m describes to b.
//
//	offset  size  field
//	     0     8  version, always 1
//	     8     8  offset of the File Info section
//	    16     8  offset of the CAS Info section
//	    24    16  file lookup table: offset, entries
//	    40    16  CAS lookup table
//	    56    16  chunk lookup table
//	    72    32  chunk hash key, or zero
//	   104     8  creation time, Unix seconds
//	   112     8  expiry of the key, Unix seconds
//	   120    48  unused
//	   168     8  sum of the packed sizes of the xorbs
//	   176     8  sum of the sizes of the files
//	   184     8  sum of the unpacked sizes of the xorbs
//	   192     8  offset of the footer
func appendFooter(b []byte, m *Meta) []byte {
	b = le.AppendUint64(b, footerVersion)
	b = le.AppendUint64(b, uint64(m.FileInfoOffset))
	b = le.AppendUint64(b, uint64(m.XorbInfoOffset))
	for _, t := range []Table{m.FileTable, m.XorbTable, m.ChunkTable} {
		b = le.AppendUint64(b, t.Offset)
		b = le.AppendUint64(b, t.Count)
	}
	b = append(b, m.Key[:]...)
	b = le.AppendUint64(b, m.Created)
	b = le.AppendUint64(b, m.Expires)
	b = append(b, make([]byte, 48)...)
	b = le.AppendUint64(b, m.PackedBytes)
	b = le.AppendUint64(b, m.FileBytes)
	b = le.AppendUint64(b, m.UnpackedBytes)
	return le.AppendUint64(b, uint64(m.FooterOffset))
}

// looksLikeFooter is for a shard whose header says it has no footer. A bookend,
// which must stand at the end then, never looks like one.
func looksLikeFooter(b []byte, size int64) bool {
	return le.Uint64(b) == footerVersion && le.Uint64(b[192:]) == uint64(size-footerSize)
}

// decodeFooter decodes the footer at the end of a shard of size bytes. It checks that sections
// and tables follow each other within the shard.
func decodeFooter(b []byte, size int64) (Meta, error) {
	off := size - footerSize
	files, xorbs, footer := le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[192:])
	switch version := le.Uint64(b); {
	case version != footerVersion:
		return Meta{}, codec.Corrupt(inFooter, off, "version %d is not known", version)
	case footer != uint64(off):
		return Meta{}, codec.Corrupt(inFooter, off+192, "says it begins at byte %d", footer)
	case files != recordSize:
		return Meta{}, codec.Corrupt(inFooter, off+8, "file info section begins at byte %d, not %d", files, recordSize)
	case xorbs < 2*recordSize || xorbs%recordSize != 0 || xorbs > uint64(off-recordSize):
		return Meta{}, codec.Corrupt(inFooter, off+16, "CAS info section cannot begin at byte %d", xorbs)
	}
	m := Meta{
		Version: headerVersion, Size: size, Footer: true,
		FileInfoOffset: int64(files), XorbInfoOffset: int64(xorbs), FooterOffset: off,
		FileTable: decodeTable(b[24:]), XorbTable: decodeTable(b[40:]), ChunkTable: decodeTable(b[56:]),
		Key: [32]byte(b[72:]), Created: le.Uint64(b[104:]), Expires: le.Uint64(b[112:]),
		PackedBytes: le.Uint64(b[168:]), FileBytes: le.Uint64(b[176:]), UnpackedBytes: le.Uint64(b[184:]),
	}
	m.Keyed = m.Key != [32]byte{}
	return m, m.checkTables()
}

func decodeTable(b []byte) Table {
	return Table{Offset: le.Uint64(b), Count: le.Uint64(b[8:])}
}

// A span is a table that has entries.
type span struct {
	name  string
	field int64 // offset of the table's fields in the footer
	entry uint64
	Table
}

// spans returns the tables that have entries in the order of their offsets.
func (m *Meta) spans() []span {
	all := []span{
		{"file lookup table", fileTableField, lookupEntrySize, m.FileTable},
		{"CAS lookup table", 40, lookupEntrySize, m.XorbTable},
		{"chunk lookup table", 56, chunkEntrySize, m.ChunkTable},
	}
	all = slices.DeleteFunc(all, func(s span) bool { return s.Count == 0 })
	slices.SortStableFunc(all, func(a, b span) int { return cmp.Compare(a.Offset, b.Offset) })
	return all
}

// checkTables checks that the tables are between the CAS Info section and the footer, and do
// not overlap. The CAS Info section has at least a bookend.
func (m *Meta) checkTables() error {
	free, end := uint64(m.XorbInfoOffset+recordSize), uint64(m.FooterOffset)
	for _, s := range m.spans() {
		at := m.FooterOffset + s.field
		if s.Offset < free || s.Offset > end {
			return codec.Corrupt(inFooter, at, "%s cannot begin at byte %d", s.name, s.Offset)
		}
		if s.Count > (end-s.Offset)/s.entry {
			return codec.Corrupt(inFooter, at+8, "%s with count %d does not fit into the %d bytes before the footer",
				s.name, s.Count, end-s.Offset)
		}
		free = s.Offset + s.Count*s.entry
	}
	return nil
}

// xorbsEnd is the end of the CAS Info section: the first table follows it directly.
func (m *Meta) xorbsEnd() int64 {
	if spans := m.spans(); len(spans) > 0 {
		return int64(spans[0].Offset)
	}
	return m.FooterOffset
}
