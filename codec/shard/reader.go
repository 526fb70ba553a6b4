package shard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/xetfs/xetfs/codec"
)

var (
	// ErrNoFile is the answer for a file that the shard does not have.
	ErrNoFile = errors.New("no such file in this shard")
	// ErrNoXorb is the answer for a xorb that the shard does not have.
	ErrNoXorb = errors.New("no such xorb in this shard")
)

// A Reader looks things up in one shard, with its tables if it has them. It is safe
// for concurrent use if its io.ReaderAt is. Errors are an ErrCorrupt, which names
// the block and the reason, or come from the io.ReaderAt.
type Reader struct {
	r     io.ReaderAt
	meta  Meta
	files section
	xorbs section
}

// MaxSize is the most bytes of a shard. Writers end a shard at 64 MiB.
const MaxSize = 4 << 30

// CheckSize refuses a shard of more than MaxSize bytes, before a caller hashes all of it.
func CheckSize(size int64) error {
	if size > MaxSize {
		return codec.Corrupt("shard", MaxSize, "it has %d bytes, %d is the most", size, int64(MaxSize))
	}
	return nil
}

// NewReader opens a shard of size bytes. With a footer it reads header and footer
// only; without one it goes from block to block to find where the sections end.
func NewReader(r io.ReaderAt, size int64) (*Reader, error) {
	if size < minSize {
		return nil, codec.Corrupt("shard", size, "ends after %d bytes, the smallest shard has %d", size, minSize)
	}
	if err := CheckSize(size); err != nil {
		return nil, err
	}
	var b [footerSize]byte
	if err := readFull(r, b[:recordSize], 0, inHeader); err != nil {
		return nil, err
	}
	h, err := decodeHeader(b[:])
	if err != nil {
		return nil, err
	}
	if h.footer && size < minFooterSize {
		return nil, codec.Corrupt("shard", size, "ends after %d bytes, the smallest shard with a footer has %d", size, minFooterSize)
	}
	if size >= minFooterSize {
		if err := readFull(r, b[:], size-footerSize, inFooter); err != nil {
			return nil, err
		}
	}
	var m Meta
	if h.footer || looksLikeFooter(b[:], size) {
		m, err = decodeFooter(b[:], size)
	} else {
		m, err = withoutFooter(r, size)
	}
	if err != nil {
		return nil, err
	}
	return newReader(r, m), nil
}

func withoutFooter(r io.ReaderAt, size int64) (Meta, error) {
	xorbs, end, err := sections(r, size)
	if err != nil {
		return Meta{}, err
	}
	if end != size {
		return Meta{}, trailing(end, size)
	}
	return Meta{Version: headerVersion, Size: size, FileInfoOffset: recordSize, XorbInfoOffset: xorbs}, nil
}

func newReader(r io.ReaderAt, m Meta) *Reader {
	end := m.Size
	if m.Footer {
		end = m.xorbsEnd()
	}
	return &Reader{
		r:    r,
		meta: m,
		files: section{
			r: r, what: inFile, table: m.FileTable, walk: walkFiles,
			start: m.FileInfoOffset, end: m.XorbInfoOffset,
		},
		xorbs: section{
			r: r, what: inXorb, table: m.XorbTable, walk: walkXorbs,
			start: m.XorbInfoOffset, end: end,
		},
	}
}

// Meta returns what the shard says about itself.
func (r *Reader) Meta() Meta { return r.meta }

// FileInfo returns the first block of a file, or ErrNoFile. With a lookup table it
// reads a few KiB, without one the first call reads the section once.
func (r *Reader) FileInfo(file codec.Hash) (*FileInfo, error) {
	s, head, err := r.files.find(file)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, ErrNoFile
	}
	return newFileInfo(s, decodeFileHeader(head))
}

// XorbInfo returns the first block of a xorb, or ErrNoXorb. It reads as FileInfo does.
func (r *Reader) XorbInfo(xorb codec.Hash) (*XorbInfo, error) {
	s, head, err := r.xorbs.find(xorb)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, ErrNoXorb
	}
	h := decodeXorbHeader(head)
	if err := s.room(inXorb, s.off-recordSize, uint64(h.chunks)); err != nil {
		return nil, err
	}
	x := new(XorbInfo)
	if err := readXorb(s, h, x); err != nil {
		return nil, err
	}
	return x, nil
}

// Files returns all files in the order of the shard, with repetitions. A corrupt file is
// yielded as an error. A caller that continues gets the files behind it as far as they can be
// found.
func (r *Reader) Files() iter.Seq2[*FileInfo, error] {
	return func(yield func(*FileInfo, error) bool) {
		w := fileWalk{walk: r.files.blocks()}
		for w.block() {
			f := new(FileInfo)
			if _, err := w.read(f); err != nil {
				f = nil
				if !yield(nil, err) || !errors.Is(err, codec.ErrCorrupt) {
					return
				}
				continue
			}
			if !yield(f, nil) {
				return
			}
		}
		if w.err != nil {
			yield(nil, w.err)
		}
	}
}

// Heads is Files without the terms, for a list of very many files. It checks as
// much as Files, reads in large pieces and allocates nothing per file.
func (r *Reader) Heads() iter.Seq2[FileHead, error] {
	return func(yield func(FileHead, error) bool) {
		w := fileWalk{walk: r.files.blocks()}
		for w.block() {
			head, err := w.read(nil)
			if !yield(head, err) || err != nil && !errors.Is(err, codec.ErrCorrupt) {
				return
			}
		}
		if w.err != nil {
			yield(FileHead{}, w.err)
		}
	}
}

// Blocks returns the offsets of the File Info blocks of an encoded shard, by file.
func Blocks(encoded []byte) (map[codec.Hash]int64, error) {
	r, err := NewReader(bytes.NewReader(encoded), int64(len(encoded)))
	if err != nil {
		return nil, err
	}
	blocks := map[codec.Hash]int64{}
	for f, err := range r.Heads() {
		if err != nil {
			return nil, err
		}
		blocks[f.File] = f.Block
	}
	return blocks, nil
}

// Xorbs returns all xorbs in the order of the shard. Errors are as with Files.
func (r *Reader) Xorbs() iter.Seq2[*XorbInfo, error] {
	return func(yield func(*XorbInfo, error) bool) {
		w := r.xorbs.blocks()
		for w.block() {
			x := new(XorbInfo)
			if err := readXorb(w.s, decodeXorbHeader(w.head[:]), x); err != nil {
				if !yield(nil, err) || !errors.Is(err, codec.ErrCorrupt) {
					return
				}
				continue
			}
			if !yield(x, nil) {
				return
			}
		}
		if w.err != nil {
			yield(nil, w.err)
		}
	}
}

// blocks walks over the whole section.
func (s *section) blocks() *walk {
	return s.walk(recordsAt(s.r, s.start, s.end, scanBuffer), s.end)
}

func readFull(r io.ReaderAt, p []byte, off int64, what string) error {
	if n, err := r.ReadAt(p, off); n < len(p) {
		return shortRead(what, off, n, len(p), err)
	}
	return nil
}

// shortRead is the error of a read that brought n of want bytes: damage if they end
// there, otherwise what the reader said.
func shortRead(what string, off int64, n, want int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return codec.Corrupt(what, off, "ends after %d of %d bytes", n, want)
	}
	return fmt.Errorf("%s at byte %d: %w", what, off, err)
}
