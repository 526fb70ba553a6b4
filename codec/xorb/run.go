package xorb

import (
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// A Run is consecutive packed chunks of one xorb, exactly as they are stored:
// header, packed bytes, header, packed bytes. It is shared and must not be modified.
// All methods are safe for concurrent use, and take chunks by their index in the xorb.
type Run struct {
	Chunks codec.ChunkRange
	Packed []byte       // headers and packed chunks, back to back
	Hashes []codec.Hash // of each chunk, zero: unknown; nil: all are unknown

	// places has the start of each chunk and the end of the last one. They count from the first
	// chunk of the run that was parsed.
	places []place
}

type place struct{ packed, unpacked uint32 }

// ParseRun finds the chunks in packed and checks their headers. It unpacks nothing.
// packed must hold the chunks of r and nothing else, and hashes, if it is not nil, one
// hash for each. Offsets in errors count from the start of packed.
func ParseRun(packed []byte, r codec.ChunkRange, hashes []codec.Hash) (*Run, error) {
	switch {
	case r.Start >= r.End || r.End > codec.MaxXorbChunks:
		return nil, codec.Corrupt("run", 0, "chunks %s cannot be", r)
	case len(packed) > maxBody:
		return nil, codec.Corrupt("run", 0, "%d bytes, %d is the most", len(packed), maxBody)
	case hashes != nil && len(hashes) != r.Len():
		return nil, fmt.Errorf("run of %d chunks: %d hashes", r.Len(), len(hashes))
	}
	run := &Run{Chunks: r, Packed: packed, Hashes: hashes}
	run.places = make([]place, 1, 1+min(r.Len(), len(packed)/(ChunkHeaderSize+1)))
	var at place
	for i := range r.Len() {
		rest := packed[at.packed:]
		if len(rest) == 0 || isFooter(rest) {
			return nil, codec.Corrupt("run", int64(at.packed), "fewer chunks than the term needs: %d of %d", i, r.Len())
		}
		h, err := decodeChunkHeader(rest, int64(at.packed))
		if err == nil && h.Packed > len(rest)-ChunkHeaderSize {
			err = badHeader(int64(at.packed)+1, "packed size %d, %d bytes are left", h.Packed, len(rest)-ChunkHeaderSize)
		}
		if err != nil {
			return nil, chunkError(int(r.Start)+i, err)
		}
		at.packed += uint32(ChunkHeaderSize + h.Packed)
		at.unpacked += uint32(h.Unpacked)
		run.places = append(run.places, at)
	}
	if rest := len(packed) - int(at.packed); rest > 0 {
		return nil, codec.Corrupt("run", int64(at.packed), "%d bytes follow the last chunk", rest)
	}
	return run, nil
}

// Join returns one run of consecutive runs, at least one. buffer returns memory for the packed bytes; nil:
// it is allocated, and a single run is returned as it is.
func Join(runs []*Run, buffer func(size int) []byte) (*Run, error) {
	if len(runs) == 1 && buffer == nil {
		return runs[0], nil
	}
	size, known := 0, false
	for _, run := range runs {
		size, known = size+len(run.Packed), known || run.Hashes != nil
	}
	if buffer == nil {
		buffer = func(size int) []byte { return make([]byte, size) }
	}
	r := codec.ChunkRange{Start: runs[0].Chunks.Start, End: runs[len(runs)-1].Chunks.End}
	packed, hashes := buffer(size)[:0], []codec.Hash(nil)
	for _, run := range runs {
		packed = append(packed, run.Packed...)
		for i := run.Chunks.Start; known && i < run.Chunks.End; i++ {
			hashes = append(hashes, run.Hash(i))
		}
	}
	return ParseRun(packed, r, hashes)
}

// Size returns the unpacked bytes of one chunk.
func (r *Run) Size(chunk uint32) int {
	i := chunk - r.Chunks.Start
	return int(r.places[i+1].unpacked - r.places[i].unpacked)
}

// UnpackedSize returns the unpacked bytes of all chunks.
func (r *Run) UnpackedSize() int64 {
	return int64(r.places[len(r.places)-1].unpacked - r.places[0].unpacked)
}

// UnpackedStart returns the unpacked bytes of the chunks before one: where it begins in
// the unpacked bytes of the run.
func (r *Run) UnpackedStart(chunk uint32) int64 {
	return int64(r.places[chunk-r.Chunks.Start].unpacked - r.places[0].unpacked)
}

// Scheme returns how one chunk is packed.
func (r *Run) Scheme(chunk uint32) Scheme {
	start, _ := r.packedRange(chunk)
	return Scheme(r.Packed[start+4])
}

// packedRange returns the place of one packed chunk in r.Packed, header included.
func (r *Run) packedRange(chunk uint32) (start, end uint32) {
	i, first := chunk-r.Chunks.Start, r.places[0].packed
	return r.places[i].packed - first, r.places[i+1].packed - first
}

var errSize = errors.New("buffer is not as long as the chunk")

// Unpack puts one chunk into dst, which must be as long as the chunk, and returns the hash of
// the chunk. It compares the hash with the one in r.Hashes, if that is known. It allocates
// nothing. After an error dst may hold anything. Offsets in errors count from the start of
// r.Packed.
func (r *Run) Unpack(chunk uint32, dst []byte) (codec.Hash, error) {
	if err := r.UnpackUnchecked(chunk, dst); err != nil {
		return codec.Hash{}, err
	}
	got := merkle.Chunk(dst)
	if want := r.Hash(chunk); want != got && want != (codec.Hash{}) {
		start, _ := r.packedRange(chunk)
		return codec.Hash{}, chunkError(int(chunk), badHash(int64(start), got, want))
	}
	return got, nil
}

// UnpackUnchecked is Unpack without the hash of the chunk.
func (r *Run) UnpackUnchecked(chunk uint32, dst []byte) error {
	if len(dst) != r.Size(chunk) {
		return chunkError(int(chunk), errSize)
	}
	start, end := r.packedRange(chunk)
	body := start + ChunkHeaderSize
	if err := unpack(dst, r.Packed[body:end], Scheme(r.Packed[start+4])); err != nil {
		return chunkError(int(chunk), shift(err, int64(body)))
	}
	return nil
}

// Hash returns the known hash of one chunk, or zero.
func (r *Run) Hash(chunk uint32) codec.Hash {
	if r.Hashes == nil {
		return codec.Hash{}
	}
	return r.Hashes[chunk-r.Chunks.Start]
}

// Slice returns the chunks of sub, which must be in r. It shares all memory with r.
func (r *Run) Slice(sub codec.ChunkRange) *Run {
	i, j := sub.Start-r.Chunks.Start, sub.End-r.Chunks.Start
	places := r.places[i : j+1]
	first := r.places[0].packed
	s := &Run{
		Chunks: sub,
		Packed: r.Packed[places[0].packed-first : places[len(places)-1].packed-first],
		places: places,
	}
	if r.Hashes != nil {
		s.Hashes = r.Hashes[i:j]
	}
	return s
}

func chunkError(chunk int, err error) error { return &codec.ChunkError{Chunk: chunk, Err: err} }

func badHash(off int64, got, want codec.Hash) error {
	return codec.Corrupt("chunk", off, "its hash is %s, want %s", got, want)
}

// shift adds off, the offset of a part in the whole, to the offset of a CorruptError.
func shift(err error, off int64) error {
	var corrupt *codec.CorruptError
	if !errors.As(err, &corrupt) {
		return err
	}
	moved := *corrupt
	moved.Offset += off
	return &moved
}
