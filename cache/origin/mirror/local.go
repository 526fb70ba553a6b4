package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
)

// A Local is the Mirror of a local store. It makes no copies, and reads the shards of the store.
type Local struct{ mirrorBase }

// NewLocal returns the Mirror of a local store. Its sorted runs are in a folder with the name of the
// store, which is a file name. It calls note once for a disk that stores no runs.
func NewLocal(s origin.Store, f *Folder, name string, note func(string)) *Local {
	runs := &Folder{path: f.path, max: f.max, runs: RunDir + "/" + name}
	return &Local{newMirrorBase(s, runs, "no index of stored chunks is stored, so the next publish reads all shards again", note)}
}

// Local implements origin.CostReporter.
func (l *Local) Local() bool { return true }

// Fetch implements Mirror. It returns all shards.
func (l *Local) Fetch(_ context.Context, shards []origin.Item) ([]origin.Item, error) {
	return slices.Clone(shards), nil
}

// Put implements Mirror. It does nothing.
func (l *Local) Put(names.Key, []byte) {}

// ReadAt implements origin.Store.
func (l *Local) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	if err := l.compare(ctx, k); err != nil {
		return err
	}
	return l.Store.ReadAt(ctx, k, p, off)
}

// Size implements origin.Store.
func (l *Local) Size(ctx context.Context, k names.Key) (int64, error) {
	if err := l.compare(ctx, k); err != nil {
		return 0, err
	}
	return l.Store.Size(ctx, k)
}

// compare compares a shard with its name, once. The error is that of the first comparison. It does
// nothing for other objects.
func (l *Local) compare(ctx context.Context, k names.Key) error {
	p, err := names.ParseKey(k)
	if err != nil || p.Kind != names.ShardKind {
		return nil //nolint:nilerr // the store has it
	}
	if known, err := l.check(p.Hash); known {
		return err
	}
	size, err := l.Store.Size(ctx, k)
	if err != nil {
		return err
	}
	got, err := merkle.ReadChunk(origin.ReaderAt(ctx, l.Store, k), size)
	if err != nil {
		return err
	}
	if got == p.Hash {
		l.setChecked(p.Hash)
		return nil
	}
	err = fmt.Errorf("%s: %w", k, codec.Corrupt("shard", 0, "its hash is %s", got))
	l.setBad(p.Hash, err)
	return err
}

// maxState is the maximum size of a saved state in bytes.
const maxState = 4 << 20

// stateName is the name of the file with a state.
func (l *Local) stateName(kind string) string {
	return stateDir + "/" + path.Base(l.folder.Runs()) + "-" + kind + ".json"
}

// LoadState implements Mirror.
func (l *Local) LoadState(kind string, state any) bool {
	file, err := l.folder.Open(l.stateName(kind))
	if err != nil {
		return false
	}
	defer file.Close()
	b := make([]byte, min(file.Size, maxState))
	_, err = io.ReadFull(file, b)
	return err == nil && json.Unmarshal(b, state) == nil
}

// SaveState implements Mirror. The state is beside the runs.
func (l *Local) SaveState(kind string, state any) {
	if l.isBroken() {
		return
	}
	b, err := json.Marshal(state)
	if err == nil && len(b) <= maxState {
		err = l.folder.Create(l.stateName(kind), func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		})
	}
	if err != nil {
		l.NoteBroken(err)
	}
}
