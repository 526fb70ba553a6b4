package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Open builds the index of s. It reads files and chunks from the shards of s. It reads the
// chunks of a xorb that no shard lists from the footer, because an interrupted session leaves
// such xorbs. Keyed shards are left out. Xorbs that are listed and absent, or too short for
// their chunks, are left out too. Later objects of s are absent from the index until Learn adds
// their shard.
func Open(ctx context.Context, s origin.Store, o Options) (*Index, error) {
	if o.Sink == nil {
		o.Sink = s
	}
	if o.Damaged == nil {
		o.Damaged = func(names.Key, error) {}
	}
	k := &Index{ctx: ctx, s: s, o: o, byHash: map[codec.Hash]uint32{}, listed: map[codec.Hash]bool{}}
	k.window.buf = make([]byte, hashesAtOnce*shardRecord)
	k.index.scratch = o.TempFile
	if sink, ok := o.Sink.(interface{ SyncAll() }); ok {
		sink.SyncAll() // the session that put these objects may have ended before they were durable
	}
	b := &builder{Index: k}
	if err := b.build(); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// shardRecord is the length of everything in a block of a shard: its header, then one
// record for each chunk.
const shardRecord = 48

// A builder fills an Index.
type builder struct {
	*Index
	sizes map[codec.Hash]int64 // of the xorbs that exist
}

func (b *builder) build() error {
	b.sizes = map[codec.Hash]int64{}
	b.index.fill()
	xorbs, err := b.list(names.XorbPrefix)
	if err != nil {
		return err
	}
	for _, item := range xorbs {
		if p, err := names.ParseKey(item.Key); err == nil {
			b.sizes[p.Hash], b.byHash[p.Hash] = item.Size, unlisted
		}
	}
	shards, err := b.list(names.ShardPrefix)
	if err != nil {
		return err
	}
	for _, item := range shards {
		if p, err := names.ParseKey(item.Key); err == nil {
			b.listed[p.Hash] = true
		}
	}
	all, err := b.addShards(shards)
	if err != nil {
		return err
	}
	if all { // else a xorb may be listed in a shard that was left out
		for _, item := range xorbs {
			if err := b.each(item, b.orphan); err != nil {
				return err
			}
		}
	}
	return b.index.filled()
}

// addShards adds the shards of a listing. Entries of older shards give way to those of newer
// ones. It reports whether no shard was left out.
func (b *builder) addShards(shards []origin.Item) (all bool, err error) {
	if b.o.Mirror != nil {
		return b.addMirrored(shards)
	}
	sortByAge(shards)
	for _, item := range shards {
		if err := b.each(item, b.shard); err != nil {
			return false, err
		}
	}
	return true, nil
}

func sortByAge(shards []origin.Item) {
	slices.SortStableFunc(shards, func(x, y origin.Item) int { return x.Modified.Compare(y.Modified) })
}

func (b *builder) list(prefix string) (items []origin.Item, err error) {
	for item, err := range b.s.List(b.ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// each adds one object, and passes over it if it is damaged.
func (b *builder) each(item origin.Item, add func(origin.Item) error) error {
	err := add(item)
	if errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound) {
		b.o.Damaged(item.Key, err)
		return nil
	}
	return err
}

func (b *builder) shard(item origin.Item) error { return b.addShard(b.Shards(), item, b.there) }

// there returns nil if a xorb that a shard lists exists, and errAbsent if it is absent or too
// short. It reads no chunk. The xorb may be shorter than in the shard, because another packer
// found better matches. Such a xorb has a footer at its end.
func (b *builder) there(x *shard.XorbInfo) error {
	size, ok := b.sizes[x.Xorb]
	switch {
	case !ok:
		return errAbsent
	case size >= int64(x.Packed):
		return nil
	}
	key := names.XorbKey(x.Xorb)
	in, err := xorb.ReadInfo(origin.ReaderAt(b.ctx, b.s, key), size)
	switch {
	case err == nil && in.Xorb == x.Xorb:
		return nil
	case err == nil, origin.IsXorbFault(err):
		b.o.Damaged(key, codec.Corrupt("xorb", size, "it ends here, its chunks have %d bytes", x.Packed))
		return errAbsent
	}
	return err
}

// orphan adds a xorb that no shard lists, if it has a footer.
func (b *builder) orphan(item origin.Item) error {
	p, err := names.ParseKey(item.Key)
	if err != nil || b.byHash[p.Hash] != unlisted {
		return nil //nolint:nilerr // not one of ours
	}
	in, err := xorb.ReadInfo(origin.ReaderAt(b.ctx, b.s, item.Key), item.Size)
	if errors.Is(err, xorb.ErrNoFooter) {
		return nil
	}
	if err != nil {
		return err
	}
	if in.Xorb != codec.Hash(p.Hash) {
		return fmt.Errorf("%s: %w", item.Key, codec.Corrupt("xorb footer", 0, "it is the footer of xorb %s", in.Xorb))
	}
	one := xorbRef{
		hash: in.Xorb, off: in.HashesAt(), shard: ownFooter,
		chunks: uint32(in.Len()), stride: uint32(len(codec.Hash{})), listed: verified,
	}
	return b.addXorb(one, func(i int) codec.Hash { return in.Chunks[i] })
}
