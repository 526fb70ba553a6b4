package dedup

import (
	"cmp"
	"errors"
	"slices"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// addMirrored adds the shards of a listing through their copies. Shards without a sorted run get
// one. It reports whether no shard was left out.
func (b *builder) addMirrored(shards []origin.Item) (all bool, err error) {
	fit, err := b.o.Mirror.Fetch(b.ctx, shards)
	if err != nil {
		return false, err
	}
	sortByAge(fit)
	s := &runSet{builder: b, folder: b.o.Mirror.Folder, age: map[codec.Hash]int{}, sizes: map[codec.Hash]int64{}, covered: map[codec.Hash]bool{}, present: map[codec.Hash]bool{}}
	for i, item := range fit {
		if p, err := names.ParseKey(item.Key); err == nil {
			s.age[p.Hash], s.sizes[p.Hash] = i, item.Size
		}
	}
	err = s.load()
	if err == nil {
		err = s.build(fit)
	}
	if err == nil {
		s.merge()
	}
	var inUse []string
	for _, r := range s.runs {
		b.addRun(r)
		inUse = append(inUse, r.name)
	}
	if err == nil {
		b.o.Mirror.Trim(inUse...)
	}
	return len(fit) == len(shards), err
}

// A runSet selects the sorted runs for a listing, and makes those that are missing. Each shard
// of the listing is in at most one run. A run with another shard is removed: an entry would hide
// an older place of the same chunk.
type runSet struct {
	*builder
	folder  *mirror.Folder
	age     map[codec.Hash]int   // place of each shard in the listing, oldest first
	sizes   map[codec.Hash]int64 // of the shards in the listing
	covered map[codec.Hash]bool  // shards in runs
	present map[codec.Hash]bool  // xorbs, as found by there
	runs    []*shardRun
}

// load opens the runs in the folder. A merged run precedes its parts, which a killed process may
// leave.
func (s *runSet) load() error {
	var found []*shardRun
	for _, file := range s.folder.List(s.folder.Runs()) {
		r, err := openRun(s.folder, file.Name)
		if err != nil {
			s.folder.Remove(file.Name) // damaged, or of another format
			continue
		}
		if !slices.ContainsFunc(r.shards, s.isListed) {
			r.file.Close() // of another store
			continue
		}
		found = append(found, r)
	}
	slices.SortFunc(found, func(x, y *shardRun) int {
		return cmp.Or(cmp.Compare(len(y.shards), len(x.shards)), cmp.Compare(x.name, y.name))
	})
	for i, r := range found {
		fits, err := s.fits(r)
		if err != nil {
			closeRuns(found[i:])
			return err
		}
		if !fits {
			s.drop(r)
			continue
		}
		s.add(r)
	}
	slices.SortFunc(s.runs, func(x, y *shardRun) int { return cmp.Compare(s.newest(x), s.newest(y)) })
	return nil
}

func closeRuns(runs []*shardRun) {
	for _, r := range runs {
		r.file.Close()
	}
}

func (s *runSet) isListed(of runShard) bool {
	_, ok := s.age[of.hash]
	return ok
}

// newest returns the age of the newest shard of a run.
func (s *runSet) newest(r *shardRun) (age int) {
	for _, of := range r.shards {
		age = max(age, s.age[of.hash])
	}
	return age
}

// fits reports whether a run may be used. It must be intact, and have only shards of the listing
// that no other run has, with their sizes. The same xorbs must exist as when it was made.
func (s *runSet) fits(r *shardRun) (bool, error) {
	for _, of := range r.shards {
		if !s.isListed(of) || s.sizes[of.hash] != of.size || s.covered[of.hash] {
			return false, nil
		}
	}
	if !r.isIntact() {
		return false, nil
	}
	for _, x := range r.xorbs {
		present, err := s.isPresent(&shard.XorbInfo{Xorb: x.hash, Packed: x.packed})
		if err != nil || present != x.present {
			return false, err
		}
	}
	return true, nil
}

// isPresent reports whether a xorb exists in full. It looks at each xorb once.
func (s *runSet) isPresent(x *shard.XorbInfo) (present bool, err error) {
	present, ok := s.present[x.Xorb]
	if ok {
		return present, nil
	}
	if err := s.there(x); err != nil && !errors.Is(err, errAbsent) {
		return false, err
	} else if err == nil {
		present = true
	}
	s.present[x.Xorb] = present
	return present, nil
}

func (s *runSet) add(r *shardRun) {
	s.runs = append(s.runs, r)
	for _, of := range r.shards {
		s.covered[of.hash] = true
	}
}

// drop closes and removes a run.
func (s *runSet) drop(r *shardRun) {
	r.file.Close()
	s.folder.Remove(r.name)
}

// build makes runs of the shards that no run has.
func (s *runSet) build(shards []origin.Item) error {
	w := &runBuilder{runSet: s}
	for _, item := range shards {
		p, err := names.ParseKey(item.Key)
		if err != nil || s.covered[p.Hash] {
			continue
		}
		if err := w.add(item, p.Hash); err != nil {
			return err
		}
		if len(w.entries) >= maxBulk*maxMemtable {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return w.flush()
}

// merge keeps each run at least twice as long as the next newer one, so their number grows with
// the logarithm of the chunks.
func (s *runSet) merge() {
	for n := len(s.runs); n >= 2 && s.runs[n-2].entries < 2*s.runs[n-1].entries; n-- {
		one, err := mergeShardRuns(s.folder, s.runs[n-2], s.runs[n-1])
		if err != nil {
			s.o.Mirror.Broken(err)
			return
		}
		s.drop(s.runs[n-2])
		s.drop(s.runs[n-1])
		s.runs = append(s.runs[:n-2], one)
	}
}

// addRun adds the shards and xorbs of a run to the Index.
func (k *Index) addRun(r *shardRun) {
	r.firstShard = uint32(len(k.shards))
	for _, of := range r.shards {
		k.shards = append(k.shards, shardRef{store: k.Shards(), key: names.ShardKey(of.hash), hash: of.hash, size: of.size})
	}
	r.xorbAt = make([]uint32, len(r.xorbs))
	for i, x := range r.xorbs {
		if !x.present {
			continue
		}
		at, ok := k.byHash[x.hash]
		if !ok || at == unlisted {
			at = uint32(len(k.xorbs))
			k.xorbs = append(k.xorbs, xorbRef{hash: x.hash, off: x.off, shard: r.firstShard + x.shard, chunks: x.chunks, stride: shardRecord})
			k.byHash[x.hash] = at
			k.chunks += int64(x.chunks)
		}
		r.xorbAt[i] = at
	}
	k.runs = append(k.runs, r)
}

// A runBuilder collects the entries of a run in memory.
type runBuilder struct {
	*runSet
	run     shardRun
	items   []origin.Item
	entries []tableEntry
	xorbs   map[codec.Hash]bool // of run
}

// add adds a shard. A damaged shard is added to the Index alone, so that it is reported each
// time.
func (w *runBuilder) add(item origin.Item, h codec.Hash) error {
	if w.xorbs == nil {
		w.xorbs = map[codec.Hash]bool{}
	}
	at, xorbs, entries := uint32(len(w.run.shards)), len(w.run.xorbs), len(w.entries)
	err := scanShard(w.ctx, w.Shards(), item, func(x *shard.XorbInfo, first int64) error {
		return w.addXorb(x, first, at)
	}, func(f shard.FileHead) error {
		w.entries = append(w.entries, tableEntry{f.File.Word(3), fileAt(at, f.Block)})
		return nil
	})
	if err == nil {
		w.run.shards = append(w.run.shards, runShard{h, item.Size})
		w.items = append(w.items, item)
		return nil
	}
	for _, x := range w.run.xorbs[xorbs:] {
		delete(w.xorbs, x.hash)
	}
	w.run.xorbs, w.entries = w.run.xorbs[:xorbs], w.entries[:entries]
	if errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound) {
		return w.each(item, w.shard)
	}
	return err
}

// addXorb adds a xorb of the shard with number at.
func (w *runBuilder) addXorb(x *shard.XorbInfo, first int64, at uint32) error {
	if w.xorbs[x.Xorb] {
		return nil
	}
	present, err := w.isPresent(x)
	if err != nil {
		return err
	}
	w.xorbs[x.Xorb] = true
	if present {
		for c := range x.Chunks {
			w.entries = append(w.entries, tableEntry{x.Chunks[c].Hash.Word(3), chunkAt(uint32(len(w.run.xorbs)), uint32(c))})
		}
	}
	w.run.xorbs = append(w.run.xorbs, runXorb{
		hash: x.Xorb, off: first, shard: at, chunks: uint32(len(x.Chunks)), packed: x.Packed, present: present,
	})
	return nil
}

// flush writes the run. Without room on the disk, its shards are added to the Index alone.
func (w *runBuilder) flush() error {
	if len(w.items) == 0 {
		return nil
	}
	r, err := writeRun(w.folder, &w.run, sortedEntries(w.entries))
	if err == nil {
		w.runSet.add(r)
	} else {
		w.o.Mirror.Broken(err)
		for _, item := range w.items {
			if err := w.each(item, w.shard); err != nil {
				return err
			}
		}
	}
	*w = runBuilder{runSet: w.runSet, entries: w.entries[:0]}
	return nil
}
