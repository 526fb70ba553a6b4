package xorb

import (
	"errors"
	"io"
	"slices"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// Check unpacks every chunk of a xorb of size bytes and compares the chunks with all metadata
// of the xorb. It calls fault for each error, with the index of the chunk and the offset in the
// xorb. It continues behind a chunk that does not unpack. It also continues behind an
// unreadable header if a footer has the next offset.
//
// The Info has the hashes of the unpacked chunks and the hash of the xorb that they make. A
// chunk that does not unpack has the hash of the footer, or zero. The error is one of r; damage
// is no error.
func Check(r io.ReaderAt, size int64, fault func(error)) (*Info, error) {
	return CheckRest(r, size, func(int) bool { return false }, fault)
}

// CheckRest is Check without the bytes of chunks that were unpacked before from the same xorb.
// For such a chunk, proven returns true. The chunk must have the hash that the proven list of
// the xorb has for it. Its header is checked, and the hash of the footer is compared through
// the hash of the xorb. A xorb without a good footer is checked in full.
func CheckRest(r io.ReaderAt, size int64, proven func(chunk int) bool, fault func(error)) (*Info, error) {
	buf := scratches.Get().(*scratch)
	defer scratches.Put(buf)
	c := checker{r: r, size: size, proven: proven, fault: fault, buf: buf}
	if err := c.readFooter(); err != nil {
		return nil, err
	}
	if err := c.chunks(); err != nil {
		return nil, err
	}
	return c.finish()
}

type checker struct {
	r      io.ReaderAt
	size   int64 // of the xorb, or of its chunks if the footer is known
	proven func(chunk int) bool
	fault  func(error)
	footer *Info // nil: no usable footer
	info   Info
	off    int64 // end of the chunks so far
	broken bool  // the walk did not reach the end
	packed []byte
	buf    *scratch
}

// readFooter finds the footer, if there is a good one. Then the chunks end where it
// begins.
func (c *checker) readFooter() error {
	footer, err := readFooter(c.r, c.size)
	switch {
	case err == nil:
		c.footer, c.info.Footer = footer, footer.Footer
		c.size = c.footerOff()
	case errors.Is(err, codec.ErrCorrupt):
		c.fault(err)
	case !errors.Is(err, ErrNoFooter):
		return err
	}
	return nil
}

// chunks checks chunk after chunk up to the end.
func (c *checker) chunks() error {
	w := walker{r: c.r, size: c.size}
	for i := 0; ; i++ {
		at, ok, err := w.next(i)
		switch {
		case errors.Is(err, codec.ErrCorrupt):
			c.fault(err)
			if at, ok, err = c.fromFooter(&w, i); err != nil {
				return err
			}
			c.broken = !ok
		case err != nil:
			return err
		case ok:
			if err := c.chunk(at); err != nil {
				return err
			}
		}
		if !ok {
			return nil
		}
		w.off = at.End()
		c.off = w.off
		c.comparePacked(at)
	}
}

// fromFooter returns the place of chunk i according to the footer, for an unreadable header.
// The footer also has the place if the walk is lost. ok is false without a footer. The error is
// one of the reader.
func (c *checker) fromFooter(w *walker, i int) (at ChunkAt, ok bool, err error) {
	if c.footer == nil || i >= c.footer.Len() {
		return at, false, nil
	}
	if start := startOf(c.footer.PackedEnd, uint32(i)); start != w.off {
		w.off = start
		at, ok, err = w.next(i)
		if ok {
			return at, true, c.chunk(at)
		}
		if err != nil && !errors.Is(err, codec.ErrCorrupt) {
			return at, false, err
		}
	}
	at = ChunkAt{Index: i, Off: w.off}
	at.Header.Packed = int(int64(c.footer.PackedEnd[i]) - w.off - ChunkHeaderSize)
	if c.footer.UnpackedEnd != nil {
		at.Header.Unpacked = int(int64(c.footer.UnpackedEnd[i]) - startOf(c.footer.UnpackedEnd, uint32(i)))
	}
	c.add(at, c.footer.Chunks[i])
	return at, true, nil
}

// chunk unpacks one chunk and compares its hash and its size with the footer. The
// error is one of the reader.
func (c *checker) chunk(at ChunkAt) error {
	var want codec.Hash
	known := c.footer != nil && at.Index < c.footer.Len()
	if known {
		want = c.footer.Chunks[at.Index]
	}
	if known && c.proven(at.Index) {
		c.add(at, want)
		c.compareUnpacked(at)
		return nil
	}
	c.packed = slices.Grow(c.packed[:0], at.Header.Packed)[:at.Header.Packed]
	body := at.Off + ChunkHeaderSize
	if err := readAt(c.r, c.packed, body); err != nil {
		return err
	}
	dst := c.buf[:at.Header.Unpacked]
	if err := unpack(dst, c.packed, at.Header.Scheme); err != nil {
		c.fault(chunkError(at.Index, shift(err, body)))
		c.add(at, want)
		return nil
	}
	got := merkle.Chunk(dst)
	if known && got != want {
		c.fault(chunkError(at.Index, badHash(at.Off, got, want)))
	}
	c.add(at, got)
	c.compareUnpacked(at)
	return nil
}

// comparePacked holds the end of a chunk against the footer.
func (c *checker) comparePacked(at ChunkAt) {
	if c.footer == nil || at.Index >= c.footer.Len() {
		return
	}
	if want := int64(c.footer.PackedEnd[at.Index]); at.End() != want {
		c.fault(chunkError(at.Index, badHeader(at.Off, "ends at byte %d, the footer says %d", at.End(), want)))
	}
}

// compareUnpacked holds the unpacked size of a chunk against the footer.
func (c *checker) compareUnpacked(at ChunkAt) {
	if c.footer == nil || at.Index >= len(c.footer.UnpackedEnd) {
		return
	}
	want := int64(c.footer.UnpackedEnd[at.Index]) - startOf(c.footer.UnpackedEnd, uint32(at.Index))
	if want != int64(at.Header.Unpacked) {
		c.fault(chunkError(at.Index, badHeader(at.Off+5, "unpacks to %d bytes, the footer says %d", at.Header.Unpacked, want)))
	}
}

func (c *checker) add(at ChunkAt, h codec.Hash) {
	in := &c.info
	unpacked := startOf(in.UnpackedEnd, uint32(in.Len())) + int64(at.Header.Unpacked)
	in.Chunks = append(in.Chunks, h)
	in.PackedEnd = append(in.PackedEnd, uint32(at.End()))
	in.UnpackedEnd = append(in.UnpackedEnd, uint32(unpacked))
}

// finish checks what concerns the xorb as a whole.
func (c *checker) finish() (*Info, error) {
	in := &c.info
	in.Xorb = in.Root()
	if c.footer == nil {
		return in, c.noFooter()
	}
	if in.Len() != c.footer.Len() {
		c.fault(codec.Corrupt("xorb footer", c.footerOff(), "%d chunks, there are %d", c.footer.Len(), in.Len()))
	}
	if in.Xorb != c.footer.Xorb {
		c.fault(codec.Corrupt("xorb footer", c.footerOff()+8, "the xorb is %s, its chunks give %s", c.footer.Xorb, in.Xorb))
	}
	return in, nil
}

// noFooter checks the end of a xorb whose footer, if it has one, was not found from
// there.
func (c *checker) noFooter() error {
	if c.broken {
		return nil
	}
	err := checkTrailer(c.r, c.off, c.size)
	if errors.Is(err, codec.ErrCorrupt) {
		c.fault(err)
		return nil
	}
	return err
}

func (c *checker) footerOff() int64 { return startOf(c.footer.PackedEnd, uint32(c.footer.Len())) }
