package origin

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// errIncomplete means that a File Info block is good as far as it could be checked,
// and that not all of its chunks can be had.
var errIncomplete = errors.New("not all chunks are known")

// FileInfo implements Source. Several shards may describe one file. The one that id
// names is asked first; if it is not there, or what it says is damaged or incomplete, the
// others are asked, and the first good answer is taken.
func (o *objects) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	if id.File.IsZero() {
		return new(shard.FileInfo), nil
	}
	if fi, ok := o.fileInfoNow(ctx, id); ok {
		return fi, nil
	}
	return o.finding.do(ctx, wantedFile{id, IsFresh(ctx)}, func(ctx context.Context) (*shard.FileInfo, error) {
		if fi, ok := o.keptFileInfo(ctx, id); ok {
			return fi, nil
		}
		return o.findFile(ctx, id, nil)
	})
}

// keptFileInfo returns what is kept of a file.
func (o *objects) keptFileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, bool) {
	k, ok := o.kept.file(ctx, id)
	if ok && !k.keyed {
		o.remember(k.shard, k.Terms)
	}
	return k.FileInfo, ok
}

// A wantedFile is a question for a File Info block. Who wants it fresh does not share the
// answer of who does not.
type wantedFile struct {
	id    codec.FileID
	fresh bool
}

// findFile asks the shards. begun may be the beginning of the block that id names, or nil.
func (o *objects) findFile(ctx context.Context, id codec.FileID, begun *early) (*shard.FileInfo, error) {
	var (
		incomplete *shard.FileInfo
		first      error
		lost       bool // the shard that id names is not there
	)
	for s, err := range o.describing(ctx, id, &lost) {
		var fi *shard.FileInfo
		if err == nil {
			fi, err = o.describe(ctx, s, id, begun)
		}
		switch {
		case err == nil:
			o.noteElsewhere(id, s)
			return fi, nil
		case passing(err):
			return nil, err
		case errors.Is(err, errIncomplete) && incomplete == nil:
			incomplete = fi
		case first == nil && !errors.Is(err, shard.ErrNoFile) && !errors.Is(err, errIncomplete):
			first = err
		}
		lost = lost || s == id.Shard && errors.Is(err, ErrNotFound)
	}
	switch {
	case incomplete != nil:
		return incomplete, nil // what is there can be read
	case first != nil:
		return nil, fmt.Errorf("file %s: %w", id.File, first)
	}
	return nil, fmt.Errorf("file %s: %w: no shard describes it", id.File, ErrNotFound)
}

// describe returns what shard s says of a file, if the xorbs do not contradict it.
// With errIncomplete it returns what can be said.
func (o *objects) describe(ctx context.Context, s codec.Hash, id codec.FileID, begun *early) (*shard.FileInfo, error) {
	var good, incomplete *shard.FileInfo
	block := begun
	if begun == nil || s != id.Shard {
		block = o.askBlock(ctx, s, id)
	}
	err := o.fromShard(ctx, s, func(r *shard.Reader) error {
		fi, err := o.describeIn(ctx, s, r, id, block)
		block = nil // it may be what is wrong
		switch {
		case err == nil:
			good = fi
			o.kept.putFile(id, keptFileInfo{fi, s, r.Meta().Keyed})
		case errors.Is(err, errIncomplete) && incomplete == nil:
			incomplete = fi
		}
		return err
	})
	if err != nil && incomplete != nil {
		return incomplete, errIncomplete
	}
	return good, err
}

// describeIn is describe for one copy of a shard. A shard may describe a file more than
// once; then the first block that is good counts.
func (o *objects) describeIn(ctx context.Context, s codec.Hash, r *shard.Reader, id codec.FileID, block *early) (*shard.FileInfo, error) {
	fi, err := o.readFileInfo(ctx, s, r, id, block)
	if err == nil {
		err = o.checkFileInfo(ctx, fi)
	}
	if !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, errIncomplete) {
		return fi, err
	}
	for head, headErr := range r.Heads() {
		if headErr != nil || head.File != id.File || (fi != nil && head.Block == fi.Block) {
			continue
		}
		other, otherErr := o.readBlock(ctx, s, head.Block, nil)
		if otherErr == nil && o.checkFileInfo(ctx, other) == nil {
			return other, nil
		}
	}
	return fi, err
}

// describing yields the shards that may describe a file: the one that id names, the one
// where a file was found last that was not where its id said, then all others of the
// store. A far store is not searched for a second description, only for a lost one.
func (o *objects) describing(ctx context.Context, id codec.FileID, lost *bool) func(yield func(codec.Hash, error) bool) {
	return func(yield func(codec.Hash, error) bool) {
		named := !id.Shard.IsZero()
		if named && !yield(id.Shard, nil) {
			return
		}
		if named && !o.near && !*lost {
			return
		}
		likely := o.elsewhere()
		if !likely.IsZero() && likely != id.Shard && !yield(likely, nil) {
			return
		}
		for item, err := range o.store.List(ctx, names.ShardPrefix, "") {
			if err != nil {
				if !errors.Is(err, errors.ErrUnsupported) {
					yield(codec.Hash{}, err)
				}
				return
			}
			p, err := names.ParseKey(item.Key)
			if err != nil || p.Kind != names.ShardKind || codec.Hash(p.Hash) == id.Shard || codec.Hash(p.Hash) == likely {
				continue
			}
			if !yield(p.Hash, nil) {
				return
			}
		}
	}
}

// elsewhere returns the shard where a file was found last that was not where its id
// said: files that lost their shard together are often together elsewhere.
func (o *objects) elsewhere() codec.Hash {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.likely
}

// noteElsewhere notes in which shard a file was found.
func (o *objects) noteElsewhere(id codec.FileID, s codec.Hash) {
	if s == id.Shard {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.likely = s
}

// readFileInfo reads the File Info block of a file in one shard and remembers that
// this shard may list the chunks of the file's xorbs.
func (o *objects) readFileInfo(ctx context.Context, s codec.Hash, r *shard.Reader, id codec.FileID, block *early) (*shard.FileInfo, error) {
	var (
		fi  *shard.FileInfo
		err error
	)
	if s == id.Shard && id.Block != 0 {
		fi, err = o.readBlock(ctx, s, id.Block, block)
	} else {
		fi, err = r.FileInfo(id.File)
	}
	if err != nil {
		return nil, err
	}
	if fi.File != id.File {
		return nil, codec.Corrupt("file info block", fi.Block, "describes file %s", fi.File)
	}
	if !r.Meta().Keyed {
		o.remember(s, fi.Terms)
	}
	return fi, nil
}

// checkFileInfo compares a File Info block with the chunks it leads to: the
// verification hash of every term and the hash of the file. A term whose xorb is
// absent or does not fit is left to whoever reads it; the answer is errIncomplete then.
func (o *objects) checkFileInfo(ctx context.Context, fi *shard.FileInfo) error {
	if !o.near {
		return nil // it would cost a request a xorb; chunks are checked as they come
	}
	if chunksOf(fi.Terms) > maxLeaves {
		return nil
	}
	return checkFileInfo(fi, func(x codec.Hash) (*info, error) { return o.infos.get(ctx, x) })
}

// checkFileInfo is the same with the infos of the xorbs from get.
func checkFileInfo(fi *shard.FileInfo, get func(x codec.Hash) (*info, error)) error {
	var leaves []merkle.Leaf
	complete := true
	for i, t := range fi.Terms {
		in, err := get(t.Xorb)
		if passing(err) {
			return err
		}
		if err != nil || in.Chunks == nil || checkTerm(in.Info, t) != nil {
			complete = false
			continue
		}
		hashes := in.Chunks[t.Chunks.Start:t.Chunks.End]
		if fi.Verify != nil && merkle.Term(hashes) != fi.Verify[i] {
			return codec.Corrupt("file info block", fi.Block, "term %d: its verification hash is not that of chunks %v of xorb %s", i, t.Chunks, t.Xorb)
		}
		if complete {
			leaves = appendLeaves(leaves, in.Info, t.Chunks)
		}
	}
	if !complete {
		return errIncomplete
	}
	if root := merkle.File(leaves); root != fi.File {
		return codec.Corrupt("file info block", fi.Block, "its terms make file %s", root)
	}
	return nil
}

// maxLeaves is the most chunks of a file that are held against its hash when it is
// opened: 80 MiB of leaves, for about 128 GiB of file. A few terms over and over can
// name any number of chunks. Beyond it the chunks alone are checked, as they are read.
const maxLeaves = 2 << 20

func chunksOf(terms []codec.Term) (n int64) {
	for i := range terms {
		n += int64(terms[i].Chunks.Len())
	}
	return n
}

// appendLeaves adds chunks r of a xorb to the leaves of a tree.
func appendLeaves(leaves []merkle.Leaf, in *xorb.Info, r codec.ChunkRange) []merkle.Leaf {
	start, _ := in.UnpackedRange(r)
	for i := r.Start; i < r.End; i++ {
		end := int64(in.UnpackedEnd[i])
		leaves = append(leaves, merkle.Leaf{Hash: in.Chunks[i], Size: uint64(end - start)})
		start = end
	}
	return leaves
}
