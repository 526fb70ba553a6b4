package xorb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// Describe writes the bytes of a xorb, field by field, for people and for golden tests: the
// chunks with their hashes, then the footer. It shows damage and continues. The error is one of
// w.
func Describe(w io.Writer, b []byte) error {
	buf := bufio.NewWriter(w)
	Lines(b, func(off int64, text string, _ bool) {
		fmt.Fprintf(buf, "%8d  %s\n", off, text)
	})
	return buf.Flush()
}

// Lines calls do for each line of Describe, in order: the offset of the field, its text, and
// whether the line reports damage.
func Lines(b []byte, do func(off int64, text string, damaged bool)) {
	buf := scratches.Get().(*scratch)
	defer scratches.Put(buf)
	d := describer{do: do, b: b, buf: buf}
	d.chunks()
	d.footer()
	d.line(sound, "end", "")
}

// A describer shows the bytes from off on. It compares the chunks with the footer.
type describer struct {
	do     func(off int64, text string, damaged bool)
	b      []byte
	off    int
	hashes []codec.Hash // of the chunks; zero where one does not unpack
	packed []int        // ends
	sizes  []int        // unpacked ends
	buf    *scratch
}

// A line is sound, or it reports damage.
const (
	sound   = false
	damaged = true
)

func (d *describer) line(state bool, name, format string, args ...any) {
	text := name
	if format != "" {
		text += strings.Repeat(" ", max(2, 18-len(name))) + fmt.Sprintf(format, args...)
	}
	d.do(int64(d.off), text, state)
}

// chunks shows all chunks up to the footer or the end.
func (d *describer) chunks() {
	known, _ := readFooter(bytes.NewReader(d.b), int64(len(d.b)))
	for i := 0; d.off < len(d.b) && !isFooter(d.b[d.off:]); i++ {
		name := fmt.Sprintf("chunk %d", i)
		at, err := chunkAt(d.b[d.off:], min(i, codec.MaxXorbChunks-1), int64(d.off), int64(len(d.b)))
		var corrupt *codec.CorruptError
		if errors.As(err, &corrupt) {
			d.line(damaged, name, "%v", corrupt)
			d.skip(known, i)
			continue
		}
		d.chunk(name, at)
	}
}

func (d *describer) chunk(name string, at ChunkAt) {
	h := at.Header
	dst := d.buf[:h.Unpacked]
	body := d.off + ChunkHeaderSize
	var hash codec.Hash
	var verdict any = &hash
	state := sound
	if err := unpack(dst, d.b[body:body+h.Packed], h.Scheme); err != nil {
		verdict, state = shift(err, int64(body)), damaged
	} else {
		hash = merkle.Chunk(dst)
	}
	d.line(state, name, "%-8s%7d →%7d  %v", h.Scheme, h.Packed, h.Unpacked, verdict)
	d.passed(int(at.End()), h.Unpacked, hash)
}

// passed notes a chunk and goes to its end.
func (d *describer) passed(end, unpacked int, hash codec.Hash) {
	before := 0
	if len(d.sizes) > 0 {
		before = d.sizes[len(d.sizes)-1]
	}
	d.hashes = append(d.hashes, hash)
	d.packed = append(d.packed, end)
	d.sizes = append(d.sizes, before+unpacked)
	d.off = end
}

// skip passes chunk i, whose header cannot be read. It moves to the end of the chunk in the
// footer, or else to the next ident of a footer, or to the end.
func (d *describer) skip(known *Info, i int) {
	if known != nil && i < known.Len() && int(known.PackedEnd[i]) > d.off {
		unpacked := 0
		if known.UnpackedEnd != nil {
			unpacked = int(int64(known.UnpackedEnd[i]) - startOf(known.UnpackedEnd, uint32(i)))
		}
		d.passed(int(known.PackedEnd[i]), unpacked, codec.Hash{})
		return
	}
	end := len(d.b)
	if at := bytes.Index(d.b[d.off:], []byte(identFooter)); at >= 0 {
		end = d.off + at
	}
	d.line(damaged, "lost", "%d bytes", end-d.off)
	d.off = end
}

// errEnd ends the description of a footer that is cut off.
var errEnd = errors.New("ends here")

// footer shows the footer at d.off, if there is one, and whatever follows it.
func (d *describer) footer() {
	if d.off == len(d.b) {
		return
	}
	version := byte(0xff)
	if d.off+identSize < len(d.b) {
		version = d.b[d.off+identSize]
	}
	show := d.footerV1
	if version == 0 {
		show = d.footerV0
	}
	if show() != nil {
		d.line(damaged, "rest", "%d bytes, then it %v", len(d.b)-d.off, errEnd)
	} else if d.off < len(d.b) {
		d.line(damaged, "rest", "%d bytes more", len(d.b)-d.off)
	}
	d.off = len(d.b)
}

func (d *describer) footerV0() error {
	start := d.off
	return d.fields(
		func() error { return d.ident("footer", identFooter, 0) },
		d.xorbHash,
		func() error { return d.word("count", len(d.hashes)) },
		func() error { return d.ends("packed end", d.packed) },
		d.chunkHashes,
		d.free,
		func() error { return d.word("length", d.off-start) },
	)
}

func (d *describer) footerV1() error {
	start := d.off
	n := uint32(len(d.hashes))
	count := func() error { return d.word("count", int(n)) }
	return d.fields(
		func() error { return d.ident("footer", identFooter, 1) },
		d.xorbHash,
		func() error { return d.ident("hash section", identHashes, hashesVersion) },
		count,
		d.chunkHashes,
		func() error { return d.ident("boundaries", identBoundary, boundaryVersion) },
		count,
		func() error { return d.ends("packed end", d.packed) },
		func() error { return d.ends("unpacked end", d.sizes) },
		count,
		func() error { return d.word("hashes from end", int(hashesDistance(n))) },
		func() error { return d.word("bounds from end", int(boundaryDistance(n))) },
		d.free,
		func() error { return d.word("length", d.off-start) },
	)
}

func (d *describer) fields(fields ...func() error) error {
	for _, show := range fields {
		if err := show(); err != nil {
			return err
		}
	}
	return nil
}

// peek returns the next n bytes.
func (d *describer) peek(n int) ([]byte, error) {
	if len(d.b)-d.off < n {
		return nil, errEnd
	}
	return d.b[d.off : d.off+n], nil
}

func (d *describer) ident(name, want string, version byte) error {
	b, err := d.peek(identSize + 1)
	if err != nil {
		return err
	}
	note := ""
	if string(b[:identSize]) != want || b[identSize] != version {
		note = fmt.Sprintf("  want %q version %d", want, version)
	}
	d.line(note != "", name, "%q version %d%s", b[:identSize], b[identSize], note)
	d.off += identSize + 1
	return nil
}

func (d *describer) word(name string, want int) error {
	b, err := d.peek(4)
	if err != nil {
		return err
	}
	note := ""
	got := binary.LittleEndian.Uint32(b)
	if int64(got) != int64(want) {
		note = fmt.Sprintf("  want %d", want)
	}
	d.line(note != "", name, "%d%s", got, note)
	d.off += 4
	return nil
}

// hash shows a hash, and what it should be if that is known.
func (d *describer) hash(name string, want codec.Hash) error {
	b, err := d.peek(len(want))
	if err != nil {
		return err
	}
	note := ""
	got := codec.Hash(b)
	if got != want && !want.IsZero() {
		note = fmt.Sprintf("  want %s", want)
	}
	d.line(note != "", name, "%s%s", got, note)
	d.off += len(want)
	return nil
}

func (d *describer) xorbHash() error {
	if slices.Contains(d.hashes, codec.Hash{}) {
		return d.hash("xorb", codec.Hash{})
	}
	leaves := make([]merkle.Leaf, len(d.hashes))
	for i := range leaves {
		leaves[i].Hash, leaves[i].Size = d.hashes[i], uint64(d.sizes[i])
		if i > 0 {
			leaves[i].Size -= uint64(d.sizes[i-1])
		}
	}
	return d.hash("xorb", merkle.Xorb(leaves))
}

func (d *describer) chunkHashes() error {
	for i, h := range d.hashes {
		if err := d.hash(fmt.Sprintf("hash %d", i), h); err != nil {
			return err
		}
	}
	return nil
}

func (d *describer) ends(name string, want []int) error {
	for i, end := range want {
		if err := d.word(fmt.Sprintf("%s %d", name, i), end); err != nil {
			return err
		}
	}
	return nil
}

func (d *describer) free() error {
	b, err := d.peek(freeSize)
	if err != nil {
		return err
	}
	d.line(sound, "free", "%x", b)
	d.off += freeSize
	return nil
}
