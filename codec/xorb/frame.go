package xorb

import (
	"encoding/binary"
	"slices"

	"github.com/pierrec/lz4/v4"

	"github.com/xetfs/xetfs/codec"
)

// An LZ4 frame as the format uses it, one per chunk:
//
//	offset  size  field
//	     0     4  magic 04 22 4d 18
//	     4     1  FLG: version 01 in bits 7-6, then the bits below
//	     5     1  BD: code of the largest block in bits 6-4, the rest zero
//	     6     8  size of the content, if FLG says so
//	     …     1  header check: second byte of the xxh32 of FLG, BD and size
//	     …        blocks: 4 bytes size, the block, 4 bytes xxh32 of it if FLG says so
//	     …     4  zeros: no more blocks
//	     …     4  xxh32 of the content, if FLG says so
//
// Bit 31 of a block's size says that the block is stored as it is. Linked blocks may
// refer to the 64 KiB before them, others only to themselves.
const (
	frameMagic      = 0x184d2204
	skippableMagic  = 0x184d2a50 // and the 15 after it
	legacyMagic     = 0x184c2102
	flgVersion      = 1 << 6
	flgVersionMask  = 3 << 6
	flgIndependent  = 1 << 5
	flgBlockCheck   = 1 << 4
	flgContentSize  = 1 << 3
	flgContentCheck = 1 << 2
	flgReserved     = 1 << 1
	flgDictionary   = 1 << 0
	blockStored     = 1 << 31
	window          = 64 << 10 // how far back a linked block may refer
)

// A frame is the state of decoding one. The content goes straight to its place.
type frame struct {
	src      []byte
	pos      int // of the next byte of src
	dst      []byte
	n        int // bytes of dst that are decoded
	flags    byte
	maxBlock int
}

// decodeFrame decodes the LZ4 frame src, which must be exactly one, into all of dst.
// It takes every kind of block that a writer of the format is known to use. Sizes in the
// frame are compared with len(dst) and never allocated by.
func decodeFrame(dst, src []byte) error {
	f := frame{src: src, dst: dst}
	if err := f.header(); err != nil {
		return err
	}
	for {
		more, err := f.block()
		if err != nil {
			return err
		}
		if !more {
			return f.finish()
		}
	}
}

func (f *frame) header() error {
	if len(f.src) < 7 {
		return f.bad(len(f.src), "header ends after %d bytes", len(f.src))
	}
	if err := f.magic(); err != nil {
		return err
	}
	flags, bd := f.src[4], f.src[5]
	switch {
	case flags&flgVersionMask != flgVersion:
		return f.bad(4, "version %d is not known", flags>>6)
	case flags&flgReserved != 0:
		return f.bad(4, "reserved bit is set")
	case flags&flgDictionary != 0:
		return f.bad(4, "wants a dictionary")
	case bd&0x8f != 0:
		return f.bad(5, "reserved bits are set")
	case bd>>4 < 4:
		return f.bad(5, "block size code %d is not known", bd>>4)
	}
	f.flags, f.maxBlock, f.pos = flags, 1<<(8+2*(bd>>4)), 6
	if flags&flgContentSize != 0 {
		if err := f.contentSize(); err != nil {
			return err
		}
	}
	if want := byte(xxh32(f.src[4:f.pos]) >> 8); f.src[f.pos] != want {
		return f.bad(f.pos, "header check is %02x, want %02x", f.src[f.pos], want)
	}
	f.pos++
	return nil
}

func (f *frame) magic() error {
	switch m := binary.LittleEndian.Uint32(f.src); {
	case m == frameMagic:
		return nil
	case m&^0xf == skippableMagic:
		return f.bad(0, "is a skippable frame")
	case m == legacyMagic:
		return f.bad(0, "is a legacy frame")
	default:
		return f.bad(0, "magic is %08x, want %08x", m, frameMagic)
	}
}

func (f *frame) contentSize() error {
	if len(f.src) < 15 {
		return f.bad(len(f.src), "header ends after %d bytes", len(f.src))
	}
	if size := binary.LittleEndian.Uint64(f.src[6:]); size != uint64(len(f.dst)) {
		return f.bad(6, "announces %d bytes, the chunk has %d", size, len(f.dst))
	}
	f.pos = 14
	return nil
}

// word takes the next four bytes of the frame.
func (f *frame) word(what string) (uint32, error) {
	if len(f.src)-f.pos < 4 {
		return 0, f.bad(len(f.src), "ends where %s must follow", what)
	}
	w := binary.LittleEndian.Uint32(f.src[f.pos:])
	f.pos += 4
	return w, nil
}

// block decodes the next block and reports whether there was one.
func (f *frame) block() (bool, error) {
	word, err := f.word("a block or the end mark")
	if err != nil || word == 0 {
		return false, err
	}
	size, start := int(word&^blockStored), f.pos
	switch {
	case size > f.maxBlock:
		return false, f.bad(start-4, "block of %d bytes, the largest has %d", size, f.maxBlock)
	case size > len(f.src)-start:
		return false, f.bad(start-4, "block of %d bytes, %d are left", size, len(f.src)-start)
	}
	packed := f.src[start : start+size]
	f.pos += size
	if err := f.blockCheck(packed); err != nil {
		return false, err
	}
	room := f.dst[f.n:]
	if len(room) > f.maxBlock {
		room = room[:f.maxBlock:f.maxBlock]
	}
	if word&blockStored != 0 {
		if size > len(room) {
			return false, f.bad(start, "holds more than the %d bytes of the chunk", len(f.dst))
		}
		f.n += copy(room, packed)
		return true, nil
	}
	n, err := f.uncompress(room, packed)
	if err != nil {
		return false, f.bad(start, "block does not decode, or to more than the %d bytes that are missing", len(room))
	}
	f.n += n
	return true, nil
}

func (f *frame) uncompress(room, packed []byte) (int, error) {
	if f.flags&flgIndependent != 0 || f.n == 0 {
		return lz4.UncompressBlock(packed, room)
	}
	return lz4.UncompressBlockWithDict(packed, room, f.dst[max(0, f.n-window):f.n])
}

func (f *frame) blockCheck(packed []byte) error {
	if f.flags&flgBlockCheck == 0 {
		return nil
	}
	at := f.pos
	got, err := f.word("the check of a block")
	if err != nil {
		return err
	}
	if want := xxh32(packed); got != want {
		return f.bad(at, "block check is %08x, want %08x", got, want)
	}
	return nil
}

// finish checks what must hold behind the end mark.
func (f *frame) finish() error {
	if f.n != len(f.dst) {
		return f.bad(f.pos, "holds %d bytes, the chunk has %d", f.n, len(f.dst))
	}
	if f.flags&flgContentCheck != 0 {
		at := f.pos
		got, err := f.word("the check of the content")
		if err != nil {
			return err
		}
		if want := xxh32(f.dst); got != want {
			return f.bad(at, "content check is %08x, want %08x", got, want)
		}
	}
	if f.pos != len(f.src) {
		return f.bad(f.pos, "%d bytes follow the frame", len(f.src)-f.pos)
	}
	return nil
}

func (f *frame) bad(off int, format string, args ...any) error {
	return codec.Corrupt("lz4 frame", int64(off), format, args...)
}

// The heads of the frames that appendFrame writes, as in the reference. They have independent
// blocks, no checks, no size, and the smallest block size for the chunk.
var (
	head64K  = [7]byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}
	head256K = [7]byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x50, 0xfb}
)

// frameOverhead is the length of a frame of one block without the block: head, size,
// end mark.
const frameOverhead = 7 + 4 + 4

// appendFrame appends what c has loaded as an LZ4 frame of one block. If the frame would
// not be smaller than that it appends nothing.
func appendFrame(b []byte, c *compressor) []byte {
	start := len(b)
	room := c.size - 1 - frameOverhead
	if room <= 0 {
		return b
	}
	head := head64K
	if c.size > 64<<10 {
		head = head256K
	}
	b = append(b, head[:]...)
	b = append(b, 0, 0, 0, 0)
	block := len(b)
	b = slices.Grow(b, room+wildRoom)
	n := c.compress(b[block : block+room+wildRoom])
	if n == 0 {
		return b[:start]
	}
	binary.LittleEndian.PutUint32(b[block-4:], uint32(n))
	return append(b[:block+n], 0, 0, 0, 0)
}
