package xorb

import (
	"encoding/binary"

	"github.com/xetfs/xetfs/codec"
)

// The three idents of a footer. The byte behind each is a version.
const (
	identFooter   = "XETBLOB"
	identHashes   = "XBLBHSH"
	identBoundary = "XBLBBND"
	identSize     = len(identFooter)

	hashesVersion   = 0
	boundaryVersion = 1
)

// The lengths of a footer of n chunks, without the length that follows it, are
// footerFixedV0 + 36 n and footerFixedV1 + 40 n. See the package comment.
const (
	footerFixedV0 = 60
	footerFixedV1 = 92
	perChunkV0    = 4 + 32
	perChunkV1    = 4 + 4 + 32
	lengthSize    = 4
	freeSize      = 16
	maxFooterSize = footerFixedV1 + perChunkV1*codec.MaxXorbChunks
)

// AppendFooter adds the footer of version 1 to b, the length behind it included. The
// free bytes are zeros. It needs Xorb, Chunks and both ends.
func (in *Info) AppendFooter(b []byte) []byte {
	n := uint32(in.Len())
	b = append(append(b, identFooter...), 1)
	b = append(b, in.Xorb[:]...)
	b = append(append(b, identHashes...), hashesVersion)
	b = binary.LittleEndian.AppendUint32(b, n)
	for i := range in.Chunks {
		b = append(b, in.Chunks[i][:]...)
	}
	b = append(append(b, identBoundary...), boundaryVersion)
	b = binary.LittleEndian.AppendUint32(b, n)
	for _, end := range in.PackedEnd {
		b = binary.LittleEndian.AppendUint32(b, end)
	}
	for _, end := range in.UnpackedEnd {
		b = binary.LittleEndian.AppendUint32(b, end)
	}
	b = binary.LittleEndian.AppendUint32(b, n)
	b = binary.LittleEndian.AppendUint32(b, hashesDistance(n))
	b = binary.LittleEndian.AppendUint32(b, boundaryDistance(n))
	b = append(b, make([]byte, freeSize)...)
	return binary.LittleEndian.AppendUint32(b, footerFixedV1+perChunkV1*n)
}

func hashesDistance(n uint32) uint32   { return footerFixedV1 - 40 + perChunkV1*n }
func boundaryDistance(n uint32) uint32 { return footerFixedV1 - 52 + 8*n }

// A footer is the bytes of one without the length behind it, being decoded.
type footer struct {
	b   []byte
	off int64 // of b in the xorb, where the chunks must end
}

// FooterSize returns how many bytes follow the packed chunks of a xorb of n chunks. Its maximum
// is the footer of MaxXorbChunks, with its length.
func FooterSize(n int) int {
	return footerFixedV1 + perChunkV1*min(n, codec.MaxXorbChunks) + lengthSize
}

// decodeFooter decodes a footer that starts with the ident. It checks the whole footer, except
// for the hash of the xorb. In version 0 UnpackedEnd stays nil.
func decodeFooter(b []byte, off int64) (*Info, error) {
	f := footer{b, off}
	if len(b) <= identSize {
		return nil, f.bad(len(b), "ends after %d bytes", len(b))
	}
	if off > maxBody {
		return nil, f.bad(0, "the chunks before it have more than %d bytes", maxBody)
	}
	switch version := b[identSize]; version {
	case 0:
		return f.decodeV0()
	case 1:
		return f.decodeV1()
	default:
		return nil, f.bad(identSize, "version %d is not known", version)
	}
}

func (f footer) decodeV0() (*Info, error) {
	n, err := f.count(40, footerFixedV0, perChunkV0)
	if err != nil {
		return nil, err
	}
	in := &Info{Footer: FooterV0, Xorb: codec.Hash(f.b[8:40]), Chunks: f.hashes(44+4*n, n)}
	in.PackedEnd, err = f.packedEnds(44, n)
	return in, err
}

func (f footer) decodeV1() (*Info, error) {
	n, err := f.count(48, footerFixedV1, perChunkV1)
	if err != nil {
		return nil, err
	}
	boundary := 52 + 32*n
	if err := f.checkFixed(n, boundary); err != nil {
		return nil, err
	}
	in := &Info{Footer: FooterV1, Xorb: codec.Hash(f.b[8:40]), Chunks: f.hashes(52, n)}
	if in.PackedEnd, err = f.packedEnds(boundary+12, n); err != nil {
		return nil, err
	}
	in.UnpackedEnd, err = f.ends(boundary+12+4*n, n, 1, codec.MaxChunkSize, "unpacked")
	return in, err
}

// count reads the number of chunks at byte at and holds it against the length of the
// footer, before anything is made by it.
func (f footer) count(at, fixed, perChunk int) (int, error) {
	if len(f.b) < fixed {
		return 0, f.bad(len(f.b), "ends after %d bytes, %d is the least", len(f.b), fixed)
	}
	n := f.word(at)
	switch {
	case n == 0:
		return 0, f.bad(at, "no chunks")
	case n > codec.MaxXorbChunks:
		return 0, f.bad(at, "%d chunks, %d is the most", n, codec.MaxXorbChunks)
	case len(f.b) != fixed+perChunk*int(n):
		return 0, f.bad(at, "%d chunks need %d bytes, the footer has %d", n, fixed+perChunk*int(n), len(f.b))
	}
	return int(n), nil
}

// checkFixed checks the bytes of a footer of version 1 that follow from n.
func (f footer) checkFixed(n, boundary int) error {
	if err := f.ident(40, identHashes, hashesVersion); err != nil {
		return err
	}
	if err := f.ident(boundary, identBoundary, boundaryVersion); err != nil {
		return err
	}
	end := boundary + 12 + 8*n
	for _, field := range []struct {
		at   int
		name string
		want uint32
	}{
		{boundary + 8, "count of the boundary section", uint32(n)},
		{end, "last count", uint32(n)},
		{end + 4, "distance of the hash section", hashesDistance(uint32(n))},
		{end + 8, "distance of the boundary section", boundaryDistance(uint32(n))},
	} {
		if got := f.word(field.at); got != field.want {
			return f.bad(field.at, "%s is %d, want %d", field.name, got, field.want)
		}
	}
	return nil
}

func (f footer) ident(at int, want string, version byte) error {
	if got := string(f.b[at : at+identSize]); got != want {
		return f.bad(at, "ident %q, want %q", got, want)
	}
	if got := f.b[at+identSize]; got != version {
		return f.bad(at+identSize, "version %d of %s is not known", got, want)
	}
	return nil
}

func (f footer) hashes(at, n int) []codec.Hash {
	hashes := make([]codec.Hash, n)
	for i := range hashes {
		hashes[i] = codec.Hash(f.b[at+32*i:])
	}
	return hashes
}

// packedEnds reads where the packed chunks end. The last one ends where the footer
// begins.
func (f footer) packedEnds(at, n int) ([]uint32, error) {
	ends, err := f.ends(at, n, ChunkHeaderSize+1, ChunkHeaderSize+maxPackedSize, "packed")
	if err != nil {
		return nil, err
	}
	if last := int64(ends[n-1]); last != f.off {
		return nil, f.bad(at+4*(n-1), "the last chunk ends at byte %d, the footer begins at %d", last, f.off)
	}
	return ends, nil
}

// ends reads n offsets, each of which must be larger than the one before by what a
// chunk can have. The limits keep the sum far below 2^32.
func (f footer) ends(at, n int, least, most uint32, what string) ([]uint32, error) {
	ends := make([]uint32, n)
	var start uint32
	for i := range ends {
		end := f.word(at + 4*i)
		if size := end - start; end < start || size < least || size > most {
			return nil, f.bad(at+4*i, "%s chunk %d from byte %d to %d", what, i, start, end)
		}
		ends[i], start = end, end
	}
	return ends, nil
}

func (f footer) word(at int) uint32 { return binary.LittleEndian.Uint32(f.b[at:]) }

func (f footer) bad(at int, format string, args ...any) error {
	return codec.Corrupt("xorb footer", f.off+int64(at), format, args...)
}

// checkRoot holds the hash in the footer against the hashes of the chunks.
func (in *Info) checkRoot() error {
	footerAt := startOf(in.PackedEnd, uint32(in.Len()))
	if in.Xorb.IsZero() {
		return codec.Corrupt("xorb footer", footerAt+8, "the hash of the xorb is zero")
	}
	if root := in.Root(); root != in.Xorb {
		return codec.Corrupt("xorb footer", footerAt+8, "the xorb is %s, its chunks give %s", in.Xorb, root)
	}
	return nil
}
