package shard

import (
	"errors"
	"io"

	"github.com/xetfs/xetfs/codec"
)

// A Visitor has callbacks for the contents of a shard, in the order of the shard: all files,
// then all xorbs. An error of a callback ends the reading and is returned by Stream. A nil
// callback is not called, but its blocks are checked.
type Visitor struct {
	File func(*FileInfo) error
	Xorb func(*XorbInfo) error
}

// Stream reads a shard sequentially, without seeking. It checks as much as Files and Xorbs of a
// Reader. More than limit bytes are an ErrTooLarge. Memory grows only with the bytes that
// arrive.
//
// The Visitor is called before the rest of the shard was read. Its data is only valid once
// Stream has returned without an error.
func Stream(r io.Reader, limit int64, v Visitor) (Meta, error) {
	s := recordsFrom(r, limit)
	b, err := s.need(inHeader, recordSize)
	if err != nil {
		return Meta{}, err
	}
	h, err := decodeHeader(b)
	if err != nil {
		return Meta{}, err
	}
	if err := streamFiles(s, v.File); err != nil {
		return Meta{}, err
	}
	m := Meta{Version: headerVersion, FileInfoOffset: recordSize, XorbInfoOffset: s.off}
	if err := streamXorbs(s, v.Xorb); err != nil {
		return Meta{}, err
	}
	end := s.off
	tail, err := streamTail(s)
	if err != nil {
		return Meta{}, err
	}
	m.Size = s.off
	if !h.footer && m.Size == end {
		return m, nil
	}
	return streamFooter(h, m, tail, end)
}

func streamFiles(s *records, visit func(*FileInfo) error) error {
	w := fileWalk{walk: walkFiles(s, 0)}
	for w.block() {
		var f *FileInfo
		if visit != nil {
			f = new(FileInfo)
		}
		if _, err := w.read(f); err != nil {
			return err
		}
		if visit != nil {
			if err := visit(f); err != nil {
				return err
			}
		}
	}
	return w.err
}

func streamXorbs(s *records, visit func(*XorbInfo) error) error {
	w := walkXorbs(s, 0)
	for w.block() {
		var x *XorbInfo
		if visit != nil {
			x = new(XorbInfo)
		}
		if err := readXorb(s, decodeXorbHeader(w.head[:]), x); err != nil {
			return err
		}
		if visit != nil {
			if err := visit(x); err != nil {
				return err
			}
		}
	}
	return w.err
}

// streamTail reads to the end and returns the last bytes, as many as a footer has
// or all there were.
func streamTail(s *records) ([]byte, error) {
	var tail []byte
	for {
		_, err := s.need("shard", 1)
		if errors.Is(err, codec.ErrCorrupt) {
			return tail, nil // the end
		}
		if err != nil {
			return nil, err
		}
		b := s.buf[s.lo-1 : s.hi]
		s.off += int64(s.hi - s.lo)
		s.lo = s.hi
		tail = append(tail, b[max(0, len(b)-footerSize):]...)
		tail = tail[max(0, len(tail)-footerSize):]
	}
}

// streamFooter checks the end of a shard whose sections, as found, are in m and
// whose last bytes are tail. The CAS Info section ended at end.
func streamFooter(h header, m Meta, tail []byte, end int64) (Meta, error) {
	if !h.footer && (len(tail) < footerSize || !looksLikeFooter(tail, m.Size)) {
		return Meta{}, trailing(end, m.Size)
	}
	if len(tail) < footerSize {
		return Meta{}, codec.Corrupt(inFooter, end, "ends after %d of %d bytes", len(tail), footerSize)
	}
	f, err := decodeFooter(tail, m.Size)
	if err != nil {
		return Meta{}, err
	}
	if f.XorbInfoOffset != m.XorbInfoOffset {
		return Meta{}, codec.Corrupt(inFooter, f.FooterOffset+16, "CAS info section begins at byte %d, not %d",
			m.XorbInfoOffset, f.XorbInfoOffset)
	}
	if want := f.xorbsEnd(); want != end {
		return Meta{}, codec.Corrupt(inFooter, f.FooterOffset, "CAS info section ends at byte %d, not %d", end, want)
	}
	return f, nil
}
