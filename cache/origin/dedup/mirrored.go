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

// addMirrored adds the shards of a listing, oldest first, through their copies. Shards without a
// sorted run get one. It reports whether no shard was left out.
func (b *builder) addMirrored(shards []listedObject) (all bool, err error) {
	s := &runSet{builder: b, folder: b.o.Mirror.Folder, shards: shards, state: make([]shardState, len(shards)), short: map[codec.Hash]bool{}}
	all, err = s.fetch()
	if err != nil {
		return false, err
	}
	err = s.load()
	if err == nil {
		err = s.build()
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
	return all, err
}

// A runSet selects the sorted runs for a listing, and makes those that are missing. Each shard
// of the listing is in at most one run. A run with another shard is removed: an entry would hide
// an older place of the same chunk.
type runSet struct {
	*builder
	folder *mirror.Folder
	shards []listedObject      // of the listing, by age
	state  []shardState        // of each shard
	short  map[codec.Hash]bool // whether xorbs exist in full that are shorter than a shard says
	runs   []*shardRun
}

// A shardState is the place where the chunks of a shard are found.
type shardState uint8

const (
	leftOut shardState = iota // nowhere
	unread                    // in no run yet
	covered                   // in a run
)

// fetch makes copies of the shards. It reports whether no shard was left out.
func (s *runSet) fetch() (all bool, err error) {
	if s.o.Mirror.Local() {
		for i := range s.state {
			s.state[i] = unread
		}
		return true, nil
	}
	items := make([]origin.Item, len(s.shards))
	for i, o := range s.shards {
		items[i] = o.shardItem()
	}
	fit, err := s.o.Mirror.Fetch(s.ctx, items)
	for _, item := range fit {
		if p, err := names.ParseKey(item.Key); err == nil {
			s.state[s.listed[p.Hash]] = unread
		}
	}
	return len(fit) == len(items), err
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
	slices.SortFunc(s.runs, func(x, y *shardRun) int { return cmp.Compare(slices.Max(x.ages), slices.Max(y.ages)) })
	return nil
}

func closeRuns(runs []*shardRun) {
	for _, r := range runs {
		r.file.Close()
	}
}

func (s *runSet) isListed(of runShard) bool {
	age, ok := s.listed[of.hash]
	return ok && s.state[age] != leftOut
}

// fits reports whether a run may be used, and determines the age of its newest shard. It must be
// intact, and have only shards of the listing that no other run has, with their sizes. The same
// xorbs must exist as when it was made.
func (s *runSet) fits(r *shardRun) (bool, error) {
	r.ages = make([]uint32, len(r.shards))
	for i, of := range r.shards {
		age, ok := s.listed[of.hash]
		if !ok || s.state[age] != unread || s.shards[age].size != of.size {
			return false, nil
		}
		r.ages[i] = age
	}
	if !r.isIntact() {
		return false, nil
	}
	for _, x := range r.xorbs {
		present, err := s.isPresent(x.hash, x.packed)
		if err != nil || present != x.present {
			return false, err
		}
	}
	return true, nil
}

// isPresent reports whether a xorb exists in full. It reads each short xorb once.
func (s *runSet) isPresent(x codec.Hash, packed uint32) (present bool, err error) {
	stored, ok := s.byHash[x]
	if !ok || stored.size >= int64(packed) {
		return ok, nil
	}
	if present, ok := s.short[x]; ok {
		return present, nil
	}
	err = s.checkSize(x, packed, stored.size)
	if err != nil && !errors.Is(err, errAbsent) {
		return false, err
	}
	s.short[x] = err == nil
	return err == nil, nil
}

// add adds a run that fits.
func (s *runSet) add(r *shardRun) {
	s.runs = append(s.runs, r)
	for _, age := range r.ages {
		s.state[age] = covered
	}
}

// drop closes and removes a run.
func (s *runSet) drop(r *shardRun) {
	r.file.Close()
	s.folder.Remove(r.name)
}

// build makes runs of the shards that no run has.
func (s *runSet) build() error {
	w := &runBuilder{runSet: s}
	for age, o := range s.shards {
		if s.state[age] != unread {
			continue
		}
		if err := w.add(o, uint32(age)); err != nil {
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
	k.shards, k.xorbs = slices.Grow(k.shards, len(r.shards)), slices.Grow(k.xorbs, len(r.xorbs))
	for _, of := range r.shards {
		k.shards = append(k.shards, shardRef{store: k.Shards(), key: names.ShardKey(of.hash), hash: of.hash, size: of.size})
	}
	r.xorbAt = make([]uint32, len(r.xorbs))
	for i, x := range r.xorbs {
		if !x.present {
			continue
		}
		stored, ok := k.byHash[x.hash]
		if !ok || stored.at == unlisted {
			stored.at = uint32(len(k.xorbs))
			k.xorbs = append(k.xorbs, xorbRef{hash: x.hash, off: x.off, shard: r.firstShard + x.shard, chunks: x.chunks, stride: shardRecord})
			k.byHash[x.hash] = stored
			k.chunks += int64(x.chunks)
		}
		r.xorbAt[i] = stored.at
	}
	k.runs = append(k.runs, r)
}

// A runBuilder collects the entries of a run in memory.
type runBuilder struct {
	*runSet
	run     shardRun
	items   []listedObject // of its shards
	entries []tableEntry
	xorbs   map[codec.Hash]bool // of run
}

// add adds a shard. A damaged shard is added to the Index alone, so that it is reported each
// time.
func (w *runBuilder) add(o listedObject, age uint32) error {
	if w.xorbs == nil {
		w.xorbs = map[codec.Hash]bool{}
	}
	at, xorbs, entries := uint32(len(w.run.shards)), len(w.run.xorbs), len(w.entries)
	err := scanShard(w.ctx, w.Shards(), o.shardItem(), func(x *shard.XorbInfo, first int64) error {
		return w.addXorb(x, first, at)
	}, func(f shard.FileHead) error {
		w.entries = append(w.entries, tableEntry{f.File.Word(3), fileAt(at, f.Block)})
		return nil
	})
	if err == nil {
		w.run.shards, w.run.ages = append(w.run.shards, runShard{o.hash, o.size}), append(w.run.ages, age)
		w.items = append(w.items, o)
		return nil
	}
	for _, x := range w.run.xorbs[xorbs:] {
		delete(w.xorbs, x.hash)
	}
	w.run.xorbs, w.entries = w.run.xorbs[:xorbs], w.entries[:entries]
	if errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound) {
		return w.shard(o)
	}
	return err
}

// addXorb adds a xorb of the shard with number at.
func (w *runBuilder) addXorb(x *shard.XorbInfo, first int64, at uint32) error {
	if w.xorbs[x.Xorb] {
		return nil
	}
	present, err := w.isPresent(x.Xorb, x.Packed)
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
		r.ages = w.run.ages
		w.runSet.add(r)
	} else {
		w.o.Mirror.Broken(err)
		for _, o := range w.items {
			if err := w.shard(o); err != nil {
				return err
			}
		}
	}
	*w = runBuilder{runSet: w.runSet, entries: w.entries[:0]}
	return nil
}
