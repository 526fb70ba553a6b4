package page

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// Is reports whether b looks like a page, by its first bytes.
func Is(b []byte) bool { return len(b) >= 7 && string(b[:7]) == magic[:7] }

// Describe writes a page row by row with offsets, for people and for golden tests. It shows
// damage and continues, as far as it can find rows. The last line has the result of Decode. The
// error is that of w.
func Describe(w io.Writer, b []byte) error {
	d := description{w: bufio.NewWriter(w)}
	h, err := decodeHeader(b)
	if err != nil {
		d.damage(err)
	}
	if h.restart == 0 {
		d.line(int64(len(b)), "end")
		return d.w.Flush()
	}
	p := clip(h, b)
	d.header(p)
	d.rows(p)
	d.line(int64(len(b)-len(p.points)), "restart points %v", p.offsets())
	if err == nil {
		if err = p.check(); err != nil {
			d.damage(err)
		}
	}
	if err == nil {
		d.line(int64(len(b)), "identity %v", p.Identity())
	}
	d.line(int64(len(b)), "end, BLAKE3 %v", Sum(b))
	return d.w.Flush()
}

// clip returns the parts of a page that b holds, which may be truncated.
func clip(h header, b []byte) *Page {
	rest := b[headerSize:]
	part := func(n int) []byte {
		p := rest[:min(n, len(rest))]
		rest = rest[len(p):]
		return p
	}
	p := &Page{header: h, b: b}
	p.shards = part(hashSize * h.shards)
	p.body = part(h.body)
	p.points = rest
	p.header.shards = len(p.shards) / hashSize
	return p
}

type description struct {
	w *bufio.Writer
}

func (d *description) line(off int64, format string, args ...any) {
	fmt.Fprintf(d.w, "%8d  %s\n", off, fmt.Sprintf(format, args...))
}

func (d *description) damage(err error) { fmt.Fprintf(d.w, "          DAMAGED: %v\n", err) }

func (d *description) header(p *Page) {
	d.line(0, "page, level %d, %d rows, %d entries below, files of %d bytes", p.level, p.rows, p.header.entries, p.header.bytes)
	if p.level == 0 {
		d.line(32, "base time %d", p.base)
	}
	for i := range p.header.shards {
		off := hashSize * i
		d.line(int64(headerSize+off), "shard %d: %v", i, codec.Hash(p.shards[off:]))
	}
}

// rows describes the rows up to the first that cannot be taken apart.
func (d *description) rows(p *Page) {
	start, off := p.bodyStart(), 0
	var key []byte
	for i := range p.rows {
		r, err := p.row(off)
		if err != nil {
			d.damage(err)
			return
		}
		mark := ""
		if i%p.restart == 0 {
			mark = ", restart"
		}
		key = append(key[:min(r.shared, len(key))], r.rest...)
		d.line(int64(start+off), "row %d%s: key %q (%d+%d)", i, mark, key, r.shared, len(r.rest))
		d.value(p, key, r, int64(start+r.at))
		off = r.end
	}
}

func (d *description) value(p *Page, key []byte, r row, at int64) {
	if p.level > 0 {
		l, err := decodeLink(r.value, at)
		if err != nil {
			d.damage(err)
			return
		}
		d.line(at, "  page %v, identity %v, %d bytes, %d entries below, files of %d bytes", l.Page, l.Identity, l.Size, l.Entries, l.Bytes)
		return
	}
	var v value
	if err := v.decode(p, r.value, at); err != nil {
		d.damage(err)
		return
	}
	path := "?"
	if badKey(key) == "" {
		path = pathOf(key)
	}
	var e Entry
	p.readEntry(&e, path, r.value)
	d.entry(at, e, v.more)
}

func (d *description) entry(at int64, e Entry, more int) {
	d.line(at, "  %v %q, mode %04o, %s", e.Type, e.Path, e.Mode, e.ModTime.Format(time.RFC3339Nano))
	if e.Owner != nil {
		d.line(at, "  owner %d:%d", e.Owner.UID, e.Owner.GID)
	}
	switch {
	case e.Type == Symlink:
		d.line(at, "  to %q", e.Target)
	case len(e.Inline) > 0:
		d.line(at, "  content %q", e.Inline)
	case e.Type == File:
		d.line(at, "  %d bytes, file %v%s", e.Size, e.ID.File, where(e.ID))
	}
	if e.SHA256 != nil {
		d.line(at, "  SHA-256 %x", *e.SHA256)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Xattrs)) {
		d.line(at, "  attribute %q: %q", name, e.Xattrs[name])
	}
	if more > 0 {
		d.line(at, "  %d bytes of something newer", more)
	}
}

func where(id codec.FileID) string {
	if id.Shard.IsZero() {
		return ""
	}
	return fmt.Sprintf(" at %d in shard %v", id.Block, id.Shard)
}

// offsets returns the restart points.
func (p *Page) offsets() []int {
	offsets := make([]int, len(p.points)/pointSize)
	for i := range offsets {
		offsets[i] = p.point(i)
	}
	return offsets
}
