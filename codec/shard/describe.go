package shard

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// Describe writes the bytes of a shard, record by record with their offsets, for
// people and for golden tests. It shows damage instead of stopping at it: what
// cannot be read is said, and the next section begins where the footer puts it. The
// error is that of w.
func Describe(w io.Writer, b []byte) error {
	buf := bufio.NewWriter(w)
	Lines(b, func(off int64, text string, _ bool) {
		fmt.Fprintf(buf, "%8d  %s\n", off, text)
	})
	return buf.Flush()
}

// Lines calls do for each line of Describe, in order: the offset of the record, its text, and
// whether the line reports damage.
func Lines(b []byte, do func(off int64, text string, damaged bool)) {
	d := &description{do: do, b: b}
	if d.header() {
		end := d.section("file info", inFile, recordSize, d.filesEnd(), d.file)
		end = d.section("CAS info", inXorb, end, d.xorbsEnd(), d.xorb)
		d.tables()
		d.footer(end)
	}
	d.line(int64(len(b)), "end")
}

// A description is a shard on its way to a page.
type description struct {
	do      func(off int64, text string, damaged bool)
	b       []byte
	meta    Meta  // from the footer, if there is a good one
	claimed bool  // the header says that there is one
	wrong   error // about the footer
	end     int64 // of the section
}

func (d *description) line(off int64, format string, args ...any) {
	d.do(off, fmt.Sprintf(format, args...), false)
}

func (d *description) damage(off int64, format string, args ...any) {
	d.do(off, "  DAMAGED: "+fmt.Sprintf(format, args...), true)
}

// header reports whether the shard is long enough for anything else.
func (d *description) header() bool {
	size := int64(len(d.b))
	if size < recordSize {
		d.damage(0, "header ends after %d of %d bytes", size, recordSize)
		return false
	}
	h, err := decodeHeader(d.b)
	if err != nil {
		d.damage(0, "%v", err)
	}
	d.claimed = h.footer
	d.line(0, "header, version %d, footer size %d", le.Uint64(d.b[32:]), le.Uint64(d.b[40:]))
	if size < minFooterSize {
		return true
	}
	tail := d.b[size-footerSize:]
	if h.footer || looksLikeFooter(tail, size) {
		d.meta, d.wrong = decodeFooter(tail, size)
	}
	if d.meta.Keyed {
		d.line(0, "chunk hashes are keyed: not for checking data")
	}
	return true
}

func (d *description) filesEnd() int64 {
	if d.meta.Footer && d.wrong == nil {
		return d.meta.XorbInfoOffset
	}
	return int64(len(d.b))
}

func (d *description) xorbsEnd() int64 {
	if d.meta.Footer && d.wrong == nil {
		return d.meta.xorbsEnd()
	}
	return int64(len(d.b))
}

// section describes the blocks from off up to the bookend. It returns the start of the next
// section: by the footer, or behind the bookend.
func (d *description) section(name, what string, off, end int64, block func(off int64) uint64) int64 {
	d.line(off, "%s section", name)
	d.end = end
	for end-off >= recordSize {
		if b := d.b[off:]; isBookend(b) {
			d.line(off, "bookend")
			w := walk{s: &records{off: off + recordSize}, what: what, off: off}
			if d.meta.Footer && d.wrong == nil {
				w.end = end
			}
			if err := w.bookend(b); err != nil {
				d.damage(off, "%v", err)
			}
			return max(w.end, w.s.off)
		}
		n := block(off)
		off += recordSize
		if !d.fits(off, n) {
			d.damage(off, "%s wanted, %s left in the section", plural(int64(n), "record"), plural(end-off, "byte"))
			return end
		}
		off += int64(n) * recordSize
	}
	d.damage(off, "no bookend")
	return end
}

// fits reports whether n records at off are in the section, and describes the error if not.
func (d *description) fits(off int64, n uint64) bool {
	return n <= uint64(d.end-off)/recordSize
}

func (d *description) file(off int64) uint64 {
	h := decodeFileHeader(d.b[off:])
	d.line(off, "file %v, flags %08x, %s", h.file, h.flags, plural(int64(h.terms), "term"))
	at := off + recordSize
	if !d.fits(at, h.records()) {
		return h.records()
	}
	for i := range h.terms {
		t := decodeTerm(d.b[at:])
		d.line(at, "  term %d: xorb %v, chunks %v, %s", i, t.Xorb, t.Chunks, plural(int64(t.Size), "byte"))
		if reason := badTerm(t); reason != "" {
			d.damage(at, "%s", reason)
		}
		at += recordSize
	}
	if h.verify() {
		for i := range h.terms {
			d.line(at, "  verification of term %d: %v", i, codec.Hash(d.b[at:]))
			at += recordSize
		}
	}
	if h.flags&flagMetadata != 0 {
		d.line(at, "  sha256 %v", codec.Hash(d.b[at:])) // its text form is the usual text
	}
	return h.records()
}

func (d *description) xorb(off int64) uint64 {
	h := decodeXorbHeader(d.b[off:])
	d.line(off, "xorb %v, %s, unpacked %d, packed %d", h.xorb, plural(int64(h.chunks), "chunk"), h.unpacked, h.packed)
	if reason := badXorb(h.chunks); reason != "" {
		d.damage(off, "%s", reason)
	}
	at, end := off+recordSize, uint32(0)
	if !d.fits(at, uint64(h.chunks)) {
		return uint64(h.chunks)
	}
	for i := range h.chunks {
		c := decodeChunk(d.b[at:])
		dedup := ""
		if c.Dedup {
			dedup = ", dedup"
		}
		d.line(at, "  chunk %d: %v at %d, %s%s", i, c.Hash, c.Start, plural(int64(c.Size), "byte"), dedup)
		if reason := badChunk(c, end); reason != "" {
			d.damage(at, "%s", reason)
		}
		end = c.Start + c.Size
		at += recordSize
	}
	if end != h.unpacked {
		d.damage(off, "the chunks have %d bytes, the header says %d", end, h.unpacked)
	}
	return uint64(h.chunks)
}

// tables describes the entries of the lookup tables.
func (d *description) tables() {
	if !d.meta.Footer || d.wrong != nil {
		return
	}
	for _, s := range d.meta.spans() {
		d.line(int64(s.Offset), "%s, count %d", s.name, s.Count)
		last := uint64(0)
		for i := range s.Count {
			off := s.Offset + i*s.entry
			last = d.entry(int64(off), s, last)
		}
	}
}

// entry describes one entry, compares it with the record it points to, and
// returns its key.
func (d *description) entry(off int64, s span, last uint64) uint64 {
	key, record := le.Uint64(d.b[off:]), uint64(le.Uint32(d.b[off+8:]))
	start, end := d.meta.FileInfoOffset, d.meta.XorbInfoOffset
	if s.field != fileTableField {
		start, end = d.meta.XorbInfoOffset, d.meta.xorbsEnd()
	}
	if s.entry == lookupEntrySize {
		d.line(off, "  key %016x, record %d", key, record)
	} else {
		chunk := uint64(le.Uint32(d.b[off+12:]))
		d.line(off, "  key %016x, record %d, chunk %d", key, record, chunk)
		record += 1 + chunk
	}
	at := start + int64(record)*recordSize
	switch {
	case key < last:
		d.damage(off, "out of order")
	case at >= end-recordSize:
		d.damage(off, "points behind the section")
	case le.Uint64(d.b[at:]) != key:
		d.damage(off, "no such key at byte %d", at)
	}
	return key
}

// footer describes the footer, or what is in its place behind the last bookend.
func (d *description) footer(end int64) {
	size, m := int64(len(d.b)), &d.meta
	switch {
	case d.wrong != nil:
		d.damage(size-footerSize, "%v", d.wrong)
		return
	case !m.Footer && (d.claimed || end < size):
		d.damage(end, "%s where a footer should be", plural(size-end, "byte"))
		return
	case !m.Footer:
		return
	}
	off := m.FooterOffset
	d.line(off, "footer, version %d", footerVersion)
	d.line(off+8, "  file info at %d, CAS info at %d", m.FileInfoOffset, m.XorbInfoOffset)
	d.line(off+24, "  file lookup table at %d, count %d", m.FileTable.Offset, m.FileTable.Count)
	d.line(off+40, "  CAS lookup table at %d, count %d", m.XorbTable.Offset, m.XorbTable.Count)
	d.line(off+56, "  chunk lookup table at %d, count %d", m.ChunkTable.Offset, m.ChunkTable.Count)
	d.line(off+72, "  chunk hash key %v", codec.Hash(m.Key))
	d.line(off+104, "  created %s", date(m.Created))
	d.line(off+112, "  expires %s", date(m.Expires))
	d.line(off+168, "  packed %d, unpacked %d, files %d", m.PackedBytes, m.UnpackedBytes, m.FileBytes)
}

func date(unix uint64) string {
	if unix == 0 || unix > 1<<40 {
		return fmt.Sprint(unix)
	}
	return fmt.Sprintf("%d (%s)", unix, time.Unix(int64(unix), 0).UTC().Format(time.RFC3339))
}
