package dedup

import (
	"path"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A folderSet has folders of shards or xorbs, by the byte of a hash that names the folder.
type folderSet [256]bool

// newFolderSet returns the folders of some keys.
func newFolderSet(key func(codec.Hash) names.Key, folders map[string]bool) (s folderSet) {
	for b := range s {
		s[b] = folders[path.Dir(string(key(codec.Hash{names.FolderByte: byte(b)})))]
	}
	return s
}

func (s *folderSet) has(h codec.Hash) bool { return s[h[names.FolderByte]] }

// storedXorb returns a xorb of the store. It looks for one in a folder that was not listed.
func (k *Index) storedXorb(x codec.Hash) (storedXorb, bool) {
	stored, ok := k.byHash[x]
	if ok || !k.sameXorbs.has(x) {
		return stored, ok
	}
	size, err := k.s.Size(k.ctx, names.XorbKey(x))
	if err != nil {
		return storedXorb{}, false
	}
	stored = storedXorb{at: unlisted, size: size}
	k.byHash[x] = stored
	return stored, true
}

// A xorbInRun is a xorb in the tables of a run.
type xorbInRun struct {
	run    *shardRun
	number uint32
}

// xorbAt returns the index in xorbs of a xorb.
func (k *Index) xorbAt(x codec.Hash) (uint32, bool) {
	if stored, ok := k.byHash[x]; ok && stored.at != unlisted {
		return stored.at, true
	}
	p, ok := k.findInRuns(x)
	if !ok {
		return 0, false
	}
	return k.runXorb(p.run, p.number)
}

// findInRuns returns the oldest run with a xorb. The first call reads the tables of all runs.
func (k *Index) findInRuns(x codec.Hash) (xorbInRun, bool) {
	if k.inRuns == nil {
		k.inRuns = map[codec.Hash]xorbInRun{}
		for _, r := range k.runs {
			for i := range r.xorbCount() {
				one := r.xorb(i)
				if _, ok := k.inRuns[one.hash]; one.present && !ok {
					k.inRuns[one.hash] = xorbInRun{r, i}
				}
			}
		}
	}
	p, ok := k.inRuns[x]
	return p, ok
}

// fromRun translates a location of a run to one of the Index. False: the object is gone or the
// run is damaged.
func (k *Index) fromRun(r *shardRun, at location) (location, bool) {
	var ok bool
	if at.isFile() {
		at.what, ok = k.runShard(r, at.shard())
		at.what |= fileBit
	} else {
		at.what, ok = k.runXorb(r, at.what)
	}
	return at, ok
}

// runShard returns the index in shards of a shard of a run.
func (k *Index) runShard(r *shardRun, i uint32) (uint32, bool) {
	if at, ok := r.shardAt[i]; ok || i >= r.shardCount() {
		return at, ok
	}
	of, at := r.shard(i), uint32(len(k.shards))
	k.shards = append(k.shards, shardRef{store: k.Shards(), key: names.ShardKey(of.hash), hash: of.hash, size: of.size})
	r.shardAt[i] = at
	return at, true
}

// runXorb returns the index in xorbs of a xorb of a run.
func (k *Index) runXorb(r *shardRun, i uint32) (uint32, bool) {
	if at, ok := r.xorbAt[i]; ok || i >= r.xorbCount() {
		return at, ok && at != unlisted
	}
	x := r.xorb(i)
	at, ok := k.addRunXorb(r, x)
	if !ok {
		at = unlisted
	}
	r.xorbAt[i] = at
	return at, ok
}

// addRunXorb adds a xorb of a run, if the store has it in full and no other xorb is the same.
func (k *Index) addRunXorb(r *shardRun, x runXorb) (uint32, bool) {
	if !x.present {
		return 0, false
	}
	stored, ok := k.storedXorb(x.hash)
	if ok && stored.at != unlisted {
		return stored.at, true
	}
	if !ok || k.checkSize(x.hash, x.packed, stored.size) != nil {
		return 0, false
	}
	shard, ok := k.runShard(r, x.shard)
	if !ok {
		return 0, false
	}
	stored.at = uint32(len(k.xorbs))
	k.xorbs = append(k.xorbs, xorbRef{hash: x.hash, off: x.off, shard: shard, chunks: x.chunks, stride: shardRecord})
	k.byHash[x.hash] = stored
	return stored.at, true
}
