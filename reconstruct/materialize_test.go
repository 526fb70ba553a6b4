package reconstruct

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A diskReader is a Reader with a disk cache over a store with one file.
type diskReader struct {
	*Reader
	t     *testing.T
	store origin.WriteStore
	src   *spy
	dir   string
	disk  *disk.Store
	file  *origintest.File
	want  []byte
	end   func() // ends the Reader and the disk, as a process does
}

// keepFrom makes a file of n chunks of 64 KiB.
func keepFrom(t *testing.T, local bool, n int, o Options) *diskReader {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
	k := &diskReader{t: t, dir: t.TempDir()}
	k.file = b.File(b.Xorb(pattern(n, 64<<10)...).All())
	k.want = k.file.Bytes()
	k.store = b.Store()
	if local {
		k.store = b.LocalStore()
	}
	k.begin(o)
	return k
}

// begin makes a new Reader over the same folder.
func (k *diskReader) begin(o Options) {
	k.t.Helper()
	var err error
	if k.disk, err = disk.Open(k.dir, disk.Options{MinFree: -1, MaxBytes: 64 << 20}); err != nil {
		k.t.Fatal(err)
	}
	k.src = spyOn(k.store)
	r, done := newReader(k.t, k.src, cache.Options{Disk: k.disk}, o)
	k.Reader = r
	k.end = sync.OnceFunc(func() {
		if err := r.Close(); err != nil {
			k.t.Error(err)
		}
		done()
		if err := k.disk.Close(); err != nil {
			k.t.Error(err)
		}
	})
	k.t.Cleanup(k.end)
}

func (k *diskReader) open() *Handle {
	k.t.Helper()
	f, err := k.Open(k.t.Context(), k.file.ID())
	if err != nil {
		k.t.Fatal(err)
	}
	return f.Handle()
}

// read reads all of the file by some bytes at a time.
func (k *diskReader) read(by int) {
	k.t.Helper()
	h := k.open()
	defer h.Close()
	for off := 0; off < len(k.want); off += by {
		if err := tryRead(k.t.Context(), h, k.want, int64(off), by); err != nil {
			k.t.Fatalf("read at %d: %v", off, err)
		}
	}
}

// path returns the path of the materialized file.
func (k *diskReader) path() string {
	return filepath.Join(k.dir, "whole", k.file.Info.File.String())
}

// laid reports whether the file is materialized, after all background work.
func (k *diskReader) laid() bool {
	k.materializer.running.Wait()
	return k.disk.HasFile(k.file.Info.File)
}

func TestWhole_Policy(t *testing.T) {
	const chunk = 64 << 10
	tests := []struct {
		name   string
		policy Policy
		local  bool
		chunks int
		do     func(k *diskReader)
		want   bool
	}{
		{"never", MaterializeNever, false, 4, func(k *diskReader) { k.read(chunk) }, false},
		{"remote, read completely", MaterializeAuto, false, 4, func(k *diskReader) { k.read(chunk) }, true},
		{"remote, a bit of each chunk", MaterializeAuto, false, 4, func(k *diskReader) {
			h := k.open()
			defer h.Close()
			for _, off := range []int64{3 * chunk, 0, 2 * chunk, chunk} {
				if err := tryRead(t.Context(), h, k.want, off+100, 4096); err != nil {
					t.Error(err)
				}
			}
		}, true},
		{"remote, by two readers", MaterializeAuto, false, 4, func(k *diskReader) {
			for i := range 2 {
				h := k.open()
				if err := tryRead(t.Context(), h, k.want, int64(2*i*chunk), 2*chunk); err != nil {
					t.Error(err)
				}
				h.Close()
			}
		}, true},
		{"remote, all but the last chunk", MaterializeAuto, false, 4, func(k *diskReader) {
			h := k.open()
			defer h.Close()
			if err := tryRead(t.Context(), h, k.want, 0, 3*chunk); err != nil {
				t.Error(err)
			}
		}, false},
		{"remote, opened", MaterializeAuto, false, 4, func(k *diskReader) { k.open().Close() }, false},
		{"remote, more than a quarter of the cache", MaterializeAuto, false, 257, func(k *diskReader) { k.read(1 << 20) }, false},
		{"local, read once", MaterializeAuto, true, 128, func(k *diskReader) { k.read(1 << 20) }, false},
		{"local, read twice", MaterializeAuto, true, 128, func(k *diskReader) { k.read(1 << 20); k.read(1 << 20) }, true},
		{"local and small", MaterializeAuto, true, 127, func(k *diskReader) { k.read(1 << 20); k.read(1 << 20) }, false},
		{"always, opened", MaterializeAlways, false, 4, func(k *diskReader) { k.open().Close() }, true},
		{"always, local", MaterializeAlways, true, 1, func(k *diskReader) { k.open().Close() }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := keepFrom(t, tt.local, tt.chunks, Options{Materialize: tt.policy})
			tt.do(k)
			if got := k.laid(); got != tt.want {
				t.Errorf("materialized = %t, want %t", got, tt.want)
			}
		})
	}
}

// A materialized file is read from disk, after a restart, too. The origin gets no request, and
// no chunk is prefetched.
func TestWhole_ReadsAskNobody(t *testing.T) {
	k := keepFrom(t, false, 40, Options{Materialize: MaterializeAlways})
	k.open().Close()
	if !k.laid() {
		t.Fatal("it was not materialized")
	}
	for range 2 {
		requests, _, _ := k.src.counts()
		chunks := k.disk.Stats().Hits
		k.read(100_000)
		if now, _, _ := k.src.counts(); now != requests {
			t.Errorf("%d requests for a file that is kept whole", now-requests)
		}
		if n := k.disk.Stats().Hits - chunks; n > 0 {
			t.Errorf("%d chunks of it were read", n)
		}
		k.end()
		k.begin(Options{})
	}
	if p, ok := k.OpenBacking(k.file.ID()); !ok {
		t.Error("there is no plain file")
	} else {
		if got, err := io.ReadAll(p); !bytes.Equal(got, k.want) || err != nil {
			t.Errorf("the plain file has %d bytes, %v, or others", len(got), err)
		}
		p.Close()
	}
}

// A plain file that cannot be read is dropped, and the chunks are read.
func TestWhole_Damaged(t *testing.T) {
	k := keepFrom(t, false, 8, Options{})
	if err := k.Materialize(t.Context(), k.file.ID(), nil, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	h := k.open()
	defer h.Close()
	if err := tryRead(t.Context(), h, k.want, 0, 1000); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(k.path(), 100_000); err != nil {
		t.Fatal(err)
	}
	if err := tryRead(t.Context(), h, k.want, 50_000, 100_000); err != nil {
		t.Error(err)
	}
	if k.disk.HasFile(k.file.Info.File) {
		t.Error("the plain file is still kept")
	}
}

func TestWhole_Keep(t *testing.T) {
	k := keepFrom(t, false, 100, Options{})
	var got atomic.Int64
	read := func(n int64) { got.Add(n) }
	var group sync.WaitGroup
	for range 3 { // at once, of which one does it
		group.Go(func() {
			if err := k.Materialize(t.Context(), k.file.ID(), nil, read); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got.Load() != int64(len(k.want)) {
		t.Errorf("%d bytes were read, want %d", got.Load(), len(k.want))
	}
	if _, different, all := k.src.counts(); different != 100 || all != 100 {
		t.Errorf("%d chunks were asked for, %d different ones, want 100", all, different)
	}
	if b, err := os.ReadFile(k.path()); !bytes.Equal(b, k.want) || err != nil {
		t.Errorf("%d bytes are materialized, %v, or others", len(b), err)
	}
}

func TestWhole_KeepNothing(t *testing.T) {
	broken := errors.New("broken on purpose")
	tests := []struct {
		name string
		do   func(k *diskReader) (context.Context, func(n int64))
		want error
	}{
		{"interrupted", func(k *diskReader) (context.Context, func(n int64)) {
			ctx, cancel := context.WithCancel(k.t.Context())
			return ctx, func(int64) { cancel() }
		}, context.Canceled},
		{"the origin fails", func(k *diskReader) (context.Context, func(n int64)) {
			k.src.before = func(_ context.Context, _ codec.Hash, r codec.ChunkRange) error {
				if r.End > 64 {
					return broken
				}
				return nil
			}
			return k.t.Context(), func(int64) {}
		}, broken},
		{"a chunk is damaged", func(k *diskReader) (context.Context, func(n int64)) {
			key := names.XorbKey(k.file.Info.Terms[0].Xorb)
			b := bytes.Clone(origintest.Get(k.t, k.store, key))
			b[3_000_000] ^= 1
			if err := origintest.Replace(k.store, key, b); err != nil {
				k.t.Fatal(err)
			}
			return k.t.Context(), func(int64) {}
		}, codec.ErrCorrupt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := keepFrom(t, false, 200, Options{})
			ctx, read := tt.do(k)
			if err := k.Materialize(ctx, k.file.ID(), nil, read); !errors.Is(err, tt.want) {
				t.Errorf("Keep: %v, want %v", err, tt.want)
			}
			if k.laid() {
				t.Error("it is materialized")
			}
			if left, err := os.ReadDir(filepath.Dir(k.path())); len(left) > 0 || err != nil {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

// After a failure the file is not retried at once when it is opened.
func TestWhole_NotAgain(t *testing.T) {
	k := keepFrom(t, false, 4, Options{Materialize: MaterializeAlways})
	k.src.before = func(context.Context, codec.Hash, codec.ChunkRange) error { return origin.ErrUnavailable }
	for range 3 {
		k.open().Close()
		if k.laid() {
			t.Fatal("materialized without an origin")
		}
	}
	if requests, _, _ := k.src.counts(); requests != 1 {
		t.Errorf("%d requests, want 1", requests)
	}
}

// Close of the Reader ends a materialization, even if the origin hangs.
func TestWhole_Close(t *testing.T) {
	k := keepFrom(t, false, 4, Options{Materialize: MaterializeAlways})
	requested := make(chan bool, 10)
	k.src.before = func(ctx context.Context, _ codec.Hash, _ codec.ChunkRange) error {
		requested <- true
		<-ctx.Done()
		return ctx.Err()
	}
	k.open().Close()
	<-requested
	k.end()
	if _, err := os.Stat(k.path()); err == nil {
		t.Error("it was materialized")
	}
}

// The materializer waits until no reads run, but not forever.
func TestWhole_Yields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &materializer{r: &Reader{}, policy: MaterializeAlways, start: time.Now()}
		k.r.ctx, k.r.stop = context.WithCancel(t.Context())
		waits := func() time.Duration {
			begin := time.Now()
			if err := k.wait(); err != nil {
				t.Error(err)
			}
			return time.Since(begin)
		}
		time.Sleep(time.Hour)
		if d := waits(); d != 0 {
			t.Errorf("without a reader for an hour it waited for %v", d)
		}
		k.readStarts()
		if d := waits(); d < maxIdleWait || d > maxIdleWait+idlePoll {
			t.Errorf("with a reader it waited for %v, want %v", d, maxIdleWait)
		}
		time.AfterFunc(100*time.Millisecond, k.readEnds)
		if d, want := waits(), 100*time.Millisecond+idleAfter; d < want || d > want+idlePoll {
			t.Errorf("a read ended after 100 ms: it waited for %v, want %v", d, want)
		}
		k.readStarts()
		time.AfterFunc(100*time.Millisecond, k.r.stop)
		begin := time.Now()
		if err := k.wait(); !errors.Is(err, context.Canceled) || time.Since(begin) != 100*time.Millisecond {
			t.Errorf("closed after 100 ms: %v after %v", err, time.Since(begin))
		}
	})
}

// No more than some files are open at a time, and none for long: what is open cannot be
// thrown out.
func TestWhole_FewOpen(t *testing.T) {
	const files = maxBacking + 10
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
	var all []*origintest.File
	for _, chunk := range pattern(files, 1000) {
		all = append(all, b.File(b.Xorb(chunk).All()))
	}
	s, dir := b.Store(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, err := disk.Open(dir, disk.Options{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		origintest.Close(t, d)
		r, done := newReader(t, objects.New(s, objects.Options{}), cache.Options{Disk: d}, Options{})
		t.Cleanup(done)
		origintest.Close(t, r)
		for range 2 {
			for _, f := range all {
				if err := r.Materialize(t.Context(), f.ID(), nil, func(int64) {}); err != nil {
					t.Fatal(err)
				}
				opened, err := r.Open(t.Context(), f.ID())
				if err != nil {
					t.Fatal(err)
				}
				if err := tryRead(t.Context(), opened, f.Bytes(), 10, 500); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := r.backing.open.Len(); got != maxBacking {
			t.Errorf("%d files are open, want %d", got, maxBacking)
		}
		time.Sleep(2*idleBacking + 1)
		if got := r.backing.open.Len(); got != 0 {
			t.Errorf("%d files are open without a reader", got)
		}
	})
}

func BenchmarkWhole(b *testing.B) {
	c, f := large(b, 1024)
	d, err := disk.Open(b.TempDir(), disk.Options{MinFree: -1})
	if err != nil {
		b.Fatal(err)
	}
	origintest.Close(b, d)
	r, done := newReader(b, objects.New(c, objects.Options{}), cache.Options{Disk: d}, Options{})
	b.Cleanup(done)
	origintest.Close(b, r)
	b.Run("keep", func(b *testing.B) {
		b.SetBytes(1024 * 64 << 10)
		for b.Loop() {
			if err := d.Clear(); err != nil {
				b.Fatal(err)
			}
			if err := r.Materialize(b.Context(), f.ID(), nil, func(int64) {}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		opened, err := r.Open(b.Context(), f.ID())
		if err != nil {
			b.Fatal(err)
		}
		p := make([]byte, 4096)
		for b.Loop() {
			if _, err := opened.ReadAt(b.Context(), p, 1<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// An interrupted Materialize leaves the chunks that arrived on disk, even if a batch before
// them is missing or incomplete.
func TestKeep_Interrupted(t *testing.T) {
	const batches = remoteBatches
	k := keepFrom(t, false, batches*batchChunks, Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	waiting := make(chan struct{}, batches)
	k.src.before = func(ctx context.Context, _ codec.Hash, r codec.ChunkRange) error {
		if n := r.Start / batchChunks; n == 0 || n == 5 {
			waiting <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	go func() {
		defer stop()
		<-waiting
		<-waiting
		for begin := time.Now(); k.src.arrived.Load() < batches-2 && time.Since(begin) < time.Minute; {
			time.Sleep(time.Millisecond)
		}
	}()
	if err := k.Materialize(ctx, k.file.ID(), nil, func(int64) {}); !errors.Is(err, context.Canceled) {
		t.Fatalf("Keep = %v, want %v", err, context.Canceled)
	}
	k.src.before = nil
	if err := k.disk.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	term := k.file.Info.Terms[0]
	batch := func(n uint32) codec.ChunkRange {
		return codec.ChunkRange{Start: n * batchChunks, End: (n + 1) * batchChunks}
	}
	if got, want := k.disk.Missing(term.Xorb, term.Chunks), []codec.ChunkRange{batch(0), batch(5)}; !slices.Equal(got, want) {
		t.Errorf("chunks %v are missing, want %v", got, want)
	}
	before, _, _ := k.src.counts()
	if err := k.Materialize(t.Context(), k.file.ID(), nil, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	if requests, _, _ := k.src.counts(); requests != before+2 {
		t.Errorf("%d requests for the rest, want 2", requests-before)
	}
	if !k.laid() {
		t.Error("the file is not materialized")
	}
}

// F54: a file is not materialized if its SHA-256 is not what its shard, or its entry, says.
func TestF54_KeepComparesSHA256(t *testing.T) {
	right, wrong := [32]byte{}, [32]byte{1}
	tests := []struct {
		name          string
		shard, caller *[32]byte // zero: the right one; nil: none
		kept          bool
	}{
		{"no claim", nil, nil, true},
		{"the shard is right", &right, nil, true},
		{"the shard is wrong", &wrong, nil, false},
		{"the caller is right", &wrong, &right, true},
		{"the caller is wrong", &right, &wrong, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := keepFrom(t, false, 8, Options{Materialize: MaterializeAlways})
			sum := sha256.Sum256(k.want)
			claim := func(c *[32]byte) *[32]byte {
				if c == &right {
					return &sum
				}
				return c
			}
			info := *k.file.Info
			if info.SHA256 = [32]byte{}; tt.shard != nil {
				info.SHA256 = *claim(tt.shard)
			}
			err := k.MaterializeInfo(t.Context(), k.file.ID(), &info, claim(tt.caller))
			if (err == nil) != tt.kept || !tt.kept && !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("KeepAs: %v, want kept = %t", err, tt.kept)
			}
			if k.laid() != tt.kept {
				t.Errorf("materialized = %t, want %t", k.laid(), tt.kept)
			}
			compared := tt.shard != nil || tt.caller != nil
			if got, ok := k.SHA256(k.file.Info.File); ok != compared || ok && got != sum {
				t.Errorf("SHA256 = %x, %t, want %t", got, ok, compared)
			}
		})
	}
}
