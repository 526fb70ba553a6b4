package dedup

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// addMirrored lists the store and adds its shards, oldest first, through their copies. Shards without
// a sorted run get one. It reports whether no shard was left out.
func (b *builder) addMirrored() (all bool, err error) {
	s, all, err := b.openRuns(b.loadState())
	if errors.Is(err, errOtherRuns) {
		s, all, err = b.openRuns(runState{})
	}
	if err != nil {
		return false, err
	}
	err = s.build()
	if err == nil {
		s.merge()
	}
	b.runs = s.runs
	if err != nil {
		return false, err
	}
	for _, r := range s.runs {
		b.now.Runs = append(b.now.Runs, r.name)
	}
	b.o.Mirror.Trim(b.now.Runs...)
	return all, nil
}

// errOtherRuns means that the runs are not those of the listing and of the folders that it left out.
var errOtherRuns = errors.New("other runs")

// openRuns lists the store, except folders that have their state in seen, and opens the runs for it.
func (b *builder) openRuns(seen runState) (s *runSet, all bool, err error) {
	var opened []*shardRun
	var opening sync.WaitGroup
	opening.Go(func() { opened = b.openNamed(seen.Runs) })
	err = b.list(seen)
	opening.Wait()
	if err != nil {
		closeRuns(opened)
		return nil, false, err
	}
	s = &runSet{builder: b, folder: b.o.Mirror.Folder(), state: make([]shardState, len(b.shardsNow))}
	if all, err = s.fetch(); err != nil {
		closeRuns(opened)
		return nil, false, err
	}
	if len(seen.Runs) > 0 {
		err = s.reload(seen.Runs, opened)
	} else {
		err = s.load()
	}
	if err != nil {
		closeRuns(s.runs)
	}
	return s, all, err
}

// openNamed opens runs, up to the first one that is absent or damaged.
func (b *builder) openNamed(names []string) (runs []*shardRun) {
	for _, name := range names {
		r, err := openRun(b.o.Mirror.Folder(), name)
		if err != nil {
			break
		}
		runs = append(runs, r)
	}
	return runs
}

// A runSet selects the sorted runs for a listing, and makes those that are missing. Each shard
// of the listing is in at most one run. A run with another shard is removed: an entry would hide
// an older location of the same chunk.
type runSet struct {
	*builder
	folder *mirror.Folder
	state  []shardState // of each shard of the listing, by age
	runs   []*shardRun
}

// A shardState reports whether a run has the chunks of a shard.
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
	items := make([]origin.Item, len(s.shardsNow))
	for i, o := range s.shardsNow {
		items[i] = o.shardItem()
	}
	fit, err := s.o.Mirror.Fetch(s.ctx, items)
	for _, item := range fit {
		if p, err := names.ParseKey(item.Key); err == nil {
			s.state[s.shardAge[p.Hash]] = unread
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
		if !s.hasShardOf(r) {
			r.file.Close() // of another store
			continue
		}
		found = append(found, r)
	}
	slices.SortFunc(found, func(x, y *shardRun) int {
		return cmp.Or(cmp.Compare(y.shardCount(), x.shardCount()), cmp.Compare(x.name, y.name))
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
	slices.SortFunc(s.runs, func(x, y *shardRun) int { return cmp.Compare(x.age, y.age) })
	return nil
}

// reload adds the runs of an earlier session, oldest first, of which some were opened.
func (s *runSet) reload(names []string, opened []*shardRun) error {
	for i, r := range opened {
		fits, err := s.fits(r)
		if err == nil && !fits {
			err = errOtherRuns
		}
		if err != nil {
			closeRuns(opened[i:])
			return err
		}
		s.add(r)
	}
	if len(opened) < len(names) {
		return errOtherRuns
	}
	return nil
}

func closeRuns(runs []*shardRun) {
	for _, r := range runs {
		r.file.Close()
	}
}

// hasShardOf reports whether a shard of a run is listed.
func (s *runSet) hasShardOf(r *shardRun) bool {
	for i := range r.shardCount() {
		if age, ok := s.shardAge[r.shard(i).hash]; ok && s.state[age] != leftOut {
			return true
		}
	}
	return false
}

// fits reports whether a run may be used, and determines the age of its newest shard. It must be
// intact, and have only shards of the listing that no other run has, with their sizes. The same
// xorbs must exist as when it was made. Folders that were not listed have not changed since.
func (s *runSet) fits(r *shardRun) (bool, error) {
	for _, of := range r.shardsIn(&s.sameShards) {
		age, ok := s.shardAge[of.hash]
		if !ok || s.state[age] != unread || s.shardsNow[age].size != of.size {
			return false, nil
		}
		r.age = max(r.age, age)
	}
	if !r.isIntact() {
		return false, nil
	}
	for _, x := range r.xorbsIn(&s.sameXorbs) {
		present, err := s.isPresent(x.hash, x.packed)
		if err != nil || present != x.present {
			return false, err
		}
	}
	return true, nil
}

// isPresent reports whether a xorb exists in full. It reads each short xorb once.
func (s *runSet) isPresent(x codec.Hash, packed uint32) (present bool, err error) {
	stored, ok := s.storedXorb(x)
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
	for _, of := range r.shardsIn(&s.sameShards) {
		if age, ok := s.shardAge[of.hash]; ok {
			s.state[age] = covered
		}
	}
	for _, x := range r.xorbsIn(&s.sameXorbs) {
		if !x.present {
			s.now.forgetXorb(x.hash)
		} else if stored, ok := s.byHash[x.hash]; ok {
			stored.inRun = true
			s.byHash[x.hash] = stored
		}
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
	for age, o := range s.shardsNow {
		if s.state[age] != unread {
			continue
		}
		if err := w.add(o); err != nil {
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
			s.o.Mirror.NoteBroken(err)
			return
		}
		s.drop(s.runs[n-2])
		s.drop(s.runs[n-1])
		s.runs = append(s.runs[:n-2], one)
	}
}

// A runBuilder collects the entries of a run in memory.
type runBuilder struct {
	*runSet
	tables  runTables
	items   []listedObject // of its shards
	entries []tableEntry
	xorbs   map[codec.Hash]bool // of tables
}

// add adds a shard. A damaged shard is added to the Index alone, so that it is reported each
// time.
func (w *runBuilder) add(o listedObject) error {
	if w.xorbs == nil {
		w.xorbs = map[codec.Hash]bool{}
	}
	before, entries := w.tables, len(w.entries)
	at := w.tables.shardCount()
	err := scanShard(w.ctx, w.Shards(), o.shardItem(), func(x *shard.XorbInfo, first int64) error {
		return w.addXorb(x, first, at)
	}, func(f shard.FileHead) error {
		w.entries = append(w.entries, tableEntry{f.File.Word(3), fileAt(at, f.Block)})
		return nil
	})
	if err == nil {
		w.tables.addShard(runShard{o.hash, o.size})
		w.items = append(w.items, o)
		return nil
	}
	for i := before.xorbCount(); i < w.tables.xorbCount(); i++ {
		delete(w.xorbs, w.tables.xorb(i).hash)
	}
	w.tables, w.entries = before, w.entries[:entries]
	if errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound) {
		return w.leaveOut(o)
	}
	return err
}

// leaveOut adds a shard to the Index alone.
func (w *runBuilder) leaveOut(o listedObject) error {
	w.now.forgetShard(o.hash)
	return w.shard(o)
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
			w.entries = append(w.entries, tableEntry{x.Chunks[c].Hash.Word(3), chunkAt(w.tables.xorbCount(), uint32(c))})
		}
	}
	w.tables.addXorb(runXorb{
		hash: x.Xorb, off: first, shard: at, chunks: uint32(len(x.Chunks)), packed: x.Packed, present: present,
	})
	return nil
}

// flush writes the run. Without room on the disk, its shards are added to the Index alone.
func (w *runBuilder) flush() error {
	if len(w.items) == 0 {
		return nil
	}
	r, err := writeRun(w.folder, &w.tables, sortedEntries(w.entries))
	if err == nil {
		w.runSet.add(r)
	} else {
		w.o.Mirror.NoteBroken(err)
		for _, o := range w.items {
			if err := w.leaveOut(o); err != nil {
				return err
			}
		}
	}
	*w = runBuilder{runSet: w.runSet, entries: w.entries[:0]}
	return nil
}
