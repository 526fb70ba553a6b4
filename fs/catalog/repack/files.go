package repack

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// A shardBuilder collects the blocks of the next shard.
type shardBuilder struct {
	shard.Writer
	count   int
	files   map[codec.Hash]bool // of the Writer
	places  []moving            // files that wait for the name of the shard
	waiting []waitingFile       // files that wait for the name of a xorb
}

// A moving is a file whose place is to be noted.
type moving struct {
	file codec.Hash
	to   *oldFile
}

// A twin is a file that another replaced shard has, too. It gets the place of the first one, so that
// its chunks are not copied twice.
type twin struct{ first, to *oldFile }

// A waitingFile is a file whose last chunk is in a group that is not stored.
type waitingFile struct {
	moving
	in    *shard.FileInfo
	terms []newTerm
	group uint32 // 1 + the number of its last group; 0: it has none
}

// A newTerm is a term whose xorb may have no name yet.
type newTerm struct {
	codec.Term
	group  uint32 // 1 + the number of the group; 0: Term.Xorb is the name
	hashes []codec.Hash
}

// copyAll copies the live data and describes it in new shards.
func (r *run) copyAll(ctx context.Context) error {
	r.shard.files = map[codec.Hash]bool{}
	for _, h := range r.order {
		if err := r.copyShard(ctx, h); err != nil {
			return err
		}
	}
	if err := r.cut(ctx); err != nil {
		return err
	}
	if err := r.storeShard(ctx); err != nil {
		return err
	}
	for _, t := range r.twins {
		t.to.shard, t.to.to = t.first.shard, t.first.to
	}
	return nil
}

// copyShard moves the live files of one shard.
func (r *run) copyShard(ctx context.Context, h codec.Hash) error {
	b, err := r.readShard(ctx, h)
	if err != nil {
		return fmt.Errorf("%s: %w", names.ShardKey(h), err)
	}
	in := bytes.NewReader(b)
	s := r.shards[h]
	warned := map[string]bool{} // by text: many files may use one missing xorb
	for i := range s.files {
		f, err := shard.ReadFileInfo(in, int64(s.files[i].block)*shard.BlockUnit)
		if err == nil {
			err = r.moveFile(ctx, f, &s.files[i])
		}
		var damaged *damagedError
		if errors.As(err, &damaged) && !r.plan.Xorbs[damaged.xorb] {
			err = damaged.err // the file stays
		} else if damaged != nil {
			return err
		}
		if err != nil && !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, origin.ErrNotFound) {
			return err
		}
		if err != nil {
			r.report.Left++
			if text := err.Error(); !warned[text] {
				warned[text] = true
				r.o.Logger.Warn("files that cannot be proven stay where they are", "event", "corrupt", "what", "shard", "key", names.ShardKey(h), "err", err)
			}
		}
	}
	all, err := shard.NewReader(in, int64(len(b)))
	if err != nil {
		return fmt.Errorf("%s: %w", names.ShardKey(h), err)
	}
	return r.listOthers(ctx, all)
}

// readShard reads a whole shard, whose hash is its name.
func (r *run) readShard(ctx context.Context, h codec.Hash) ([]byte, error) {
	size := r.report.Usage.Shards[h].Size
	if r.o.Memory > 0 && size > r.o.Memory/4 {
		return nil, fmt.Errorf("%w: a shard has %d MiB", sweep.ErrMemory, size>>20)
	}
	if err := shard.CheckSize(size); err != nil {
		return nil, err
	}
	b := make([]byte, size)
	err := origin.Reread(ctx, func(ctx context.Context) error {
		if err := r.store.ReadAt(ctx, names.ShardKey(h), b, 0); err != nil {
			return err
		}
		if got := merkle.Chunk(b); got != h {
			return codec.Corrupt("shard", 0, "its bytes have the hash %s", got)
		}
		return nil
	})
	return b, err
}

// moveFile assigns places to the chunks of a file in replaced xorbs. The file is described when
// the last of them is stored.
func (r *run) moveFile(ctx context.Context, f *shard.FileInfo, to *oldFile) error {
	if f.File.Word(0) != to.word {
		return codec.Corrupt("file info block", f.Block, "it is of file %s, not that of the tree", f.File)
	}
	if first := r.first[f.File]; first != nil {
		r.twins = append(r.twins, twin{first, to})
		return nil
	}
	if err := r.prove(ctx, f); err != nil {
		return err
	}
	w := waitingFile{moving: moving{f.File, to}, in: f}
	for i, t := range f.Terms {
		in, err := r.info(ctx, t.Xorb)
		if err != nil {
			return err
		}
		if !r.plan.Xorbs[t.Xorb] {
			w.terms = append(w.terms, newTerm{Term: t, hashes: in.Chunks[t.Chunks.Start:t.Chunks.End]})
			continue
		}
		for c := t.Chunks.Start; c < t.Chunks.End; c++ {
			p, err := r.place(ctx, f.Terms[i].Xorb, in, c)
			if err != nil {
				return err
			}
			from, end := in.UnpackedRange(codec.ChunkRange{Start: c, End: c + 1})
			w.add(p, in.Chunks[c], uint32(end-from))
		}
	}
	for i := range w.terms {
		w.group = max(w.group, w.terms[i].group)
	}
	r.first[f.File] = to
	if int(w.group) <= len(r.groups) {
		return r.describe(ctx, &w)
	}
	r.shard.waiting = append(r.shard.waiting, w)
	return nil
}

// add adds a chunk to the last term, or begins another one.
func (w *waitingFile) add(p place, hash codec.Hash, size uint32) {
	if n := len(w.terms); n > 0 {
		t := &w.terms[n-1]
		if t.group == p.group && t.Chunks.End == p.index {
			t.Chunks.End++
			t.Size += size
			t.hashes = append(t.hashes, hash)
			return
		}
	}
	w.terms = append(w.terms, newTerm{
		Term:   codec.Term{Chunks: codec.ChunkRange{Start: p.index, End: p.index + 1}, Size: size},
		group:  p.group,
		hashes: []codec.Hash{hash},
	})
}

// prove checks that the terms of a file have the chunks of the file.
func (r *run) prove(ctx context.Context, f *shard.FileInfo) error {
	var leaves []merkle.Leaf
	for i, t := range f.Terms {
		in, err := r.info(ctx, t.Xorb)
		if err != nil {
			return err
		}
		if int(t.Chunks.End) > in.Len() {
			return codec.Corrupt("file info block", f.Block, "chunks %v of a xorb with %d", t.Chunks, in.Len())
		}
		start, end := in.UnpackedRange(t.Chunks)
		if end-start != int64(t.Size) {
			return codec.Corrupt("file info block", f.Block, "chunks %v have %d bytes, the term says %d", t.Chunks, end-start, t.Size)
		}
		hashes := in.Chunks[t.Chunks.Start:t.Chunks.End]
		if f.Verify != nil && merkle.Term(hashes) != f.Verify[i] {
			return codec.Corrupt("file info block", f.Block, "term %d has another verification hash than its chunks", i)
		}
		for c, h := range hashes {
			at := t.Chunks.Start + uint32(c)
			from, to := in.UnpackedRange(codec.ChunkRange{Start: at, End: at + 1})
			leaves = append(leaves, merkle.Leaf{Hash: h, Size: uint64(to - from)})
		}
	}
	if got := merkle.File(leaves); got != f.File {
		return codec.Corrupt("file info block", f.Block, "its chunks make the file %s, not %s", got, f.File)
	}
	return nil
}

// describeReady describes the files whose groups are stored.
func (r *run) describeReady(ctx context.Context) error {
	waiting := r.shard.waiting
	r.shard.waiting = nil
	for i := range waiting {
		if int(waiting[i].group) > len(r.groups) {
			r.shard.waiting = append(r.shard.waiting, waiting[i])
			continue
		}
		if err := r.describe(ctx, &waiting[i]); err != nil {
			return err
		}
	}
	return nil
}

// describe adds a file to the next shard.
func (r *run) describe(ctx context.Context, w *waitingFile) error {
	b := &r.shard
	b.places = append(b.places, w.moving)
	if b.files[w.file] {
		return nil
	}
	b.files[w.file] = true
	f := &shard.FileInfo{File: w.file, SHA256: w.in.SHA256, Metadata: w.in.Metadata, Verify: []codec.Hash{}}
	for _, t := range w.terms {
		if t.group > 0 {
			t.Xorb = r.groups[t.group-1]
		}
		f.Terms = append(f.Terms, t.Term)
		f.Verify = append(f.Verify, merkle.Term(t.hashes))
	}
	b.AddFile(f)
	b.count++
	return r.storeIfFull(ctx)
}

// list adds the chunks of a xorb to the next shard.
func (r *run) list(ctx context.Context, x *shard.XorbInfo) error {
	r.listed[x.Xorb] = true
	r.shard.AddXorb(x)
	r.shard.count++
	return r.storeIfFull(ctx)
}

// listOthers lists the live xorbs that are not replaced, so that publishes find their chunks.
func (r *run) listOthers(ctx context.Context, s *shard.Reader) error {
	if s.Meta().Keyed {
		return nil
	}
	for x, err := range s.Xorbs() {
		if err != nil {
			return fmt.Errorf("a replaced shard: %w", err)
		}
		use := r.report.Usage.Xorbs[x.Xorb]
		if r.listed[x.Xorb] || r.plan.Xorbs[x.Xorb] || use == nil || use.Live.IsEmpty() {
			continue
		}
		leaves := make([]merkle.Leaf, len(x.Chunks))
		for i, c := range x.Chunks {
			leaves[i] = merkle.Leaf{Hash: c.Hash, Size: uint64(c.Size)}
		}
		if merkle.Xorb(leaves) != x.Xorb {
			continue
		}
		if err := r.list(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) storeIfFull(ctx context.Context) error {
	if r.shard.Size() < shardBytes {
		return nil
	}
	return r.storeShard(ctx)
}

// storeShard stores the next shard and notes the new places of its files.
func (r *run) storeShard(ctx context.Context) error {
	b := &r.shard
	if b.count == 0 {
		return nil
	}
	h, err := r.sink.PutShard(ctx, &b.Writer)
	if err != nil {
		return err
	}
	value, err := b.Encode()
	if err != nil {
		return err
	}
	at, err := shard.Blocks(value)
	if err != nil {
		return err
	}
	r.stored = append(r.stored, h)
	r.report.Shards.Objects++
	r.report.Shards.Bytes += int64(len(value))
	for _, m := range b.places {
		m.to.shard, m.to.to = uint32(len(r.stored)), uint32(at[m.file]/shard.BlockUnit)
	}
	r.shard = shardBuilder{files: map[codec.Hash]bool{}, waiting: b.waiting}
	return nil
}
