package dedup

import (
	"maps"
	"path"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A runState has the folders of a local store that the next session need not list: the runs have all
// their shards and xorbs.
type runState struct {
	Runs   []string            `json:"runs"` // oldest first
	Shards origin.FolderStates `json:"shards"`
	Xorbs  origin.FolderStates `json:"xorbs"`
	Full   time.Time           `json:"full"` // when all folders were listed
}

// next returns the state of a session that starts from s. It has no folder yet.
func (s runState) next() runState {
	if s.Full.IsZero() {
		s.Full = time.Now()
	}
	return runState{Shards: origin.FolderStates{}, Xorbs: origin.FolderStates{}, Full: s.Full}
}

// forgetShard makes the next session list the folder of a shard.
func (s *runState) forgetShard(h codec.Hash) {
	delete(s.Shards, path.Dir(string(names.ShardKey(h))))
}

// forgetXorb makes the next session list the folder of a xorb.
func (s *runState) forgetXorb(h codec.Hash) {
	delete(s.Xorbs, path.Dir(string(names.XorbKey(h))))
}

// stateFile is the kind of the file with a runState.
const stateFile = "runs"

// loadState returns the state that the last session saved, or a zero one.
func (b *builder) loadState() (s runState) {
	if !b.o.Mirror.LoadState(stateFile, &s) || len(s.Runs) == 0 || origin.IsStale(s.Full, time.Now()) {
		return runState{}
	}
	return s
}

// SoundFolders returns the states of folders of a local store. The last Index with the Mirror found no
// damage in them.
func SoundFolders(m mirror.Mirror) origin.FolderStates {
	s := runState{Shards: origin.FolderStates{}}
	if !m.LoadState(stateFile, &s) {
		return nil
	}
	maps.Copy(s.Shards, s.Xorbs)
	return s.Shards
}

// saveState saves the state for the next session.
func (b *builder) saveState() { b.o.Mirror.SaveState(stateFile, b.now) }
