package verify

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/reconstruct"
)

// A countedReport counts what a check reports.
type countedReport struct{ faults, shards, xorbs, files atomic.Int64 }

func (r *countedReport) Fault(Fault)         { r.faults.Add(1) }
func (r *countedReport) Shard()              { r.shards.Add(1) }
func (r *countedReport) Xorb(int)            { r.xorbs.Add(1) }
func (r *countedReport) File(int64)          { r.files.Add(1) }
func (r *countedReport) Absent(codec.Hash)   {}
func (r *countedReport) Unverifiable(string) {}

// A countedFile counts the bytes that are read.
type countedFile struct {
	*os.File
	bytes *atomic.Int64
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.bytes.Add(int64(n))
	return n, err
}

// newLocalTarget returns the target of a folder, and the counted bytes of copies of xorbs.
func newLocalTarget(t *testing.T, folder string) (Target, *atomic.Int64) {
	t.Helper()
	store, err := dir.OpenBare(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	files, err := store.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	chunks, err := cache.New(objects.New(store, objects.Options{}), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { chunks.Close() })
	read := new(atomic.Int64)
	target := Target{Store: store, Bar: new(ui.Progress), Reader: reconstruct.New(chunks, reconstruct.Options{})}
	for _, f := range files {
		target.Objects = append(target.Objects, Object{Path: f.Path, Kind: f.Kind, Hash: f.Hash, Named: f.Named, Size: f.Size, Err: f.Err})
	}
	target.Open = func(_ context.Context, o Object) (ReaderAtCloser, error) {
		f, err := os.Open(filepath.Join(folder, o.Path))
		if err != nil || o.Kind != names.XorbKind {
			return f, err
		}
		return countedFile{f, read}, nil
	}
	return target, read
}

// The chunks of files are unpacked once. A xorb with a second copy is read in full, twice.
func TestStoreReadsChunksOnce(t *testing.T) {
	const size = 4 << 20
	folder := t.TempDir()
	store, err := dir.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(content)
	w := pack.NewWriter(origin.Sink(store), pack.Options{})
	for _, part := range [][]byte{content, content[size/2:]} {
		if err := w.AddFile(t.Context(), bytes.NewReader(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	store.Close()

	check := func(copies int64, least, most int64) {
		t.Helper()
		target, read := newLocalTarget(t, folder)
		var report countedReport
		Store(t.Context(), target, &report)
		if report.faults.Load() != 0 || report.shards.Load() != 1 || report.files.Load() != 2 || report.xorbs.Load() != copies {
			t.Errorf("%d faults, %d shards, %d xorbs, %d files", report.faults.Load(), report.shards.Load(), report.xorbs.Load(), report.files.Load())
		}
		if n := read.Load(); n < least || n > most {
			t.Errorf("the checks of %d copies read %d bytes, want %d to %d", copies, n, least, most)
		}
	}
	check(1, 1, size/4)

	target, _ := newLocalTarget(t, folder)
	for _, o := range target.Objects {
		if o.Kind == names.XorbKind {
			if err := os.CopyFS(filepath.Join(folder, "copy"), os.DirFS(filepath.Dir(filepath.Join(folder, o.Path)))); err != nil {
				t.Fatal(err)
			}
		}
	}
	check(2, 2*size, 3*size)
}
