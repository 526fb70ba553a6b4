package mirror

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// The folders of a Folder.
const (
	shardDir = "shard"
	RunDir   = "run"
	stateDir = "state"
)

// A Mirror is a store whose shards are compared with their names before they are used. It has a
// Folder for files derived from them. Copies is the Mirror of a remote store, and Local that of a
// local one. A Mirror is safe for concurrent use.
type Mirror interface {
	origin.Store
	origin.CostReporter
	Folder() *Folder

	// Fetch prepares the shards of a listing. It returns those that may be used.
	Fetch(ctx context.Context, shards []origin.Item) ([]origin.Item, error)

	// Put adds a shard that was stored under its key.
	Put(k names.Key, value []byte)

	// Trim bounds the folder. It leaves the shards of Fetch and the given files.
	Trim(names ...string)

	// NoteBroken notes the first error of the disk. The Mirror then stores no more files.
	NoteBroken(err error)

	// LoadState decodes the state that SaveState saved. False: no state is saved. A state that
	// is not saved costs the next session a listing of the store.
	LoadState(kind string, state any) bool
	SaveState(kind string, state any)
}

var (
	_ Mirror = (*Copies)(nil)
	_ Mirror = (*Local)(nil)
)

// A mirrorBase is the common part of both kinds of Mirror.
type mirrorBase struct {
	origin.Store // of all other objects
	folder       *Folder
	note         func(string)
	brokenNote   string // for a disk that stores no files

	mu      sync.Mutex
	checked map[codec.Hash]bool  // shards that have their name; guarded by mu
	bad     map[codec.Hash]error // shards that were damaged in the store, until they have a copy; guarded by mu
	inUse   map[string]bool      // files of the shards of Fetch; guarded by mu
	broken  bool                 // the disk stores no more files; guarded by mu
}

func newMirrorBase(s origin.Store, f *Folder, brokenNote string, note func(string)) mirrorBase {
	if note == nil {
		note = func(string) {}
	}
	return mirrorBase{
		Store: s, folder: f, note: note, brokenNote: brokenNote,
		checked: map[codec.Hash]bool{}, bad: map[codec.Hash]error{}, inUse: map[string]bool{},
	}
}

// Folder implements Mirror.
func (b *mirrorBase) Folder() *Folder { return b.folder }

// use protects files from Trim.
func (b *mirrorBase) use(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		b.inUse[name] = true
	}
}

// Trim implements Mirror.
func (b *mirrorBase) Trim(names ...string) {
	b.use(names...)
	b.mu.Lock()
	inUse := maps.Clone(b.inUse)
	b.mu.Unlock()
	b.folder.Trim(inUse)
}

// NoteBroken implements Mirror.
func (b *mirrorBase) NoteBroken(err error) {
	b.mu.Lock()
	first := !b.broken
	b.broken = true
	b.mu.Unlock()
	if first {
		b.note(fmt.Sprintf("%s: %v", b.brokenNote, err))
	}
}

func (b *mirrorBase) isBroken() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}

// check returns the result of comparing a shard with its name. known is false for a shard that was
// not compared yet.
func (b *mirrorBase) check(h codec.Hash) (known bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.checked[h] || b.bad[h] != nil, b.bad[h]
}

func (b *mirrorBase) setChecked(h codec.Hash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checked[h] = true
	delete(b.bad, h)
}

func (b *mirrorBase) setBad(h codec.Hash, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bad[h] = err
}
