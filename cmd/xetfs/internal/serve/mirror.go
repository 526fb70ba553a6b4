package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/reconstruct"
)

// A Mirror is the source of casserve.NewMirror for an upstream without proofs, behind a cache with a
// disk. It opens a file only after the whole file is proven, which reads it once. The chunks and
// their hashes are then on disk, and are served while the upstream is down.
type Mirror struct {
	src    MirrorSource
	cache  *cache.Cache
	reader *reconstruct.Reader

	opening flight.Group[codec.FileID, *shard.FileInfo]
	loader  *loader

	mu     sync.Mutex
	proven *lru.Cache[codec.Hash, *provenFile] // guarded by mu
}

// A provenFile is the plan of a proven file.
type provenFile struct {
	*shard.FileInfo
	looked time.Time // of the last isReplaced; zero: none; guarded by Mirror.mu
}

var _ casserve.PlaceSource = (*Mirror)(nil)

// A MirrorSource is an upstream without proofs.
type MirrorSource interface {
	origin.Source
	origin.PlaceReader
}

const (
	maxProvenBytes = 16 << 20        // of the terms of proven files in memory
	lookPause      = 5 * time.Second // between two looks for another plan of a file
	lookWait       = 2 * time.Second // for the answer to a look
)

func newProven() *lru.Cache[codec.Hash, *provenFile] {
	return lru.New[codec.Hash, *provenFile](maxProvenBytes, nil)
}

// NewMirror returns a Mirror of src, over a cache of src. The reader of the cache must have the
// option Strict. loadBytes limits the bytes of the ranges of xorbs that are fetched at once.
func NewMirror(src MirrorSource, c *cache.Cache, r *reconstruct.Reader, loadBytes int64) *Mirror {
	return &Mirror{src: src, cache: c, reader: r, loader: newLoader(c, loadBytes), proven: newProven()}
}

// Close waits for calls that outlive their requests. It precedes the close of the reader, the cache
// and the upstream. No other call may run.
func (m *Mirror) Close() { m.opening.Wait() }

// OpenFile implements casserve.PlaceSource. Concurrent callers share one proof.
func (m *Mirror) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	m.mu.Lock()
	p, ok := m.proven.Get(id.File)
	isDue := ok && time.Since(p.looked) >= lookPause
	if isDue {
		p.looked = time.Now()
	}
	m.mu.Unlock()
	if ok && !(isDue && m.isReplaced(ctx, id, p.Terms)) {
		return p.FileInfo, nil, nil
	}
	if ok {
		m.src.Forget(id)
		m.mu.Lock()
		m.proven.Remove(id.File)
		m.mu.Unlock()
	}
	fi, err := m.opening.Do(ctx, id, func(ctx context.Context) (*shard.FileInfo, error) { return m.prove(ctx, id) })
	if errors.Is(err, origin.ErrNotFound) && m.isKnown(ctx, id) {
		err = fmt.Errorf("%w: the upstream lacks a part of it: %v", origin.ErrUnavailable, err) // clients do not repeat a 404
	}
	return fi, nil, err
}

// isReplaced reports whether chunks of a plan are not on disk, and the upstream has another plan. It may have
// stored the file in other xorbs. The result is false while the upstream is down.
func (m *Mirror) isReplaced(ctx context.Context, id codec.FileID, terms []codec.Term) bool {
	if !slices.ContainsFunc(terms, func(t codec.Term) bool { return len(m.cache.Missing(t.Xorb, t.Chunks)) > 0 }) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	now, err := m.src.RequestPlaces(ctx, id)
	return err == nil && !slices.Equal(now, terms)
}

// isKnown reports whether the upstream has a plan of a file.
func (m *Mirror) isKnown(ctx context.Context, id codec.FileID) bool {
	_, err := m.cache.FileInfo(ctx, id)
	return err == nil
}

// maxProofs bounds the proofs of one file. Another one is needed if a plan was dropped, or a hash.
const maxProofs = 2

// prove returns the plan of a file once the hashes of its chunks make the file.
func (m *Mirror) prove(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	for proofs, plans := 0, 0; ; {
		fi, err := m.cache.FileInfo(ctx, id)
		if err != nil {
			return nil, err
		}
		if m.makes(fi, id.File) {
			if err = m.hasPlaces(ctx, fi); err == nil {
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.proven.Add(id.File, &provenFile{FileInfo: fi}, 256+48*int64(len(fi.Terms))).FileInfo, nil
			}
			switch plans++; plans {
			case 1: // a new plan has lost places
				_, err = m.src.RequestPlaces(ctx, id)
			case 2: // the new plan has other ranges than the stored one
				m.src.Forget(id)
				err = nil
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		if proofs++; proofs > maxProofs {
			return nil, fmt.Errorf("file %s: %w: its chunks are not proven", id.File, origin.ErrUnavailable)
		}
		if err := m.loader.load(ctx, fi); err != nil {
			return nil, err
		}
		f, err := m.reader.Reopen(ctx, id)
		if err != nil {
			return nil, err
		}
		if proofs == 1 {
			_, err = f.ReadAt(ctx, make([]byte, 1), 0) // proves all of it, unless it was proven before
		} else {
			_, err = io.Copy(io.Discard, f.VerifyReader(ctx, nil)) // stores lost hashes again
		}
		if err != nil {
			return nil, err
		}
	}
}

// chunksOf returns the chunks of a file by their xorb.
func chunksOf(fi *shard.FileInfo) map[codec.Hash]*codec.ChunkSet {
	sets := map[codec.Hash]*codec.ChunkSet{}
	for _, t := range fi.Terms {
		if sets[t.Xorb] == nil {
			sets[t.Xorb] = new(codec.ChunkSet)
		}
		sets[t.Xorb].Add(t.Chunks)
	}
	return sets
}

// hasPlaces returns an error if the place of a chunk of a file is not known. A plan for a client needs all.
func (m *Mirror) hasPlaces(ctx context.Context, fi *shard.FileInfo) error {
	for x, set := range chunksOf(fi) {
		for r := range set.Ranges(0, codec.MaxXorbChunks) {
			if _, err := m.knownPlaces(ctx, x, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// makes reports whether the proven chunks of a plan make a file.
func (m *Mirror) makes(fi *shard.FileInfo, file codec.Hash) bool {
	var tree merkle.FileTree
	for _, t := range fi.Terms {
		leaves := m.src.Proven(t.Xorb, t.Chunks)
		size := uint64(0)
		for _, leaf := range leaves {
			if leaf.Hash.IsZero() {
				return false
			}
			tree.Add(leaf)
			size += leaf.Size
		}
		if len(leaves) != t.Chunks.Len() || size != uint64(t.Size) {
			return false
		}
	}
	return tree.Sum() == file
}

// Narrow implements casserve.PlaceSource.
func (m *Mirror) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	return m.cache.Narrow(ctx, id, t, p)
}

// placeStep is the number of chunks that are read at once for their places.
const placeStep = 64

// Places implements casserve.PlaceSource. The upstream loses places after a damaged answer. Another proof of a
// file that has the chunks finds them. Without such a file, a client has an earlier plan.
func (m *Mirror) Places(ctx context.Context, x codec.Hash, r codec.ChunkRange) (origin.Places, error) {
	for {
		p, err := m.knownPlaces(ctx, x, r)
		if !errors.Is(err, origin.ErrUnavailable) {
			return p, err
		}
		ids := m.takeProven(x, r)
		if len(ids) == 0 {
			return nil, casserve.ErrChanged
		}
		if _, _, err := m.OpenFile(ctx, ids[0]); err != nil {
			return nil, err
		}
	}
}

// takeProven makes the next opens prove the files again that have chunks r of a xorb, and returns them.
func (m *Mirror) takeProven(x codec.Hash, r codec.ChunkRange) (ids []codec.FileID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for file, fi := range m.proven.All() {
		var chunks codec.ChunkSet
		for _, t := range fi.Terms {
			if t.Xorb == x {
				chunks.Add(t.Chunks)
			}
		}
		if chunks.Count(r) == r.Len() {
			ids = append(ids, codec.FileID{File: file})
		}
	}
	for _, id := range ids {
		m.proven.Remove(id.File)
	}
	return ids
}

// knownPlaces is Places without another proof. Chunks that another repository or an earlier process has
// fetched show their places on the disk.
func (m *Mirror) knownPlaces(ctx context.Context, x codec.Hash, r codec.ChunkRange) (origin.Places, error) {
	if p, err := m.src.Places(ctx, x, r); err == nil {
		return p, nil
	}
	for at := r.Start; at < r.End; at += placeStep {
		run, err := m.Chunks(ctx, x, codec.ChunkRange{Start: at, End: min(at+placeStep, r.End)}, origin.ReadOptions{})
		if err != nil {
			return nil, err
		}
		m.src.LearnPlaces(x, run)
	}
	return m.src.Places(ctx, x, r)
}

// Chunks implements casserve.PlaceSource. It reads the disk first. If the upstream lacks evicted chunks, it may have
// stored their files in other xorbs. Clients and the next opens of these files then request new plans.
func (m *Mirror) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, _ origin.ReadOptions) (*xorb.Run, error) {
	for try := 1; ; try++ {
		run, err := m.cache.Run(ctx, x, r)
		if err == nil && origin.IsNoCache(ctx) {
			err = unpackAll(run) // drops what is damaged on disk
		}
		if err == nil {
			run.Store()
			return m.withHashes(x, run.Run), nil
		}
		if m.cache.ShouldRetry(x, err, try) {
			continue
		}
		if errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound) {
			for _, id := range m.takeProven(x, r) {
				m.src.Forget(id)
			}
			err = fmt.Errorf("%w: %w", casserve.ErrChanged, err)
		}
		return nil, err
	}
}

// withHashes returns a run with the proven hashes of its chunks. The run may have been fetched
// before they were proven.
func (m *Mirror) withHashes(x codec.Hash, run *xorb.Run) *xorb.Run {
	if run.Hashes != nil && !slices.Contains(run.Hashes, codec.Hash{}) {
		return run
	}
	annotated := *run
	annotated.Hashes = make([]codec.Hash, run.Chunks.Len())
	for i, leaf := range m.src.Proven(x, run.Chunks) {
		annotated.Hashes[i] = leaf.Hash
	}
	if slices.Contains(annotated.Hashes, codec.Hash{}) {
		m.forgetProven()
	}
	return &annotated
}

// forgetProven makes later opens prove their files again, because the source has lost a proven hash.
func (m *Mirror) forgetProven() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proven = newProven()
}

// unpackAll compares all chunks of a run with their hashes.
func unpackAll(run *cache.Run) error {
	var scratch [codec.MaxChunkSize]byte
	for i := run.Chunks.Start; i < run.Chunks.End; i++ {
		if _, err := run.Unpack(i, scratch[:run.Size(i)]); err != nil {
			return err
		}
	}
	return nil
}

// Reject implements casserve.PlaceSource. A damaged chunk is always read once more.
func (m *Mirror) Reject(codec.Hash) int { return 1 }

// Local implements casserve.PlaceSource.
func (m *Mirror) Local() bool { return false }
