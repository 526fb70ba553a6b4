package objects

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// maxLeaves is the maximum number of chunks of a file. A File Info block with repeated terms could
// otherwise name any number of chunks.
const maxLeaves = 1 << 26

// checkChunks refuses a File Info block of too many chunks.
func checkChunks(fi *shard.FileInfo) error {
	if n := chunksOf(fi.Terms); n > maxLeaves {
		return codec.Corrupt("file info block", fi.Block, "its terms name %d chunks, %d is the most", n, int64(maxLeaves))
	}
	return nil
}

func chunksOf(terms []codec.Term) (n int64) {
	for i := range terms {
		n += int64(terms[i].Chunks.Len())
	}
	return n
}

// proves reports whether the shard that id names proves its File Info blocks.
func (o *objects) proves(id codec.FileID) bool { return o.named && !id.Hint }

// prove proves a File Info block, by its shard or by the chunk hashes of all terms. The shard
// proves the block if a page names the shard and all its bytes have the name. A local shard is
// read whole only for a file of many chunks. The error is errIncomplete if some chunk hashes
// are not known.
func (o *objects) prove(ctx context.Context, f *shardFile, id codec.FileID, fi *shard.FileInfo) (err error) {
	if err := checkChunks(fi); err != nil {
		return err
	}
	large := chunksOf(fi.Terms) > maxLeavesNow
	if o.proves(id) && f.hash == id.Shard {
		if !o.local && f.proven || o.local && large && o.inNamedShard(ctx, id, fi) {
			return nil
		}
	}
	if remember := large || !o.local; remember {
		sum := sumTerms(fi)
		if o.provenFiles.has(sum) {
			return nil
		}
		defer func() {
			if err == nil {
				o.provenFiles.add(sum)
			}
		}()
	}
	return checkFileInfo(ctx, fi, func(x codec.Hash) (chunkList, error) { return o.chunkList(ctx, f, x) })
}

// maxProven is the maximum number of entries in provenFiles.
const maxProven = 1 << 13

// provenFiles caches which File Info blocks were compared with their chunks.
type provenFiles struct {
	mu   sync.Mutex
	sums *lru.Cache[codec.Hash, struct{}] // of sumTerms; guarded by mu
}

func (p *provenFiles) has(sum codec.Hash) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.sums.Get(sum)
	return ok
}

func (p *provenFiles) add(sum codec.Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sums.Add(sum, struct{}{}, 1)
}

// sumTerms returns a hash of a file and of all its terms.
func sumTerms(fi *shard.FileInfo) codec.Hash {
	h := merkle.NewChunkHash()
	b := append(make([]byte, 0, 16<<10), fi.File[:]...)
	for _, t := range fi.Terms {
		b = append(b, t.Xorb[:]...)
		b = binary.LittleEndian.AppendUint32(b, t.Size)
		b = binary.LittleEndian.AppendUint32(b, t.Chunks.Start)
		b = binary.LittleEndian.AppendUint32(b, t.Chunks.End)
		if len(b) > 15<<10 {
			_, _ = h.Write(b) // it never fails
			b = b[:0]
		}
	}
	_, _ = h.Write(b)
	return h.Sum()
}

// inNamedShard reports whether the shard that id names has the right bytes, and the block
// among them.
func (o *objects) inNamedShard(ctx context.Context, id codec.FileID, fi *shard.FileInfo) bool {
	f, err := o.hashedShard(ctx, id.Shard)
	if err != nil || !f.proven {
		return false
	}
	again, err := o.readBlock(ctx, f, fi.Block, nil)
	return err == nil && again.File == fi.File && slices.Equal(again.Terms, fi.Terms)
}

// A chunkList is the list of the chunks of a xorb. Their hashes make the name of the xorb.
type chunkList struct {
	hashes []codec.Hash
	ends   []uint32 // unpacked
}

// chunkLists caches the chunk lists that shards contain.
type chunkLists struct {
	mu     sync.Mutex
	byXorb *lru.Cache[codec.Hash, chunkList] // guarded by mu
}

func (l chunkList) bytes() int64 { return 256 + 36*int64(len(l.ends)) }

func (c *chunkLists) find(x codec.Hash) (chunkList, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byXorb.Get(x)
}

func (c *chunkLists) add(x codec.Hash, l chunkList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byXorb.Add(x, l, l.bytes())
}

func (in *info) chunks() chunkList { return chunkList{in.Chunks, in.UnpackedEnd} }

// chunkList returns the chunks of a xorb. A remote source uses the CAS Info of the shard first,
// and reads the xorb only without it. A local source reads the xorb first, which may be
// missing.
func (o *objects) chunkList(ctx context.Context, f *shardFile, x codec.Hash) (chunkList, error) {
	if in, ok := o.infos.lookup(x); ok {
		return in.chunks(), nil
	}
	if l, ok := o.chunkLists.find(x); ok {
		return l, nil
	}
	if !o.local {
		if l, err := o.casList(f, x); err == nil {
			return l, nil
		}
	}
	in, err := o.infos.get(ctx, x)
	if err == nil {
		return in.chunks(), nil
	}
	if o.local && !isContextError(err) {
		if l, casErr := o.casList(f, x); casErr == nil {
			return l, nil
		}
	}
	return chunkList{}, err
}

// casList returns the chunks of a xorb as a shard lists them, if they make its name.
func (o *objects) casList(f *shardFile, x codec.Hash) (chunkList, error) {
	if f.Meta().Keyed {
		return chunkList{}, shard.ErrNoXorb
	}
	block, err := f.XorbInfo(x)
	if err != nil {
		return chunkList{}, err
	}
	in := xorb.Info{Xorb: x}
	for _, c := range block.Chunks {
		in.Chunks = append(in.Chunks, c.Hash)
		in.UnpackedEnd = append(in.UnpackedEnd, c.Start+c.Size)
	}
	if root := in.Root(); root != x {
		return chunkList{}, codec.Corrupt("cas info block", 0, "its chunks make xorb %s", root)
	}
	l := chunkList{in.Chunks, in.UnpackedEnd}
	o.chunkLists.add(x, l)
	return l, nil
}

// checkFileInfo compares a File Info block with its chunks. It checks the verification hash of
// each term and the hash of the file. A term whose chunks are not known is an errIncomplete.
// The memory of the check does not grow with the file.
func checkFileInfo(ctx context.Context, fi *shard.FileInfo, get func(x codec.Hash) (chunkList, error)) error {
	c := fileCheck{get: get}
	if err := c.add(ctx, fi.Block, fi.Terms, fi.Verify); err != nil {
		return err
	}
	return c.end(fi.File, fi.Block)
}

// A fileCheck is checkFileInfo for terms that are read one part after the other.
type fileCheck struct {
	get func(x codec.Hash) (chunkList, error)

	terms   int // so far
	tree    merkle.FileTree
	last    codec.Hash // the xorb of known; zero: none
	known   chunkList
	missing *unprovenError
}

// add checks the next terms of the block at an offset. verify has their verification hashes,
// or is nil.
func (c *fileCheck) add(ctx context.Context, block int64, terms []codec.Term, verify []codec.Hash) error {
	for i := range terms {
		t := &terms[i]
		err := ctx.Err()
		if err == nil && (c.last.IsZero() || t.Xorb != c.last) {
			c.known, err = c.get(t.Xorb)
			c.last = t.Xorb
		}
		if isContextError(err) {
			return err
		}
		if err == nil {
			err = checkTerm(c.known.ends, *t)
		}
		if err != nil {
			if c.missing == nil {
				c.missing = &unprovenError{c.terms + i, err}
			}
			c.last = codec.Hash{}
			continue
		}
		hashes := c.known.hashes[t.Chunks.Start:t.Chunks.End]
		if verify != nil && merkle.Term(hashes) != verify[i] {
			return codec.Corrupt("file info block", block, "term %d: its verification hash is not that of chunks %v of xorb %s", c.terms+i, t.Chunks, t.Xorb)
		}
		if c.missing == nil {
			c.known.addTo(&c.tree, t.Chunks)
		}
	}
	c.terms += len(terms)
	return nil
}

// end compares the hash of all terms with that of the file.
func (c *fileCheck) end(file codec.Hash, block int64) error {
	if c.missing != nil {
		return c.missing
	}
	if root := c.tree.Sum(); root != file {
		return codec.Corrupt("file info block", block, "its terms make file %s", root)
	}
	return nil
}

// addTo adds chunks r to the tree of a file.
func (l chunkList) addTo(tree *merkle.FileTree, r codec.ChunkRange) {
	start := uint32(0)
	if r.Start > 0 {
		start = l.ends[r.Start-1]
	}
	for i := r.Start; i < r.End; i++ {
		end := l.ends[i]
		tree.Add(merkle.Leaf{Hash: l.hashes[i], Size: uint64(end - start)})
		start = end
	}
}
