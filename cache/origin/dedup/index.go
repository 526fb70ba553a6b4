package dedup

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/shard"
)

// An Index lists the chunks and files of a store, for a packer that need not store them again.
// It has an entry of 16 bytes for each chunk and file. A small index is in memory, and a large
// one is in files. Its memory grows only with the number of xorbs, by some 100 bytes for each.
//
//	hash ──one word of it──▶ entry: xorb, chunk  ──▶ where its hashes stand ──▶ all 32 bytes
//	                         entry: shard, block ──▶ the File Info block
//
// A chunk that is stored several times is found at the newest location. A packer stores a chunk
// again so that a file is not scattered, and the newest location is in one piece.
//
// A shard may list wrong chunks for a xorb, and a packer would then leave out chunks that no
// xorb has. The listed chunks are therefore used only if the root of their tree is the hash of
// the xorb. The root is computed at the first lookup of such a chunk.
//
// It is not safe for concurrent use.
type Index struct {
	ctx    context.Context // of the packing session that asks
	s      origin.Store
	o      Options
	shards []shardRef // in table, and those of runs that were looked up
	xorbs  []xorbRef  // likewise
	index  table
	runs   []*shardRun              // oldest first; table has newer entries
	inRuns map[codec.Hash]xorbInRun // xorbs of runs; nil: no lookup needed it yet

	// The store is listed when the Index is opened, except folders that have not changed since
	// the runs were made.
	byHash                map[codec.Hash]storedXorb // that were listed or looked up
	shardAge              map[codec.Hash]uint32     // of the listed shards: 0 is the oldest
	sameShards, sameXorbs folderSet

	window hashWindow
	leaves []merkle.Leaf // of the xorb that was checked last
}

var _ pack.Ledger = (*Index)(nil)

// Options tune Open.
type Options struct {
	// Sink is the store that the packing session writes to; nil: the store of the index.
	Sink origin.Store

	// Verify makes the Index read each xorb as a whole before Lookup returns a chunk of it. A
	// corrupt xorb is left out, so that a packing session stores its chunks again.
	Verify bool

	// TempFile makes a file for an index that is too large for memory.
	TempFile func() (TempFile, error)

	// Mirror has sorted runs of the chunks of the store, and copies of the shards of a remote
	// store. nil: all shards are read from the store, and sorted runs are temporary.
	Mirror mirror.Mirror

	// Damaged is called with shards and xorbs that cannot be read, or are corrupt, and are left
	// out. Some are found only at a lookup. nil: no call.
	Damaged func(names.Key, error)
}

// A TempFile is a file that is gone when it is closed.
type TempFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// A shardRef is a shard that files or chunk hashes are read from.
type shardRef struct {
	store origin.Store
	key   names.Key
	hash  codec.Hash
	size  int64
}

// A xorbRef is a xorb of the store, with the offset of its chunk hashes. A hash is at every
// stride bytes from off, in a shard or in the footer of the xorb.
type xorbRef struct {
	hash   codec.Hash
	off    int64
	shard  uint32 // index into shards, or ownFooter
	chunks uint32
	stride uint32
	list   checkState // of the list of its chunks
	sound  checkState // with Verify: whether all of the xorb is its own
}

// A storedXorb is a xorb that the store had when the Index was opened, or that the session stored.
type storedXorb struct {
	at    uint32 // index into xorbs, or unlisted
	inRun bool   // with at unlisted: a run has its chunks
	size  int64  // as the store lists it; 0: stored by the session
}

// A checkState is the result of comparing the chunks that are listed for a xorb with its hash.
type checkState uint8

const (
	unchecked checkState = iota
	verified
	refuted
)

const (
	unlisted  = math.MaxUint32 // there, but no shard that was read lists its chunks
	ownFooter = math.MaxUint32
)

// Close removes the scratch files.
func (k *Index) Close() error {
	err := k.index.close()
	for _, r := range k.runs {
		err = errors.Join(err, r.file.Close())
	}
	k.runs = nil
	return err
}

// Has reports whether the store has a shard or a xorb. An object that was deleted after the Index was
// opened, or stored by another session, may be reported or not.
func (k *Index) Has(key names.Key) bool {
	p, err := names.ParseKey(key)
	switch {
	case err != nil:
		return false
	case p.Kind == names.ShardKind:
		if _, ok := k.shardAge[p.Hash]; ok || !k.sameShards.has(p.Hash) {
			return ok
		}
		_, err := k.s.Size(k.ctx, key)
		return err == nil
	case p.Kind == names.XorbKind:
		_, ok := k.storedXorb(p.Hash)
		return ok
	}
	return false
}

// Shards returns the store that shards are read from.
func (k *Index) Shards() origin.Store {
	if k.o.Mirror != nil {
		return k.o.Mirror
	}
	return k.s
}

// find calls accept with the locations of a word, newest first, until accept returns true.
func (k *Index) find(word uint64, accept func(location) bool) {
	found := false
	k.index.find(word, func(at location) bool {
		found = accept(at)
		return found
	})
	for i := len(k.runs) - 1; i >= 0 && !found; i-- {
		if at, ok := k.runs[i].find(word, k.index.buffer()); ok {
			at, ok = k.fromRun(k.runs[i], at)
			found = ok && accept(at)
		}
	}
}

// Lookup implements pack.ChunkIndex. A chunk that cannot be looked up is not known: it is
// stored again, and nothing is wrong.
func (k *Index) Lookup(chunk codec.Hash) (x codec.Hash, index uint32, ok bool) {
	k.find(chunk.Word(3), func(at location) bool {
		if at.isFile() {
			return false
		}
		h, known := k.hashAt(at.what, at.index)
		if ok = known && h == chunk; ok {
			x, index = k.xorbs[at.what].hash, at.index
		}
		return ok
	})
	return x, index, ok
}

// Chunk implements pack.Ledger.
func (k *Index) Chunk(x codec.Hash, index uint32) (codec.Hash, bool) {
	at, ok := k.xorbAt(x)
	if !ok {
		return codec.Hash{}, false
	}
	return k.hashAt(at, index)
}

// A hashWindow has the hashes of consecutive chunks of one xorb, because chunks are mostly
// looked up in order.
type hashWindow struct {
	xorb   uint32
	start  uint32
	hashes []codec.Hash
	buf    []byte
}

const hashesAtOnce = 64

// hashAt returns the hash of a chunk of a xorb, if it can be read and is to be trusted.
func (k *Index) hashAt(x, index uint32) (codec.Hash, bool) {
	w := &k.window
	if w.xorb == x && index >= w.start && int(index-w.start) < len(w.hashes) {
		return w.hashes[index-w.start], true
	}
	at := &k.xorbs[x]
	if index >= at.chunks || !k.check(at) {
		return codec.Hash{}, false
	}
	w.xorb, w.start, w.hashes = x, index, w.hashes[:0]
	n := min(hashesAtOnce, at.chunks-index)
	b := w.buf[:int(n-1)*int(at.stride)+len(codec.Hash{})]
	if !k.readRecords(at, index, b) {
		return codec.Hash{}, false
	}
	for i := range n {
		w.hashes = append(w.hashes, codec.Hash(b[i*at.stride:]))
	}
	return w.hashes[0], true
}

// readRecords fills b with the records of a xorb from chunk index on.
func (k *Index) readRecords(x *xorbRef, index uint32, b []byte) bool {
	store, key := k.home(x)
	return store.ReadAt(k.ctx, key, b, x.off+int64(index)*int64(x.stride)) == nil
}

// check reports whether the chunks that a shard lists for a xorb are its own. A record that
// cannot be read now is read again by the next call.
func (k *Index) check(x *xorbRef) bool {
	if k.o.Verify && !k.isSound(x) {
		return false
	}
	if x.list != unchecked {
		return x.list == verified
	}
	k.leaves = k.leaves[:0]
	for index := uint32(0); index < x.chunks; index += hashesAtOnce {
		n := min(hashesAtOnce, x.chunks-index)
		b := k.window.buf[:n*x.stride]
		if !k.readRecords(x, index, b) {
			return false
		}
		for ; len(b) > 0; b = b[x.stride:] {
			k.leaves = append(k.leaves, merkle.Leaf{Hash: codec.Hash(b), Size: uint64(binary.LittleEndian.Uint32(b[chunkSizeAt:]))})
		}
	}
	if merkle.Xorb(k.leaves) == x.hash {
		x.list = verified
		return true
	}
	x.list = refuted
	_, key := k.home(x)
	k.o.Damaged(key, codec.Corrupt("CAS info block", x.off-shardRecord, "its chunks are not those of xorb %s", x.hash))
	return false
}

// isSound reports whether a xorb has all hashes that it should have. A xorb that cannot be
// read is not sound, and read again the next time.
func (k *Index) isSound(x *xorbRef) bool {
	if x.sound != unchecked {
		return x.sound == verified
	}
	key := names.XorbKey(x.hash)
	size, err := k.s.Size(k.ctx, key)
	good := false
	if err == nil {
		good, err = origin.IsSoundXorb(origin.ReaderAt(k.ctx, k.s, key), size, x.hash)
	}
	switch {
	case good:
		x.sound = verified
	case err == nil || errors.Is(err, codec.ErrCorrupt):
		x.sound = refuted
		k.o.Damaged(key, codec.Corrupt("xorb", 0, "its bytes do not have its hashes"))
	}
	return good
}

// chunkSizeAt is the offset of the size in a shard's record of a chunk.
const chunkSizeAt = 36

// home returns the object with the hashes of a xorb's chunks.
func (k *Index) home(x *xorbRef) (origin.Store, names.Key) {
	if x.shard == ownFooter {
		return k.s, names.XorbKey(x.hash)
	}
	return k.shards[x.shard].store, k.shards[x.shard].key
}

// File implements pack.Ledger. It returns only a block whose chunks all exist and have the
// verification hashes of the block. The packer has the file, and must compare the chunks with
// those of the file.
func (k *Index) File(file codec.Hash) (in *shard.FileInfo, where codec.Hash, ok bool) {
	k.find(file.Word(3), func(at location) bool {
		if !at.isFile() {
			return false
		}
		s := &k.shards[at.shard()]
		found, err := shard.ReadFileInfo(io.NewSectionReader(origin.ReaderAt(k.ctx, s.store, s.key), 0, s.size), at.block())
		if err != nil || found.File != file || !k.holds(found) {
			return false
		}
		in, where, ok = found, s.hash, true
		return true
	})
	return in, where, ok
}

// holds reports whether the terms of a file lead to the right chunks.
func (k *Index) holds(in *shard.FileInfo) bool {
	if len(in.Verify) != len(in.Terms) {
		return false // nothing to compare with
	}
	var hashes []codec.Hash
	for i, t := range in.Terms {
		hashes = hashes[:0]
		for c := t.Chunks.Start; c < t.Chunks.End; c++ {
			h, ok := k.Chunk(t.Xorb, c)
			if !ok {
				return false
			}
			hashes = append(hashes, h)
		}
		if merkle.Term(hashes) != in.Verify[i] {
			return false
		}
	}
	return true
}

// Learn implements pack.Ledger.
func (k *Index) Learn(h codec.Hash) bool { return k.LearnShard(h) == nil }

// LearnShard is Learn with an error. A corrupt shard is also reported to Options.Damaged.
func (k *Index) LearnShard(h codec.Hash) error {
	key := names.ShardKey(h)
	store := k.o.Sink
	if k.o.Mirror != nil {
		store = k.o.Mirror
	}
	first := len(k.xorbs)
	size, err := store.Size(k.ctx, key)
	if err == nil {
		err = k.addShard(store, origin.Item{Key: key, Size: size}, func(*shard.XorbInfo) error { return nil })
	}
	for i := range k.xorbs[first:] {
		k.xorbs[first+i].sound = verified // this session stored it
	}
	if errors.Is(err, codec.ErrCorrupt) {
		k.o.Damaged(key, err)
	}
	return err
}

// addShard adds the chunks and files of a shard. It calls there for each xorb that is not in
// the index yet, and leaves the xorb out after errAbsent. Entries before the damage stay, even
// if the rest of the shard is corrupt.
func (k *Index) addShard(store origin.Store, item origin.Item, there func(*shard.XorbInfo) error) error {
	p, err := names.ParseKey(item.Key)
	if err != nil {
		return nil //nolint:nilerr // not one of ours
	}
	at := uint32(len(k.shards))
	k.shards = append(k.shards, shardRef{store: store, key: item.Key, hash: p.Hash, size: item.Size})
	return scanShard(k.ctx, store, item, func(x *shard.XorbInfo, first int64) error {
		if stored, ok := k.byHash[x.Xorb]; ok && stored.at != unlisted {
			return nil
		}
		if err := there(x); err != nil {
			if errors.Is(err, errAbsent) {
				return nil
			}
			return err
		}
		one := xorbRef{hash: x.Xorb, off: first, shard: at, chunks: uint32(len(x.Chunks)), stride: shardRecord}
		return k.addXorb(one, func(i int) codec.Hash { return x.Chunks[i].Hash })
	}, func(f shard.FileHead) error {
		return k.index.add(f.File.Word(3), fileAt(at, f.Block))
	})
}

// scanShard calls xorb with each xorb of a shard and the offset of the record of its first
// chunk, then file with each file. A keyed shard has none of use.
func scanShard(ctx context.Context, s origin.Store, item origin.Item, xorb func(x *shard.XorbInfo, first int64) error, file func(shard.FileHead) error) error {
	r, err := shard.NewReader(origin.SequentialReader(ctx, s, item.Key, item.Size), item.Size)
	if err != nil || r.Meta().Keyed {
		return err
	}
	next := r.Meta().XorbInfoOffset
	for x, err := range r.Xorbs() {
		if err != nil {
			return err
		}
		first := next + shardRecord
		next += shardRecord * int64(1+len(x.Chunks))
		if err := xorb(x, first); err != nil {
			return err
		}
	}
	for f, err := range r.Heads() {
		if err == nil {
			err = file(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errAbsent means that a xorb is listed and absent.
var errAbsent = errors.New("the xorb is absent")

// addXorb adds the chunks of a xorb.
func (k *Index) addXorb(x xorbRef, hash func(int) codec.Hash) error {
	i := uint32(len(k.xorbs))
	k.xorbs = append(k.xorbs, x)
	k.byHash[x.hash] = storedXorb{at: i, size: k.byHash[x.hash].size}
	for c := range x.chunks {
		if err := k.index.add(hash(int(c)).Word(3), chunkAt(i, c)); err != nil {
			return err
		}
	}
	return nil
}
