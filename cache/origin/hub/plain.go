package hub

import (
	"context"
	"crypto/sha1" //nolint:gosec // git's hash
	"crypto/sha256"
	"fmt"
	"hash"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A Plain is a Source of the files outside Xet. It splits each file into chunks of one size, which
// are stored unpacked in xorbs of one size. Neither exists on the Hub: chunks are ranges of the
// file. Their names are those of codec.PlainHash.
type Plain struct {
	repo  *Repo
	files Locator
	table *metacache.ChunkTable

	mu        sync.Mutex
	known     *lru.Cache[codec.Hash, PlainFile]         // guarded by mu
	addresses *lru.Cache[codec.Hash, *fetch.Redirected] // by file; guarded by mu
}

var _ origin.Source = (*Plain)(nil)

// The sizes of the chunks and xorbs of a Plain, in bytes and chunks.
const (
	plainChunk     = codec.MaxChunkSize
	plainXorb      = codec.MaxXorbSize
	xorbChunks     = plainXorb / plainChunk
	maxPlain       = (1<<16 - 1) * plainXorb // bytes of a file
	knownFiles     = 10_000                  // places of files in memory
	knownAddresses = 1_000                   // addresses of contents in memory, of about 1 KiB
	provenBytes    = 8 << 20                 // proven hashes in memory
)

// locateLimit bounds a search on the local disk.
const locateLimit = 10 * time.Second

// NewPlain returns the files of a repository outside Xet. Proven hashes are stored in backend, which
// may be nil.
func NewPlain(r *Repo, files Locator, backend metacache.Backend) *Plain {
	return &Plain{
		repo: r, files: files,
		table:     metacache.NewChunkTable(metacache.New(backend, "files outside Xet", true), provenBytes),
		known:     lru.New[codec.Hash, PlainFile](knownFiles, nil),
		addresses: lru.New[codec.Hash, *fetch.Redirected](knownAddresses, nil),
	}
}

// locate returns the file that a file hash or a xorb hash belongs to.
func (p *Plain) locate(ctx context.Context, h codec.Hash) (PlainFile, error) {
	file := h.PlainPart(0)
	p.mu.Lock()
	f, ok := p.known.Get(file)
	p.mu.Unlock()
	if ok {
		return f, nil
	}
	f, err := p.files.Locate(ctx, file)
	switch {
	case err != nil:
		return f, err
	case f.Hash() != file:
		return f, codec.Corrupt("index of files outside Xet", 0, "%.80q has another hash than file %s", f.Path, file.Short())
	case f.Size > maxPlain:
		return f, fmt.Errorf("%.80q has %d bytes, at most %d are supported outside Xet", f.Path, f.Size, int64(maxPlain))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Add(file, f, 1), nil
}

// Proves implements origin.Source.
func (p *Plain) Proves() bool { return false }

// FileInfo implements origin.Source. It sends no request.
func (p *Plain) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	f, err := p.locate(ctx, id.File)
	if err != nil {
		return nil, err
	}
	fi := &shard.FileInfo{File: id.File, Terms: make([]codec.Term, 0, (f.Size+plainXorb-1)/plainXorb)}
	for off := int64(0); off < f.Size; off += plainXorb {
		fi.Terms = append(fi.Terms, plainTerm(id.File, len(fi.Terms), f.Size))
	}
	return fi, nil
}

// plainTerm returns term i of a file of size bytes: its xorb i.
func plainTerm(file codec.Hash, i int, size int64) codec.Term {
	size = min(plainXorb, size-int64(i)*plainXorb)
	return codec.Term{
		Xorb:   file.PlainPart(uint16(i + 1)), //nolint:gosec // at most maxPlain
		Chunks: codec.ChunkRange{End: uint32((size + plainChunk - 1) / plainChunk)},
		Size:   uint32(size), //nolint:gosec // as above
	}
}

// OpenFile implements origin.Source.
func (p *Plain) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	fi, err := p.FileInfo(ctx, id)
	return fi, nil, err
}

// FileInfos implements origin.Source.
func (p *Plain) FileInfos(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error)) {
	for i, id := range ids {
		fi, err := p.FileInfo(ctx, id)
		yield(i, fi, err)
	}
}

// Narrow implements origin.Source.
func (p *Plain) Narrow(ctx context.Context, _ codec.FileID, t codec.Term, piece codec.Piece) (codec.ChunkRange, int64, error) {
	f, err := p.locate(ctx, t.Xorb)
	if err != nil {
		return codec.ChunkRange{}, 0, err
	}
	if t.Xorb.Part() == 0 || int64(t.Xorb.Part()-1)*plainXorb >= f.Size || t != plainTerm(t.Xorb.PlainPart(0), int(t.Xorb.Part()-1), f.Size) {
		return codec.ChunkRange{}, 0, codec.Corrupt("term", 0, "chunks %v of %d bytes are no part of %.80q", t.Chunks, t.Size, f.Path)
	}
	first, end := piece.Skip/plainChunk, (piece.Skip+piece.Size+plainChunk-1)/plainChunk
	return codec.ChunkRange{Start: uint32(first), End: min(t.Chunks.End, uint32(end))}, piece.Skip % plainChunk, nil //nolint:gosec // within the term
}

// PackedSize implements origin.Source. The content is not packed.
func (p *Plain) PackedSize(codec.Hash, codec.ChunkRange) int64 { return 0 }

// Chunks implements origin.Source. It sends one request for a range of the file.
func (p *Plain) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	f, err := p.locate(ctx, x)
	if err != nil {
		return nil, err
	}
	off := (int64(x.Part())-1)*plainXorb + int64(r.Start)*plainChunk
	end := min(f.Size, off+int64(r.Len())*plainChunk)
	if x.Part() == 0 || r.Start >= r.End || r.End > xorbChunks || end-off <= int64(r.Len()-1)*plainChunk {
		return nil, codec.Corrupt("xorb", 0, "chunks %v are no part of %.80q", r, f.Path)
	}
	if partial := o.OnPartial; partial != nil {
		o.OnPartial = func(run *xorb.Run) {
			if run, err := p.table.Annotate(x, run); err == nil {
				partial(run)
			}
		}
	}
	run := newPlainRun(r, int(end-off), o)
	if err := p.read(ctx, &f, run.content(), off, run.progress); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	got, err := run.parse(r.Len())
	if err != nil {
		return nil, err
	}
	return p.table.Annotate(x, got)
}

// TryChunks implements origin.Source. It returns no run.
func (p *Plain) TryChunks(codec.Hash, codec.ChunkRange, func(n int) []byte) (*xorb.Run, bool) {
	return nil, false
}

// Annotate implements origin.Source.
func (p *Plain) Annotate(_ context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	return p.table.Annotate(x, run)
}

// Hashed implements origin.Source.
func (p *Plain) Hashed(_ context.Context, x codec.Hash, r codec.ChunkRange) (bool, error) {
	return p.table.Hashed(x, r), nil
}

// Prove implements origin.Source.
func (p *Plain) Prove(chunks []origin.ChunkHashes) { p.table.Put(chunks) }

// Proven implements origin.Source.
func (p *Plain) Proven(x codec.Hash, r codec.ChunkRange) []merkle.Leaf { return p.table.Leaves(x, r) }

// ContentHash implements origin.Source: the SHA-1 of git, or the SHA-256 of LFS.
func (p *Plain) ContentHash(id codec.FileID) (h hash.Hash, want []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), locateLimit)
	defer cancel()
	f, err := p.locate(ctx, id.File)
	switch {
	case err != nil: // also a corrupt index, which says nothing about the file
		return nil, nil, fmt.Errorf("%w: %v", origin.ErrUnavailable, err)
	case f.Git == nil:
		return sha256.New(), f.SHA256[:], nil
	}
	h = sha1.New() //nolint:gosec // git's hash
	fmt.Fprintf(h, "blob %d\x00", f.Size)
	return h, f.Git[:], nil
}

// Hold implements origin.Source. The location of a file is on the local disk.
func (p *Plain) Hold(codec.FileID) (release func()) { return func() {} }

// Reject implements origin.Source: the Hub has one replica.
func (p *Plain) Reject(codec.Hash) int { return 0 }

// Forget implements origin.Source.
func (p *Plain) Forget(id codec.FileID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known.Remove(id.File)
	p.addresses.Remove(id.File)
}

// Local implements origin.Source.
func (p *Plain) Local() bool { return false }
