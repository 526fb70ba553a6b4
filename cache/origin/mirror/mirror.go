package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
)

// The folders of a Folder.
const (
	shardDir = "shard"
	RunDir   = "run"
	stateDir = "state"
)

// parallelFetches is the number of shards that are fetched at once.
const parallelFetches = 16

// A Mirror is a store with local copies of its shards. It is safe for concurrent use. The Mirror
// of a local store has no copies; it reads the shards of the store.
type Mirror struct {
	origin.Store // of all other objects
	Folder       *Folder
	note         func(string)
	local        bool // without copies

	mu      sync.Mutex
	checked map[codec.Hash]bool  // copies that have their name; guarded by mu
	bad     map[codec.Hash]error // shards that were damaged in the store, until they have a copy; guarded by mu
	inUse   map[string]bool      // files of the shards of Fetch; guarded by mu
	broken  bool                 // the disk stores no more copies; guarded by mu
}

var _ origin.CostReporter = (*Mirror)(nil)

// New returns a Mirror of s. It calls note once for a disk that stores no copies, and once for
// each Fetch that leaves shards out.
func New(s origin.Store, f *Folder, note func(string)) *Mirror {
	if note == nil {
		note = func(string) {}
	}
	return &Mirror{
		Store: s, Folder: f, note: note,
		checked: map[codec.Hash]bool{}, bad: map[codec.Hash]error{}, inUse: map[string]bool{},
	}
}

// NewLocal returns a Mirror without copies of a local store. Its sorted runs are in a folder with
// the name of the store, which is a file name. It calls note once for a disk that stores no runs.
func NewLocal(s origin.Store, f *Folder, name string, note func(string)) *Mirror {
	m := New(s, &Folder{path: f.path, max: f.max, runs: RunDir + "/" + name}, note)
	m.local = true
	return m
}

// Local implements origin.CostReporter. A shard of a remote store may have no copy.
func (m *Mirror) Local() bool { return m.local }

func shardName(h codec.Hash) string { return shardDir + "/" + h.String() }

// Fetch downloads the shards of a listing that have no copy yet. It returns the shards that fit
// into half of the folder, newest first. The other half is for files derived from them. A shard
// that is absent or damaged in the store is an error of its ReadAt.
func (m *Mirror) Fetch(ctx context.Context, shards []origin.Item) ([]origin.Item, error) {
	if m.local {
		return slices.Clone(shards), nil
	}
	fit := m.choose(shards)
	present := map[string]int64{}
	for _, file := range m.Folder.List(shardDir) {
		present[file.Name] = file.Size
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelFetches)
	for _, item := range fit {
		p, err := names.ParseKey(item.Key)
		if err != nil {
			continue // not one of ours
		}
		name := shardName(p.Hash)
		m.use(name)
		if size, ok := present[name]; !ok || size != item.Size {
			g.Go(func() (err error) {
				defer flight.Guard(&err)
				if err = m.fetchOnce(ctx, p.Hash); concernsShard(err) {
					return nil
				}
				return err
			})
		}
	}
	return fit, g.Wait()
}

// use protects files from Trim.
func (m *Mirror) use(names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		m.inUse[name] = true
	}
}

// Trim bounds the folder. It leaves the shards of Fetch and the given files.
func (m *Mirror) Trim(names ...string) {
	m.use(names...)
	m.mu.Lock()
	inUse := maps.Clone(m.inUse)
	m.mu.Unlock()
	m.Folder.Trim(inUse)
}

// choose returns the newest shards that fit into the folder, and notes the others.
func (m *Mirror) choose(shards []origin.Item) (fit []origin.Item) {
	fit = slices.Clone(shards)
	slices.SortStableFunc(fit, func(a, b origin.Item) int { return b.Modified.Compare(a.Modified) })
	var bytes, leftOut int64
	chosen := fit[:0]
	for _, item := range fit {
		if bytes+item.Size > m.Folder.max/2 {
			leftOut += item.Size
			continue
		}
		bytes += item.Size
		chosen = append(chosen, item)
	}
	if n := len(shards) - len(chosen); n > 0 {
		m.note(fmt.Sprintf("%d of %d shards, with %d bytes, are not used for deduplication: their copies have at most %d bytes", n, len(shards), leftOut, m.Folder.max/2))
	}
	return chosen
}

// concernsShard reports whether an error concerns one shard alone.
func concernsShard(err error) bool {
	return errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound)
}

// fetchOnce fetches a shard, and remembers that it is damaged. Damaged bytes are fetched again
// without caches, because a cache or the network may have damaged them. An absent shard is not
// remembered, because another process may store it.
func (m *Mirror) fetchOnce(ctx context.Context, h codec.Hash) error {
	err := m.fetch(ctx, h)
	if errors.Is(err, codec.ErrCorrupt) {
		err = m.fetch(origin.NoCache(ctx), h)
	}
	if errors.Is(err, codec.ErrCorrupt) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.bad[h] = err
	}
	return err
}

// fetch stores a copy of a shard. An error of the disk is noted and is no error.
func (m *Mirror) fetch(ctx context.Context, h codec.Hash) error {
	if m.isBroken() {
		return nil
	}
	var remote error
	err := m.Folder.Create(shardName(h), func(w io.Writer) error {
		err := m.download(ctx, h, w)
		if local := (*diskError)(nil); !errors.As(err, &local) {
			remote = err
		}
		return err
	})
	switch {
	case remote != nil:
		return remote
	case err != nil:
		m.Broken(err)
		return nil
	}
	m.setChecked(h)
	return nil
}

func (m *Mirror) setChecked(h codec.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checked[h] = true
	delete(m.bad, h)
}

// A diskError is an error of the file that a shard is written to.
type diskError struct{ error }

// download writes a shard and compares its hash with its name.
func (m *Mirror) download(ctx context.Context, h codec.Hash, w io.Writer) error {
	sum := merkle.NewChunkHash()
	key := names.ShardKey(h)
	err := origin.ReadWhole(ctx, m.Store, key, 0, func(b []byte, size int64) error {
		if size > m.Folder.max {
			return codec.Corrupt("shard", m.Folder.max, "it has %d bytes", size)
		}
		_, _ = sum.Write(b)
		if _, err := w.Write(b); err != nil {
			return &diskError{err}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if got := sum.Sum(); got != h {
		return fmt.Errorf("%s: %w", key, codec.Corrupt("shard", 0, "its hash is %s", got))
	}
	return nil
}

// Broken notes the first error of the disk. The Mirror then makes no more copies.
func (m *Mirror) Broken(err error) {
	m.mu.Lock()
	first := !m.broken
	m.broken = true
	m.mu.Unlock()
	switch {
	case first && m.local:
		m.note(fmt.Sprintf("no index of stored chunks is stored, so the next publish reads all shards again: %v", err))
	case first:
		m.note(fmt.Sprintf("no copies of shards are stored, so deduplication reads the store: %v", err))
	}
}

func (m *Mirror) isBroken() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.broken
}

// maxState is the maximum size of a saved state in bytes.
const maxState = 4 << 20

// stateName is the name of a file with a state of a local store.
func (m *Mirror) stateName(kind string) string {
	return stateDir + "/" + path.Base(m.Folder.Runs()) + "-" + kind + ".json"
}

// LoadState decodes the state of a local store that SaveState saved. False: no state is saved.
func (m *Mirror) LoadState(kind string, state any) bool {
	if !m.local {
		return false
	}
	file, err := m.Folder.Open(m.stateName(kind))
	if err != nil {
		return false
	}
	defer file.Close()
	b := make([]byte, min(file.Size, maxState))
	_, err = io.ReadFull(file, b)
	return err == nil && json.Unmarshal(b, state) == nil
}

// SaveState saves a state of a local store, beside its runs. A state that is not saved costs the
// next session a listing of the store.
func (m *Mirror) SaveState(kind string, state any) {
	if !m.local || m.isBroken() {
		return
	}
	b, err := json.Marshal(state)
	if err == nil && len(b) <= maxState {
		err = m.Folder.Create(m.stateName(kind), func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		})
	}
	if err != nil {
		m.Broken(err)
	}
}

// Put adds a copy of a shard that was stored under its key.
func (m *Mirror) Put(k names.Key, value []byte) {
	p, err := names.ParseKey(k)
	if m.local || err != nil || p.Kind != names.ShardKind || merkle.Chunk(value) != p.Hash || m.isBroken() {
		return
	}
	err = m.Folder.Create(shardName(p.Hash), func(w io.Writer) error {
		_, err := w.Write(value)
		return err
	})
	if err != nil {
		m.Broken(err)
		return
	}
	m.setChecked(p.Hash)
}

// ReadAt implements origin.Store. It reads a shard from its copy.
func (m *Mirror) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	file, err := m.open(ctx, k)
	if err != nil {
		return err
	}
	if file != nil {
		defer file.Close()
		if _, err := file.ReadAt(p, off); err == nil {
			return nil
		}
	}
	return m.Store.ReadAt(ctx, k, p, off)
}

// Size implements origin.Store. The size of a shard is that of its copy.
func (m *Mirror) Size(ctx context.Context, k names.Key) (int64, error) {
	file, err := m.open(ctx, k)
	if err != nil {
		return 0, err
	}
	if file == nil {
		return m.Store.Size(ctx, k)
	}
	return file.Size, file.Close()
}

// open opens the checked copy of a shard. It returns nil for other objects, and for a shard that
// the disk does not store.
func (m *Mirror) open(ctx context.Context, k names.Key) (*File, error) {
	p, err := names.ParseKey(k)
	if err != nil || p.Kind != names.ShardKind {
		return nil, nil //nolint:nilerr,nilnil // the store has it
	}
	if m.local {
		return nil, m.compare(ctx, k, p.Hash)
	}
	if file := m.openCopy(p.Hash); file != nil {
		return file, nil
	}
	m.mu.Lock()
	bad := m.bad[p.Hash]
	m.mu.Unlock()
	if bad != nil {
		return nil, bad
	}
	if err := m.fetchOnce(ctx, p.Hash); err != nil {
		return nil, err
	}
	return m.openCopy(p.Hash), nil
}

// compare compares a shard of a local store with its name, once. The error is that of the first
// comparison.
func (m *Mirror) compare(ctx context.Context, k names.Key, h codec.Hash) error {
	m.mu.Lock()
	checked, bad := m.checked[h], m.bad[h]
	m.mu.Unlock()
	if checked || bad != nil {
		return bad
	}
	size, err := m.Store.Size(ctx, k)
	if err != nil {
		return err
	}
	got, err := merkle.ReadChunk(origin.ReaderAt(ctx, m.Store, k), size)
	if err != nil {
		return err
	}
	if got == h {
		m.setChecked(h)
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bad[h] = fmt.Errorf("%s: %w", k, codec.Corrupt("shard", 0, "its hash is %s", got))
	return m.bad[h]
}

// openCopy opens the copy of a shard, and removes a damaged copy. It returns nil without a copy.
func (m *Mirror) openCopy(h codec.Hash) *File {
	file, err := m.Folder.Open(shardName(h))
	if err != nil {
		if !isMissing(err) {
			m.Broken(err)
		}
		return nil
	}
	m.mu.Lock()
	checked := m.checked[h]
	m.mu.Unlock()
	if checked {
		return file
	}
	if got, err := merkle.ReadChunk(file, file.Size); err != nil || got != h {
		file.Close()
		m.Folder.Remove(shardName(h))
		return nil
	}
	m.setChecked(h)
	return file
}
