package origintest

import (
	"context"
	"fmt"
	"hash"
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A Plan is a Source whose File Infos are plans, as those of the CAS API, over the files of
// another source. Nothing but Prove gives it hashes. The fields must be set before its first use.
type Plan struct {
	// Lengths makes Narrow return the chunks of a piece. Otherwise it returns the whole term, as
	// a source that has seen none of its chunks.
	Lengths bool

	// Content returns the results of ContentHash. nil: it has none.
	Content func(id codec.FileID) (h hash.Hash, want []byte, err error)

	// Before is called before each Chunks, unless it is nil. Its error replaces the run.
	Before func(ctx context.Context, x codec.Hash, r codec.ChunkRange) error

	below  origin.Source
	table  *metacache.ChunkTable
	damage atomic.Pointer[Damage]

	mu       sync.Mutex
	requests int // calls of Chunks; guarded by mu
	chunks   int // requested by them; guarded by mu
	plans    int // calls of FileInfo; guarded by mu
	holds    int // without a release; guarded by mu
}

// Damage changes what a Plan returns. A nil function changes nothing.
type Damage struct {
	Plan  func(fi *shard.FileInfo) *shard.FileInfo                // returns another plan; must not change fi
	Chunk func(x codec.Hash, chunk uint32, content []byte) []byte // returns other content, packed without faults
	Bytes func(x codec.Hash, r codec.ChunkRange, packed []byte)   // changes packed chunks in place

	// Narrow returns another result of Narrow.
	Narrow func(p codec.Piece, r codec.ChunkRange, skip int64) (codec.ChunkRange, int64)
}

var _ origin.Source = (*Plan)(nil)

// NewPlan returns a Plan over the files of src. Proven hashes are stored in backend, which may be
// nil.
func NewPlan(src origin.Source, backend metacache.Backend) *Plan {
	p := &Plan{
		below: src,
		table: metacache.NewChunkTable(metacache.New(backend, "plan", true), 16<<20),
	}
	p.SetDamage(Damage{})
	return p
}

// SetDamage replaces the damage that p does.
func (p *Plan) SetDamage(l Damage) { p.damage.Store(&l) }

// Requests returns the number of calls of Chunks so far, and of the chunks that they requested.
func (p *Plan) Requests() (calls, chunks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests, p.chunks
}

// Plans returns the number of calls of FileInfo so far.
func (p *Plan) Plans() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plans
}

// Holds returns the number of calls of Hold without a release.
func (p *Plan) Holds() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds
}

// Proves implements origin.Source.
func (p *Plan) Proves() bool { return false }

// FileInfo implements origin.Source.
func (p *Plan) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	p.mu.Lock()
	p.plans++
	p.mu.Unlock()
	fi, err := p.below.FileInfo(ctx, id)
	if err != nil {
		return nil, err
	}
	plan := &shard.FileInfo{File: fi.File, Terms: fi.Terms}
	if change := p.damage.Load().Plan; change != nil {
		plan = change(plan)
	}
	return plan, nil
}

// OpenFile implements origin.Source.
func (p *Plan) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	if p.damage.Load().Plan == nil {
		if fi, large, err := p.below.OpenFile(ctx, id); fi == nil {
			return nil, large, err
		}
	}
	fi, err := p.FileInfo(ctx, id)
	return fi, nil, err
}

// FileInfos implements origin.Source.
func (p *Plan) FileInfos(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error)) {
	for i, id := range ids {
		fi, err := p.FileInfo(ctx, id)
		yield(i, fi, err)
	}
}

// Narrow implements origin.Source.
func (p *Plan) Narrow(ctx context.Context, id codec.FileID, t codec.Term, piece codec.Piece) (codec.ChunkRange, int64, error) {
	if !p.Lengths {
		return t.Chunks, piece.Skip, nil
	}
	r, skip, err := p.below.Narrow(ctx, id, t, piece)
	if change := p.damage.Load().Narrow; change != nil && err == nil {
		r, skip = change(piece, r, skip)
	}
	return r, skip, err
}

// PackedSize implements origin.Source.
func (p *Plan) PackedSize(codec.Hash, codec.ChunkRange) int64 { return 0 }

// Chunks implements origin.Source.
func (p *Plan) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	p.mu.Lock()
	p.requests++
	p.chunks += r.Len()
	p.mu.Unlock()
	if p.Before != nil {
		if err := p.Before(ctx, x, r); err != nil {
			return nil, err
		}
	}
	run, err := p.below.Chunks(ctx, x, r, origin.ReadOptions{})
	if err != nil {
		return nil, err
	}
	packed, err := p.packed(x, run)
	if err != nil {
		return nil, err
	}
	if o.Buffer != nil {
		b := o.Buffer(len(packed))
		copy(b, packed)
		packed = b
	}
	if run, err = xorb.ParseRun(packed, r, nil); err != nil {
		return nil, fmt.Errorf("xorb %s: %w", x, err)
	}
	return p.table.Annotate(x, run)
}

// packed returns the bytes of a run, damaged if p has Damage for them.
func (p *Plan) packed(x codec.Hash, run *xorb.Run) ([]byte, error) {
	damage := p.damage.Load()
	var packer xorb.Packer
	var packed []byte
	for i := run.Chunks.Start; i < run.Chunks.End; i++ {
		content := make([]byte, run.Size(i))
		if _, err := run.Unpack(i, content); err != nil {
			return nil, err
		}
		if damage.Chunk != nil {
			content = damage.Chunk(x, i, content)
		}
		packed = packer.Append(packed, content, run.Scheme(i))
	}
	if damage.Bytes != nil {
		damage.Bytes(x, run.Chunks, packed)
	}
	return packed, nil
}

// TryChunks implements origin.Source. It returns no run.
func (p *Plan) TryChunks(codec.Hash, codec.ChunkRange, func(n int) []byte) (*xorb.Run, bool) {
	return nil, false
}

// Annotate implements origin.Source.
func (p *Plan) Annotate(_ context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	return p.table.Annotate(x, run)
}

// Hashed implements origin.Source.
func (p *Plan) Hashed(_ context.Context, x codec.Hash, r codec.ChunkRange) (bool, error) {
	return p.table.Hashed(x, r), nil
}

// Prove implements origin.Source.
func (p *Plan) Prove(chunks []origin.ChunkHashes) { p.table.Put(chunks) }

// Proven implements origin.Source.
func (p *Plan) Proven(x codec.Hash, r codec.ChunkRange) []merkle.Leaf { return p.table.Leaves(x, r) }

// ContentHash implements origin.Source.
func (p *Plan) ContentHash(id codec.FileID) (h hash.Hash, want []byte, err error) {
	if p.Content == nil {
		return nil, nil, nil
	}
	return p.Content(id)
}

// Hold implements origin.Source.
func (p *Plan) Hold(codec.FileID) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.holds--
	}
}

// Reject implements origin.Source.
func (p *Plan) Reject(codec.Hash) int { return 0 }

// Forget implements origin.Source.
func (p *Plan) Forget(id codec.FileID) { p.below.Forget(id) }

// Local implements origin.Source.
func (p *Plan) Local() bool { return false }
