package cache

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// noMemory keeps unpacked chunks from hiding what the disk does.
const noMemory = -1

// A mount is a Cache with a disk, over a Source that counts.
type mount struct {
	*Cache
	disk *disk.Store
	src  *hookedSource
}

// mountOn opens a Cache over src that keeps in a folder.
func mountOn(t testing.TB, dir string, src origin.Source, o Options) *mount {
	t.Helper()
	m := &mount{disk: openDisk(t, dir, disk.Options{}), src: hook(src, nil)}
	o.Disk = m.disk
	m.Cache = open(t, m.src, o)
	return m
}

func openDisk(t testing.TB, dir string, o disk.Options) *disk.Store {
	t.Helper()
	if o.MinFree == 0 {
		o.MinFree = -1
	}
	d, err := disk.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, d)
	return d
}

// settle returns when everything that was read can be found on disk.
func (m *mount) settle(t testing.TB) {
	t.Helper()
	m.fetches.running.Wait()
	if err := m.disk.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// close ends the Cache and what it keeps in.
func (m *mount) close(t testing.TB) {
	t.Helper()
	if err := errors.Join(m.Cache.Close(), m.disk.Close()); err != nil {
		t.Fatal(err)
	}
}

// requested returns how many requests and chunks there were since the last call.
func (m *mount) requested() (requests, chunks int64) {
	return m.src.requests.Swap(0), m.src.chunks.Swap(0)
}

// wantRequested fails unless this number of requests and chunks was sent since the last call.
func (m *mount) wantRequested(t testing.TB, what string, requests, chunks int64) {
	t.Helper()
	if r, c := m.requested(); r != requests || c != chunks {
		t.Errorf("%s: %d requests for %d chunks, want %d for %d", what, r, c, requests, chunks)
	}
}

// forge packs bytes that are not those of a xorb as chunks of it, of the right sizes.
func (s xorbSource) forge(t testing.TB, r codec.ChunkRange) *xorb.Run {
	t.Helper()
	var packed []byte
	for i := r.Start; i < r.End; i++ {
		n := len(s.Xorb.Chunks[i])
		packed = xorb.ChunkHeader{Packed: n, Unpacked: n}.Append(packed)
		packed = append(packed, bytes.Repeat([]byte{0xba}, n)...)
	}
	run, err := xorb.ParseRun(packed, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// wantGood fails if anything on disk of some xorbs is not theirs, and returns how many
// chunks there are.
func (m *mount) wantGood(t testing.TB, xorbs ...xorbSource) (n int) {
	t.Helper()
	for _, x := range xorbs {
		for i := range x.Xorb.Chunks {
			run, ok := m.disk.Run(x.Hash(), chunks(i, i+1))
			if !ok {
				continue
			}
			n++
			p := make([]byte, run.Size(uint32(i)))
			if _, err := run.Unpack(uint32(i), p); err != nil || !bytes.Equal(p, x.Xorb.Chunks[i]) {
				t.Errorf("xorb %s chunk %d is damaged on disk: %v", x.Hash(), i, err)
			}
		}
	}
	return n
}

// Chunks that were read are present after a restart, without requests.
func TestRemount(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{Schemes: allSchemes})
	var all [][]byte
	for i, n := range []int{1, 1000, 131072, 9, 70000, 5000, 1, 65536, 300, 4000} {
		all = append(all, origintest.Text(uint64(i), n))
	}
	x, s, dir := b.Xorb(all...), origintest.Watch(b.Store()), t.TempDir()
	for round := range 3 {
		d := openDisk(t, dir, disk.Options{})
		src := xorbSource{x, objects.New(s, objects.Options{Backend: d})}
		c := open(t, src.src, Options{Disk: d})
		for i := range 10 {
			src.read(t, c, chunks(i, 10), 0, len(x.Unpacked(chunks(i, 10))))
			src.read(t, c, chunks(i, i+1), len(all[i])/2, len(all[i])/3)
		}
		if n := len(s.Calls()); (n > 0) != (round == 0) {
			t.Errorf("round %d: %d requests", round, n)
		}
		st := c.Stats()
		if round > 0 && st.DiskHits == 0 || st.Disk == nil {
			t.Errorf("round %d: stats = %+v", round, st)
		}
		if err := errors.Join(c.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// Each chunk is requested once, whatever is read, by which readers, and again at once.
func TestEachChunkOnce(t *testing.T) {
	const n = 200
	x := store(t, false, same(n, 1000)...)
	tests := []struct {
		name string
		read func(t *testing.T, m *mount)
	}{
		{"in a row", func(t *testing.T, m *mount) {
			for off := 0; off < n*1000; off += 2500 {
				x.read(t, m.Cache, chunks(off/1000, (off+2500+999)/1000), off%1000, 2500)
			}
		}},
		{"with what comes ahead", func(t *testing.T, m *mount) {
			a := m.NewReadahead()
			defer a.Close()
			for i := 0; i < n; i += 4 {
				a.Prefetch(x.Hash(), chunks(i, min(i+64, n)), 0)
				x.read(t, m.Cache, chunks(i, i+4), 10, 3500)
			}
		}},
		{"what came ahead and was not read", func(t *testing.T, m *mount) {
			a := m.NewReadahead()
			for i := 0; i < n; i += 50 {
				a.Prefetch(x.Hash(), chunks(i, i+50), 0)
			}
			for i := 0; i < n; i += 50 {
				x.read(t, m.Cache, chunks(i+20, i+21), 10, 10)
			}
			a.Close()
		}},
		{"at once", func(t *testing.T, m *mount) {
			x.read(t, m.Cache, chunks(0, n), 0, n*1000)
		}},
		{"everything by everybody", func(t *testing.T, m *mount) {
			var readers sync.WaitGroup
			for i := range 8 {
				readers.Go(func() {
					for j := range n / 4 {
						at := (i*6 + j) * 4 % n
						x.read(t, m.Cache, chunks(at, at+4), 1, 3998)
					}
				})
			}
			readers.Wait()
		}},
		{"backwards", func(t *testing.T, m *mount) {
			for i := n - 1; i >= 0; i-- {
				x.read(t, m.Cache, chunks(i, i+1), 1, 900)
			}
		}},
		{"by Run", func(t *testing.T, m *mount) {
			for i := 0; i < n; i += 40 {
				if err := x.unpack(t, m.Cache, chunks(i, i+40)); err != nil {
					t.Error(err)
				}
			}
			m.settle(t)
		}},
		{"by Run, what was just read", func(t *testing.T, m *mount) {
			for i := 0; i < n; i += 5 {
				x.read(t, m.Cache, chunks(i, i+5), 0, 5000)
				if err := x.unpack(t, m.Cache, chunks(i, i+5)); err != nil {
					t.Error(err)
				}
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory})
			for range 2 {
				tt.read(t, m)
			}
			if _, got := m.requested(); got != n {
				t.Errorf("%d chunks were requested, want each of %d once", got, n)
			}
			m.settle(t)
			if got := m.wantGood(t, x); got != n {
				t.Errorf("%d chunks are on disk, want %d", got, n)
			}
			tt.read(t, m)
			m.wantRequested(t, "when all is on disk", 0, 0)
			if left := len(m.fetches.byXorb); left != 0 || m.fetches.writes.bytes != 0 {
				t.Errorf("%d fetches and %d bytes are left", left, m.fetches.writes.bytes)
			}
		})
	}
}

// Chunks that reach the disk between a reader's look at the disk and at the running fetches are
// in neither place. The reader looks again.
func TestComesToTheDiskMeanwhile(t *testing.T) {
	x := store(t, false, same(8, 1000)...)
	m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory})
	gate := make(chan struct{})
	m.fetches.enqueueFunc(func() { <-gate })
	x.read(t, m.Cache, chunks(0, 3), 0, 3000) // waits behind the gate
	seen := m.fetches.diskWrites.Load()
	if gaps := m.disk.Missing(x.Hash(), chunks(0, 8)); len(gaps) != 1 || gaps[0] != chunks(0, 8) {
		t.Fatalf("%v are not on disk", gaps)
	}
	close(gate)
	m.settle(t)
	parts, ok := m.fetches.join(nil, x.Hash(), chunks(2, 5), seen)
	if ok || len(parts) > 0 {
		t.Errorf("%d fetches, one of them for a chunk that is on disk", len(parts))
	}
	m.requested()
	x.read(t, m.Cache, chunks(2, 5), 0, 3000)
	m.wantRequested(t, "afterwards", 1, 2)
}

// unpack reads chunks with Run, as verification does.
func (s xorbSource) unpack(t testing.TB, c *Cache, r codec.ChunkRange) error {
	for try := 1; ; try++ {
		run, err := c.Run(t.Context(), s.Hash(), r)
		var all []byte
		for i := r.Start; err == nil && i < r.End; i++ {
			p := make([]byte, run.Size(i))
			_, err = run.Unpack(i, p)
			all = append(all, p...)
		}
		if err == nil && !bytes.Equal(all, s.Unpacked(r)) {
			err = errOtherBytes
		}
		if err == nil || !c.ShouldRetry(s.Hash(), err, try) {
			return err
		}
	}
}

// If some chunks are on disk, only the others are requested, in few requests.
func TestPartsOnDisk(t *testing.T) {
	tests := []struct {
		name             string
		kept             []codec.ChunkRange
		read             codec.ChunkRange
		requests, chunks int64
	}{
		{"nothing", nil, chunks(0, 20), 1, 20},
		{"all", []codec.ChunkRange{chunks(0, 20)}, chunks(0, 20), 0, 0},
		{"all, in pieces", []codec.ChunkRange{chunks(0, 7), chunks(12, 20), chunks(7, 12)}, chunks(0, 20), 0, 0},
		{"the beginning", []codec.ChunkRange{chunks(0, 7)}, chunks(0, 20), 1, 13},
		{"the end", []codec.ChunkRange{chunks(7, 20)}, chunks(0, 20), 1, 7},
		{"the middle", []codec.ChunkRange{chunks(5, 15)}, chunks(0, 20), 2, 10},
		{"a little in the middle", []codec.ChunkRange{chunks(9, 11)}, chunks(0, 20), 1, 20},
		{"all but the middle", []codec.ChunkRange{chunks(0, 5), chunks(8, 20)}, chunks(0, 20), 1, 3},
	}
	for _, tt := range tests {
		x := store(t, false, same(20, 1000)...)
		n := len(x.Unpacked(tt.read))
		for how, read := range map[string]func(m *mount){
			"Read": func(m *mount) { x.read(t, m.Cache, tt.read, 0, n) },
			"Prefetch": func(m *mount) {
				a := m.NewReadahead()
				defer a.Close()
				a.Prefetch(x.Hash(), tt.read, 0)
				m.fetches.running.Wait()
				m.wantRequested(t, tt.name+" ahead", tt.requests, tt.chunks)
				x.read(t, m.Cache, tt.read, 0, n)
				m.wantRequested(t, tt.name+" behind", 0, 0)
				m.src.requests.Add(tt.requests)
				m.src.chunks.Add(tt.chunks)
			},
			"Run": func(m *mount) {
				if err := x.unpack(t, m.Cache, tt.read); err != nil {
					t.Error(err)
				}
			},
		} {
			t.Run(tt.name+" "+how, func(t *testing.T) {
				m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory})
				for _, r := range tt.kept {
					x.read(t, m.Cache, r, 0, len(x.Unpacked(r)))
				}
				m.settle(t)
				m.requested()
				read(m)
				m.wantRequested(t, "read", tt.requests, tt.chunks)
				m.settle(t)
				m.wantGood(t, x)
			})
		}
	}
}

// Readahead of chunks on disk fills the page cache. It requests nothing and takes no memory.
func TestPrefetchOnDisk(t *testing.T) {
	x := store(t, false, same(20, 5000)...)
	dir := t.TempDir()
	m := mountOn(t, dir, x.src, Options{})
	x.read(t, m.Cache, chunks(0, 20), 0, 20*5000)
	m.settle(t)
	if err := m.disk.Sync(); err != nil {
		t.Fatal(err)
	}
	m.requested()
	inMemory := func() bool {
		_, ok := m.disk.RunIn(x.Hash(), chunks(0, 20), disk.RunOptions{Buffer: func(n int) []byte { return make([]byte, n) }, NoWait: true})
		return ok
	}
	if !inMemory() {
		t.Skip("this kernel, or this file system, does not tell what is in memory")
	}
	dropPages(t, dir)
	if inMemory() {
		t.Skip("this file system keeps all in memory")
	}
	a := m.NewReadahead()
	defer a.Close()
	if !a.Prefetch(x.Hash(), chunks(0, 20), 0) {
		t.Error("no room")
	}
	for deadline := time.Now().Add(time.Minute); !inMemory(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the chunks did not come into the page cache")
		}
	}
	if got := m.Stats(); got.AheadBytes != 0 {
		t.Errorf("%d bytes are held", got.AheadBytes)
	}
	m.wantRequested(t, "all on disk", 0, 0)
}

// dropPages drops the segments of a disk cache from memory.
func dropPages(t *testing.T, dir string) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "seg", "*"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	for _, path := range segments {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// 64 readers of everything over a disk that holds a part of it.
func TestTinyDisk(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{Schemes: []xorb.Scheme{xorb.None}})
	var xorbs []xorbSource
	for i := range 12 {
		var all [][]byte
		for j := range 24 {
			all = append(all, origintest.Random(uint64(i*100+j), 100<<10))
		}
		xorbs = append(xorbs, xorbSource{b.Xorb(all...), nil})
	}
	dir := t.TempDir()
	d := openDisk(t, dir, disk.Options{MaxBytes: 16 << 20, SyncBytes: 4 << 20})
	src := hook(objects.New(b.Store(), objects.Options{}), nil)
	c := open(t, src, Options{Disk: d, MemoryBytes: 1 << 20})
	var readers sync.WaitGroup
	for i := range 64 {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			a := c.NewReadahead()
			defer a.Close()
			for range 10 {
				x := xorbs[min(random.IntN(len(xorbs)), random.IntN(len(xorbs)))]
				at := random.IntN(20)
				a.Prefetch(x.Hash(), chunks(at+2, at+4), 0)
				x.read(t, c, chunks(at, at+4), random.IntN(100<<10), 1+random.IntN(300<<10))
			}
		})
	}
	readers.Wait()
	c.fetches.running.Wait()
	if err := d.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := &mount{Cache: c, disk: d, src: src}
	m.wantGood(t, xorbs...)
	st := c.Stats()
	if st.Disk.EvictedBytes == 0 || st.DiskHits == 0 || st.Disk.PeakBytes > 16<<20 || st.Disk.Dropped != 0 {
		t.Errorf("stats = %+v, %+v: want hits and evictions, and no more than there is room for", st, *st.Disk)
	}
}

// With a local origin, the disk is not even read.
func TestNearIsNotKept(t *testing.T) {
	x := store(t, true, same(20, 1000)...)
	s := index(t, 50, smallPages)
	m := mountOn(t, t.TempDir(), x.src, Options{})
	x.read(t, m.Cache, chunks(0, 20), 10, 19_000)
	if err := x.unpack(t, m.Cache, chunks(0, 20)); err != nil {
		t.Error(err)
	}
	if _, err := m.Pages(s).Page(t.Context(), s.leaves[0]); err != nil {
		t.Error(err)
	}
	m.settle(t)
	for e := range m.disk.Entries() {
		t.Errorf("%v is kept", e)
	}
	if st := m.Stats(); st.DiskHits+st.Disk.Hits+st.Disk.Misses != 0 {
		t.Errorf("the disk was asked: %+v, %+v", st, *st.Disk)
	}
}

// With a local origin, chunks that a remote one has left on a shared disk are missing.
func TestMissingOfLocalOrigin(t *testing.T) {
	x, local := store(t, false, same(20, 1000)...), store(t, true, same(20, 1000)...)
	m := mountOn(t, t.TempDir(), x.src, Options{})
	x.read(t, m.Cache, chunks(0, 20), 0, 20_000)
	m.settle(t)
	c := open(t, local.src, Options{Disk: m.disk})
	all := chunks(0, 20)
	if remote, here := m.Missing(x.Hash(), all), c.Missing(x.Hash(), all); len(remote) > 0 || !slices.Equal(here, []codec.ChunkRange{all}) {
		t.Errorf("missing are %v of a remote origin, and %v of a local one", remote, here)
	}
}

// A Run that does not look on disk counts the chunks that it requests.
func TestRunCountsMisses(t *testing.T) {
	for _, local := range []bool{true, false} {
		x := store(t, local, same(20, 1000)...)
		c := open(t, x.src, Options{})
		if err := x.unpack(t, c, chunks(5, 20)); err != nil {
			t.Error(err)
		}
		if n := c.Stats().Misses; n != 15 {
			t.Errorf("local=%v: %d misses, want 15", local, n)
		}
	}
}

// Chunks without known hashes are stored as they arrived, if they unpack.
func TestUnknownHashesAreKept(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoFooter: true, NoCASInfo: true})
	x := xorbSource{b.Xorb(origintest.Text(1, 1000), origintest.Text(2, 1000), origintest.Text(3, 1000)), nil}
	m := mountOn(t, t.TempDir(), objects.New(b.Store(), objects.Options{}), Options{MemoryBytes: noMemory})
	x.read(t, m.Cache, chunks(0, 3), 0, 2500)
	m.settle(t)
	x.read(t, m.Cache, chunks(0, 3), 0, 2500)
	m.wantRequested(t, "read", 1, 3)
	if n := m.wantGood(t, x); n != 3 {
		t.Errorf("%d chunks are kept", n)
	}
}

// A disk cache of another process is read, and not written.
func TestSharedDisk(t *testing.T) {
	x, dir := store(t, false, same(20, 1000)...), t.TempDir()
	owner := mountOn(t, dir, x.src, Options{MemoryBytes: noMemory})
	x.read(t, owner.Cache, chunks(0, 10), 0, 10_000)
	owner.settle(t)
	d := openDisk(t, dir, disk.Options{Share: true})
	m := &mount{disk: d, src: hook(x.src, nil)}
	m.Cache = open(t, m.src, Options{Disk: d, MemoryBytes: noMemory})
	for range 2 {
		x.read(t, m.Cache, chunks(0, 20), 0, 20_000)
	}
	m.wantRequested(t, "read", 2, 20)
}

// The write-behind queue is bounded. Further chunks are not stored, and their memory is freed.
func TestWriteBehindIsBounded(t *testing.T) {
	x := store(t, false, same(64, 1000)...)
	m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory})
	m.fetches.mu.Lock()
	m.fetches.writes.bytes = m.fetches.writes.maxBytes
	m.fetches.mu.Unlock()
	x.read(t, m.Cache, chunks(0, 64), 0, 64_000)
	m.settle(t)
	if n, lost := m.wantGood(t, x), m.Stats().NotKept; n != 0 || lost != 64 || len(m.fetches.byXorb) != 0 {
		t.Errorf("%d chunks are kept, %d are not, %d fetches are left", n, lost, len(m.fetches.byXorb))
	}
	m.fetches.mu.Lock()
	m.fetches.writes.bytes = 0
	m.fetches.mu.Unlock()
}

// Index pages come from disk, and a page there that is not what its hash says goes.
func TestPagesOnDisk(t *testing.T) {
	s, dir := index(t, 1000, smallPages), t.TempDir()
	x := store(t, false, 1)
	read := func(what string, reads int64) {
		t.Helper()
		m := mountOn(t, dir, x.src, Options{})
		g := m.Pages(s)
		for h := range s.pages {
			if p, err := g.Page(t.Context(), h); err != nil || !bytes.Equal(p.Encoded(), s.pages[h]) {
				t.Errorf("%s: Page = %v, %v", what, p, err)
			}
		}
		if n := s.reads.Swap(0); n != reads {
			t.Errorf("%s: %d pages were requested, want %d", what, n, reads)
		}
		if st := m.Stats(); st.PageMisses != reads || st.PageDiskHits != int64(len(s.pages))-reads {
			t.Errorf("%s: stats = %+v", what, st)
		}
		m.close(t)
	}
	read("at first", int64(len(s.pages)))
	read("from disk", 0)

	d := openDisk(t, dir, disk.Options{})
	for i, h := range slices.Concat(s.leaves[:2], s.above) {
		d.DropPage(h)
		if err := d.PutPage(h, s.pages[s.leaves[i+2]]); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	read("forged", int64(2+len(s.above)))
	read("again", 0)
}

// Chunks that are read again and again stay on disk. The info of their xorb stays, too, although a
// mount reads it once. The chunks cannot be read offline without it.
func TestHotChunksOffline(t *testing.T) {
	t.Parallel()
	b := origintest.NewBuilder(t, origintest.Form{Schemes: allSchemes[:1]})
	var all []xorbSource
	for n := range 61 {
		var contents [][]byte
		for i := range 16 {
			contents = append(contents, origintest.Text(uint64(100*n+i), 64<<10))
		}
		all = append(all, xorbSource{Xorb: b.Xorb(contents...)})
	}
	store, dir := origintest.CopyOf(t, b.Store()), t.TempDir()
	again := func() *mount {
		m := &mount{disk: openDisk(t, dir, disk.Options{MaxBytes: 16 << 20})}
		m.src = hook(objects.New(store, objects.Options{Backend: m.disk}), nil)
		m.Cache = open(t, m.src, Options{MemoryBytes: noMemory, Disk: m.disk})
		return m
	}
	m, hot := again(), all[0]
	for _, x := range all[1:] {
		for range 3 {
			hot.read(t, m.Cache, chunks(0, 4), 0, 4*64<<10)
			m.settle(t)
		}
		x.read(t, m.Cache, chunks(0, 16), 0, 16*64<<10)
		m.settle(t)
	}
	m.close(t)
	for _, x := range all { // offline
		if err := store.Delete(t.Context(), x.Key()); err != nil {
			t.Fatal(err)
		}
	}
	m = again()
	defer m.close(t)
	if missing := m.Missing(hot.Hash(), chunks(0, 4)); len(missing) > 0 {
		t.Fatalf("chunks %v are not on disk", missing)
	}
	hot.read(t, m.Cache, chunks(0, 4), 0, 4*64<<10)
}
