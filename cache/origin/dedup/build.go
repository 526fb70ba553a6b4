package dedup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

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
	k := &Index{ctx: ctx, s: s, o: o}
	k.window.buf = make([]byte, hashesAtOnce*shardRecord)
	k.index.scratch = o.TempFile
	if sink, ok := o.Sink.(origin.AllSyncer); ok {
		sink.SyncAll() // the session that put these objects may have ended before they were durable
	}
	b := &builder{Index: k, short: map[codec.Hash]bool{}}
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
	now                 runState            // of the folders, without those that the next session must list
	shardsNow, xorbsNow []listedObject      // of the listed folders; shards by age
	short               map[codec.Hash]bool // whether xorbs exist in full that are shorter than a shard says
}

// A listedObject is a shard or xorb in a listing. It has no pointers, because a store may have
// millions.
type listedObject struct {
	hash     codec.Hash
	size     int64
	modified int64 // in nanoseconds since 1970
}

func (o listedObject) shardItem() origin.Item {
	return origin.Item{Key: names.ShardKey(o.hash), Size: o.size, Modified: time.Unix(0, o.modified)}
}

func (b *builder) build() error {
	b.index.fill()
	all, err := b.addShards()
	if err != nil {
		return err
	}
	if all { // else a xorb may be listed in a shard that was left out
		for _, o := range b.xorbsNow {
			if stored := b.byHash[o.hash]; stored.at != unlisted || stored.inRun {
				continue
			}
			b.now.forgetXorb(o.hash)
			if err := b.passUnreadable(names.XorbKey(o.hash), b.orphan(o)); err != nil {
				return err
			}
		}
	}
	if b.o.Mirror != nil {
		b.saveState()
	}
	return b.index.filled()
}

// list lists the store, except folders that have their state in seen. Shards are sorted by age.
func (b *builder) list(seen runState) error {
	b.now = seen.next()
	var lists errgroup.Group
	lists.Go(func() (err error) {
		b.xorbsNow, b.sameXorbs, err = b.listPrefix(names.XorbPrefix, names.XorbKey, seen.Xorbs, b.now.Xorbs)
		if err != nil {
			return err
		}
		b.byHash = make(map[codec.Hash]storedXorb, len(b.xorbsNow))
		for _, o := range b.xorbsNow {
			b.byHash[o.hash] = storedXorb{at: unlisted, size: o.size}
		}
		return nil
	})
	lists.Go(func() (err error) {
		b.shardsNow, b.sameShards, err = b.listPrefix(names.ShardPrefix, names.ShardKey, seen.Shards, b.now.Shards)
		if err != nil {
			return err
		}
		sortByAge(b.shardsNow)
		b.shardAge = make(map[codec.Hash]uint32, len(b.shardsNow))
		for age, o := range b.shardsNow {
			b.shardAge[o.hash] = uint32(age)
		}
		return nil
	})
	return lists.Wait()
}

// addShards lists the store and adds its shards, oldest first. Entries of older shards give way to
// those of newer ones. It reports whether no shard was left out.
func (b *builder) addShards() (all bool, err error) {
	if b.o.Mirror != nil {
		return b.addMirrored()
	}
	if err := b.list(runState{}); err != nil {
		return false, err
	}
	for _, o := range b.shardsNow {
		if err := b.shard(o); err != nil {
			return false, err
		}
	}
	return true, nil
}

func sortByAge(shards []listedObject) {
	slices.SortFunc(shards, func(x, y listedObject) int {
		return cmp.Or(cmp.Compare(x.modified, y.modified), bytes.Compare(x.hash[:], y.hash[:]))
	})
}

// listPrefix returns the shards or xorbs of the store, except those in folders that have not changed
// since seen. It also returns these folders.
func (b *builder) listPrefix(prefix string, key func(codec.Hash) names.Key, seen, now origin.FolderStates) (objects []listedObject, same folderSet, err error) {
	left := map[string]bool{}
	for item, err := range origin.ListChanged(b.ctx, b.s, prefix, seen, now, func(folder string) { left[folder] = true }) {
		if err != nil {
			return nil, same, err
		}
		if p, err := names.ParseKey(item.Key); err == nil {
			objects = append(objects, listedObject{p.Hash, item.Size, item.Modified.UnixNano()})
		}
	}
	return objects, newFolderSet(key, left), nil
}

// passDamaged reports a damaged object, which is left out. It returns other errors.
func (b *builder) passDamaged(k names.Key, err error) error {
	if errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound) {
		b.o.Damaged(k, err)
		return nil
	}
	return err
}

// passUnreadable is passDamaged for an object that no shard lists. Such an object is also left out
// if the local disk or file system cannot read it.
func (b *builder) passUnreadable(k names.Key, err error) error {
	if errors.As(err, new(*origin.LocalError)) {
		b.o.Damaged(k, err)
		return nil
	}
	return b.passDamaged(k, err)
}

// shard adds a shard to the Index alone.
func (b *builder) shard(o listedObject) error {
	item := o.shardItem()
	return b.passDamaged(item.Key, b.addShard(b.Shards(), item, b.there))
}

// there returns nil if a xorb that a shard lists exists, and errAbsent if it is absent or too
// short. It reads no chunk.
func (b *builder) there(x *shard.XorbInfo) error {
	stored, ok := b.storedXorb(x.Xorb)
	if !ok {
		return errAbsent
	}
	return b.checkSize(x.Xorb, x.Packed, stored.size)
}

// checkSize returns errAbsent if a xorb of some size is too short for its chunks. It may be shorter
// than in the shard, because another packer found better matches. Such a xorb has a footer at its
// end.
func (k *Index) checkSize(x codec.Hash, packed uint32, size int64) error {
	if size >= int64(packed) {
		return nil
	}
	key := names.XorbKey(x)
	in, err := xorb.ReadInfo(origin.ReaderAt(k.ctx, k.s, key), size)
	switch {
	case err == nil && in.Xorb == x:
		return nil
	case err == nil, origin.IsXorbFault(err):
		k.o.Damaged(key, codec.Corrupt("xorb", size, "it ends here, its chunks have %d bytes", packed))
		return errAbsent
	}
	return err
}

// orphan adds a xorb that no shard lists, if it has a footer.
func (b *builder) orphan(o listedObject) error {
	key := names.XorbKey(o.hash)
	in, err := xorb.ReadInfo(origin.ReaderAt(b.ctx, b.s, key), o.size)
	if errors.Is(err, xorb.ErrNoFooter) {
		return nil
	}
	if err != nil {
		return err
	}
	if in.Xorb != o.hash {
		return fmt.Errorf("%s: %w", key, codec.Corrupt("xorb footer", 0, "it is the footer of xorb %s", in.Xorb))
	}
	one := xorbRef{
		hash: in.Xorb, off: in.HashesAt(), shard: ownFooter,
		chunks: uint32(in.Len()), stride: uint32(len(codec.Hash{})), list: verified,
	}
	return b.addXorb(one, func(i int) codec.Hash { return in.Chunks[i] })
}
