package reconstruct

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A planMount is a Reader over a Plan, with an optional disk cache that later mounts share.
type planMount struct {
	*Reader
	c    *cache.Cache
	plan *origintest.Plan
	disk *disk.Store
}

// mountPlan opens a Reader over the files of a store until close or the end of the test. Another process may
// own the disk cache.
func mountPlan(t testing.TB, s origin.Store, dir string, o Options) *planMount {
	t.Helper()
	m := &planMount{}
	if dir != "" {
		var err error
		if m.disk, err = disk.Open(dir, disk.Options{Share: true}); err != nil {
			t.Fatal(err)
		}
		m.plan = origintest.NewPlan(objects.New(s, objects.Options{}), m.disk)
	} else {
		m.plan = origintest.NewPlan(objects.New(s, objects.Options{}), nil)
	}
	m.plan.Lengths = true
	var err error
	if m.c, err = cache.New(m.plan, cache.Options{Disk: m.disk, MemoryBytes: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	m.Reader = New(m.c, o)
	t.Cleanup(func() { m.close(t) })
	return m
}

func (m *planMount) close(t testing.TB) {
	if m.Reader == nil {
		return
	}
	m.Reader.Close()
	m.Reader = nil
	m.c.Close()
	if m.disk != nil {
		if err := m.disk.Close(); err != nil {
			t.Error(err)
		}
	}
}

// forgetChunks gives the Reader a cache without chunks.
func (m *planMount) forgetChunks(t testing.TB) {
	t.Helper()
	m.c.Close()
	var err error
	if m.c, err = cache.New(m.plan, cache.Options{Disk: m.disk, MemoryBytes: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	m.Reader.c = m.c
}

// handle opens a file until the end of the test.
func (m *planMount) handle(t testing.TB, id codec.FileID) *Handle {
	t.Helper()
	f, err := m.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	h := f.Handle()
	t.Cleanup(func() { h.Close() })
	return h
}

// scan reads a file in pieces until an error. It returns the bytes, and the error.
func scan(ctx context.Context, h readerAt, size int64) (all []byte, err error) {
	p := make([]byte, 128<<10)
	for off := int64(0); off < size; off += int64(len(p)) {
		n, err := h.ReadAt(ctx, p, off)
		all = append(all, p[:n]...)
		if err != nil && !errors.Is(err, io.EOF) {
			return all, err
		}
	}
	return all, nil
}

// sound checks that a file is read without an error and with the right bytes.
func (m *planMount) sound(t testing.TB, f *origintest.File) {
	t.Helper()
	h := m.handle(t, f.ID())
	defer h.Close()
	got, err := scan(t.Context(), h, f.Info.Size())
	if err != nil || !bytes.Equal(got, f.Bytes()) {
		t.Errorf("%d bytes, equal: %v, %v", len(got), bytes.Equal(got, f.Bytes()), err)
	}
	if v := h.File().Verified(t.Context()); v != verifiedChunk {
		t.Errorf("verified is %q after a complete read", v)
	}
}

// otherByte changes one byte of a chunk.
func otherByte(content []byte) []byte {
	content = bytes.Clone(content)
	content[len(content)/2] ^= 1
	return content
}

// wrongChunk is damage of one chunk of all answers, or of the first n if that is positive.
func wrongChunk(x codec.Hash, chunk uint32, n int64) origintest.Damage {
	var calls atomic.Int64
	return origintest.Damage{Chunk: func(y codec.Hash, i uint32, content []byte) []byte {
		if x != y || i != chunk || n > 0 && calls.Add(1) > n {
			return content
		}
		return otherByte(content)
	}}
}

const largeChunks = 80 // 5 MiB

// A file is proven when its last chunk was read, in any order, without being read again. Later
// mounts have it proven at once.
func TestUnprovenReadProvesFile(t *testing.T) {
	for _, withDisk := range []bool{false, true} {
		t.Run(fmt.Sprintf("disk=%v", withDisk), func(t *testing.T) {
			dir := ""
			if withDisk {
				dir = t.TempDir()
			}
			s, f := large(t, largeChunks)
			m := mountPlan(t, s, dir, Options{})
			h := m.handle(t, f.ID())
			want := f.Bytes()
			for i, at := range rand.New(rand.NewPCG(1, 1)).Perm(largeChunks) {
				if v := h.File().Verified(t.Context()); v != verifiedNone {
					t.Fatalf("verified is %q after %d chunks", v, i)
				}
				if err := tryRead(t.Context(), h, want, int64(at)<<16, 1<<16); err != nil {
					t.Fatal(err)
				}
			}
			if v := h.File().Verified(t.Context()); v != verifiedChunk {
				t.Errorf("verified is %q after a complete read", v)
			}
			if _, n := m.plan.Requests(); n > largeChunks+largeChunks/4 { // readahead may repeat some
				t.Errorf("%d chunks were requested for %d", n, largeChunks)
			}
			if m.plan.Holds() != 1 {
				t.Errorf("%d holds with an open handle", m.plan.Holds())
			}
			h.Close()
			if m.plan.Holds() != 0 {
				t.Errorf("%d holds without a handle", m.plan.Holds())
			}
			if !withDisk {
				return
			}
			m.close(t)
			again := mountPlan(t, s, dir, Options{Strict: true})
			again.sound(t, f)
			if calls, _ := again.plan.Requests(); calls != 0 {
				t.Errorf("%d requests of a later mount", calls)
			}
		})
	}
}

// Damage that unpacks is found by the read that completes the file. All handles of the file fail
// from then on. The next open reads the file once more.
func TestUnprovenWrongChunkIsFollowedByError(t *testing.T) {
	for _, withDisk := range []bool{false, true} {
		t.Run(fmt.Sprintf("disk=%v", withDisk), func(t *testing.T) {
			dir := ""
			if withDisk {
				dir = t.TempDir()
			}
			s, f := large(t, largeChunks)
			m := mountPlan(t, s, dir, Options{})
			m.plan.SetDamage(wrongChunk(f.Info.Terms[0].Xorb, 7, 1))
			var corrupt atomic.Int64
			m.OnCorrupt(func(codec.FileID) { corrupt.Add(1) })
			h, other := m.handle(t, f.ID()), m.handle(t, f.ID())
			p := make([]byte, 10)
			if _, err := other.ReadAt(t.Context(), p, 7<<16); err != nil {
				t.Fatal(err)
			}
			_, err := scan(t.Context(), h, f.Info.Size())
			if !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), f.Info.File.String()) || strings.Contains(err.Error(), "\n") {
				t.Errorf("a scan of a wrong file: %v", err)
			}
			for range 2 {
				for name, h := range map[string]*Handle{"the same handle": h, "another handle": other} {
					if _, err := h.ReadAt(t.Context(), p, 0); !errors.Is(err, codec.ErrCorrupt) {
						t.Errorf("%s: a later read: %v", name, err)
					}
				}
			}
			if n := corrupt.Load(); n != 1 {
				t.Errorf("%d reports", n)
			}
			m.sound(t, f)
			if withDisk {
				m.close(t)
				again := mountPlan(t, s, dir, Options{})
				again.sound(t, f)
			}
		})
	}
}

// Damage that stays is an error of each open, and no wrong byte after the first discovery. A
// repair is seen by the next open.
func TestUnprovenLastingDamage(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, t.TempDir(), Options{})
	m.plan.SetDamage(wrongChunk(f.Info.Terms[0].Xorb, 7, 0))
	if _, err := scan(t.Context(), m.handle(t, f.ID()), f.Info.Size()); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("first scan: %v", err)
	}
	for range 2 {
		if got, err := scan(t.Context(), m.handle(t, f.ID()), f.Info.Size()); !errors.Is(err, codec.ErrCorrupt) || len(got) > 0 {
			t.Errorf("a later scan: %d bytes, %v", len(got), err)
		}
	}
	m.plan.SetDamage(origintest.Damage{})
	m.sound(t, f)
}

// A small file, and each file with Strict, is fetched once, and once more if it is wrong. No wrong
// byte is returned.
func TestUnprovenGatedFiles(t *testing.T) {
	for _, tt := range []struct {
		name    string
		chunks  int
		strict  bool
		damaged int64 // answers; 0: all
		sound   bool
		fetched int // chunks
	}{
		{"small", 10, false, -1, true, 10},
		{"small, damaged once", 10, false, 1, true, 20},
		{"small, damaged", 10, false, 0, false, 20},
		{"strict", largeChunks, true, -1, true, largeChunks},
		{"strict, damaged once", largeChunks, true, 1, true, 2 * largeChunks},
		{"strict, damaged", largeChunks, true, 0, false, 2 * largeChunks},
	} {
		for _, withDisk := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, disk=%v", tt.name, withDisk), func(t *testing.T) {
				dir := ""
				if withDisk {
					dir = t.TempDir()
				}
				s, f := large(t, tt.chunks)
				m := mountPlan(t, s, dir, Options{Strict: tt.strict})
				if tt.damaged >= 0 {
					m.plan.SetDamage(wrongChunk(f.Info.Terms[0].Xorb, 7, tt.damaged))
				}
				var readers sync.WaitGroup
				for range 4 {
					h := m.handle(t, f.ID())
					readers.Go(func() {
						got, err := scan(t.Context(), h, f.Info.Size())
						if !bytes.Equal(got, f.Bytes()[:len(got)]) {
							t.Error("a wrong byte was returned")
						}
						if tt.sound != (err == nil) || err != nil && !errors.Is(err, codec.ErrCorrupt) {
							t.Errorf("scan: %v", err)
						}
					})
				}
				readers.Wait()
				most := tt.fetched
				if tt.strict { // the disk cache may refuse chunks
					most += largeChunks
				}
				if _, n := m.plan.Requests(); tt.sound && (withDisk || !tt.strict) && (n < tt.fetched || n > most) {
					t.Errorf("%d chunks were requested, want %d to %d", n, tt.fetched, most)
				}
				m.plan.SetDamage(origintest.Damage{})
				m.sound(t, f)
			})
		}
	}
}

// A plan with other terms is refused, also if all of its chunks are proven by other files.
func TestUnprovenWrongPlan(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	x := b.Xorb(pattern(largeChunks, 64<<10)...)
	first, second := b.File(x.Term(0, 75)), b.File(x.Term(5, 80))
	s := b.Store()
	for name, wrong := range map[string]func(fi *shard.FileInfo){
		"chunks of another file": func(fi *shard.FileInfo) { fi.Terms[0].Chunks = codec.ChunkRange{End: 75} },
		"too many chunks":        func(fi *shard.FileInfo) { fi.Terms[0].Chunks.End = 8192 },
		"backwards":              func(fi *shard.FileInfo) { fi.Terms[0].Chunks = codec.ChunkRange{Start: 9, End: 3} },
		"another size":           func(fi *shard.FileInfo) { fi.Terms[0].Size-- },
		"another xorb":           func(fi *shard.FileInfo) { fi.Terms[0].Xorb[0] ^= 1 },
	} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, strict=%v", name, strict), func(t *testing.T) {
				m := mountPlan(t, s, t.TempDir(), Options{Strict: strict})
				m.sound(t, first)
				m.plan.SetDamage(origintest.Damage{Plan: func(fi *shard.FileInfo) *shard.FileInfo {
					if fi.File == second.Info.File {
						fi.Terms = slices.Clone(fi.Terms)
						wrong(fi)
					}
					return fi
				}})
				got, err := m.tryScan(t, second)
				if err == nil || strict && len(got) > 0 {
					t.Errorf("a wrong plan: %d bytes, %v", len(got), err)
				}
				calls, _ := m.plan.Requests()
				m.sound(t, first) // its chunks stay
				if again, _ := m.plan.Requests(); again != calls {
					t.Errorf("%d requests for chunks that another file has proven", again-calls)
				}
				m.plan.SetDamage(origintest.Damage{})
				m.sound(t, second)
			})
		}
	}
}

// A wrong answer makes a mount drop the plan of a proven file. If the next plan is wrong, no reader
// gets a wrong byte.
func TestUnprovenNextPlanOfProvenFile(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	x := b.Xorb(pattern(largeChunks, 64<<10)...)
	f := b.File(x.Term(5, 80))
	m := mountPlan(t, b.Store(), "", Options{})
	m.sound(t, f)
	m.forgetChunks(t)
	m.plan.SetDamage(origintest.Damage{Bytes: func(_ codec.Hash, _ codec.ChunkRange, packed []byte) { packed[100] ^= 1 }})
	if _, err := m.tryScan(t, f); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("damaged chunks: %v", err)
	}
	m.plan.SetDamage(origintest.Damage{Plan: func(fi *shard.FileInfo) *shard.FileInfo {
		fi.Terms = slices.Clone(fi.Terms)
		fi.Terms[0].Chunks = codec.ChunkRange{End: 75}
		return fi
	}})
	if got, err := m.tryScan(t, f); len(got) > 0 || !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a wrong plan: %d bytes, %v", len(got), err)
	}
	m.plan.SetDamage(origintest.Damage{})
	m.sound(t, f)
}

// The plan that was proven last is the one that later opens may use without a proof.
func TestUnprovenPlanReplacesProvenPlan(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, "", Options{})
	proveAndForget := func() {
		file, err := m.Open(t.Context(), f.ID())
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Prove(t.Context()); err != nil {
			t.Fatal(err)
		}
		file.forgetAfter(codec.ErrCorrupt)
	}
	proveAndForget()
	m.plan.SetDamage(origintest.Damage{Plan: inHalves})
	proveAndForget()
	file, err := m.Open(t.Context(), f.ID())
	if err != nil || file.gated {
		t.Errorf("gated: %v, %v", file.gated, err)
	}
}

// inHalves returns a plan with the same chunks, in two terms.
func inHalves(fi *shard.FileInfo) *shard.FileInfo {
	first, second := fi.Terms[0], fi.Terms[0]
	first.Chunks.End, first.Size = largeChunks/2, first.Size/2
	second.Chunks.Start, second.Size = largeChunks/2, second.Size/2
	fi.Terms = []codec.Term{first, second}
	return fi
}

// A failed read drops a file, whose handles stay. The reads of a later open count together with those
// before, since the kernel has pages of both.
func TestUnprovenOpenAfterFailedRead(t *testing.T) {
	const half = largeChunks / 2 << 16
	for name, c := range map[string]struct {
		err     error // of the failed read
		plan    func(fi *shard.FileInfo) *shard.FileInfo
		oldErr  string // of the first handle, after the second one was opened
		lastErr string // of the read that completes the file
	}{
		"same plan":   {err: origin.ErrNotFound, lastErr: "its chunks make file"},
		"unavailable": {err: origin.ErrUnavailable, lastErr: "its chunks make file"},
		"other plan":  {err: origin.ErrNotFound, plan: inHalves, oldErr: "opened again"},
		"corrupt":     {err: codec.ErrCorrupt, lastErr: "its chunks make file"},
	} {
		t.Run(name, func(t *testing.T) {
			b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
			x := b.Xorb(pattern(largeChunks, 64<<10)...)
			f := b.File(x.Term(0, largeChunks))
			m := mountPlan(t, b.Store(), "", Options{})
			var fails atomic.Bool
			m.plan.Before = func(context.Context, codec.Hash, codec.ChunkRange) error {
				if fails.Load() {
					return c.err
				}
				return nil
			}
			damage := wrongChunk(x.Hash(), 5, 0)
			m.plan.SetDamage(damage)
			first := m.handle(t, f.ID()).File() // without readahead
			got, err := scan(t.Context(), first, half)
			if err != nil || bytes.Equal(got, f.Bytes()[:half]) {
				t.Fatalf("the first half is right, or %v", err)
			}
			fails.Store(true)
			p := make([]byte, 1<<16)
			if _, err := first.ReadAt(t.Context(), p, 3<<20); !errors.Is(err, c.err) {
				t.Errorf("the failed read: %v", err)
			}
			fails.Store(false)
			damage.Plan = c.plan
			if m.plan.SetDamage(damage); c.plan != nil {
				m.plan.SetDamage(origintest.Damage{Plan: c.plan})
			}
			second := m.handle(t, f.ID()).File()
			if _, err := first.ReadAt(t.Context(), p, 0); c.oldErr == "" && err != nil || c.oldErr != "" && (err == nil || !strings.Contains(err.Error(), c.oldErr)) {
				t.Errorf("the first handle after the second open: %v", err)
			}
			for off := int64(half); off < f.Info.Size() && err == nil; off += int64(len(p)) {
				_, err = second.ReadAt(t.Context(), p, off)
			}
			switch {
			case c.lastErr == "" && err != nil, c.lastErr != "" && (err == nil || !strings.Contains(err.Error(), c.lastErr)):
				t.Errorf("the second half: %v", err)
			}
		})
	}
}

// The plan of an open file is requested again if its terms left the memory. Other terms of the same size
// are an error of the file.
func TestUnprovenPlanChangesWhileOpen(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true})
	x := b.Xorb(pattern(largeChunks, 64<<10)...)
	f := b.File(x.Term(0, largeChunks))
	m := mountPlan(t, b.Store(), "", Options{})
	h := m.handle(t, f.ID())
	p := make([]byte, 1<<16)
	if _, err := h.ReadAt(t.Context(), p, 0); err != nil {
		t.Fatal(err)
	}
	m.plan.SetDamage(origintest.Damage{Plan: inHalves})
	h.f.only.Store(nil)
	if _, err := h.ReadAt(t.Context(), p, 60<<16); !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), "has changed since") {
		t.Errorf("a read by the next plan: %v", err)
	}
	m.sound(t, f)
}

// The server stores a file in another xorb while it is open. Its readers get the new plan, unless they got
// unproven bytes.
func TestUnprovenOtherXorbWhileOpen(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	chunks := pattern(largeChunks, 64<<10)
	x, y := b.Xorb(chunks...), b.Xorb(append(pattern(1, 1<<10), chunks...)...)
	f := b.File(x.Term(0, largeChunks))
	s := b.Store()
	for name, c := range map[string]struct {
		read   int64 // bytes before the change
		strict bool
		fails  bool
	}{
		"nothing was read": {},
		"a part was read":  {read: 1 << 20, fails: true},
		"all was read":     {read: f.Info.Size()},
		"strict":           {read: 1 << 20, strict: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := mountPlan(t, s, "", Options{Strict: c.strict})
			h := m.handle(t, f.ID()).File() // without readahead
			if _, err := scan(t.Context(), h, c.read); err != nil {
				t.Fatal(err)
			}
			m.forgetChunks(t)
			m.plan.Before = func(_ context.Context, of codec.Hash, _ codec.ChunkRange) error {
				if of == x.Hash() {
					return origin.ErrNotFound
				}
				return nil
			}
			m.plan.SetDamage(origintest.Damage{Plan: func(fi *shard.FileInfo) *shard.FileInfo {
				fi.Terms = []codec.Term{{Xorb: y.Hash(), Chunks: codec.ChunkRange{Start: 1, End: 1 + largeChunks}, Size: uint32(f.Info.Size())}}
				return fi
			}})
			got, err := scan(t.Context(), h, f.Info.Size())
			if c.fails != (err != nil) {
				t.Errorf("after the change: %v", err)
			}
			if !bytes.HasPrefix(f.Bytes(), got) || err == nil && len(got) < len(f.Bytes()) {
				t.Errorf("after the change: %d bytes, or wrong ones", len(got))
			}
			m.open.byID.Remove(f.ID()) // as if many files were opened
			if again := m.handle(t, f.ID()).File(); !c.fails && again != h.current() {
				t.Error("another open has a tracker of its own")
			}
			m.sound(t, f)
		})
	}
}

// A proven file whose server names a wrong plan for a while remains readable by the former one.
func TestUnprovenWrongPlanWhileOpen(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	chunks := pattern(2*largeChunks, 64<<10)
	x, y := b.Xorb(chunks[:largeChunks]...), b.Xorb(chunks[largeChunks:]...)
	f, other := b.File(x.Term(0, largeChunks)), b.File(y.Term(0, largeChunks))
	for name, lie := range map[string]codec.Term{
		"chunks of a proven file": other.Info.Terms[0],
		"no such xorb":            {Xorb: codec.Hash{1}, Chunks: codec.ChunkRange{End: 1}, Size: uint32(f.Info.Size())},
	} {
		t.Run(name, func(t *testing.T) {
			m := mountPlan(t, b.Store(), "", Options{})
			m.sound(t, other)
			h := m.handle(t, f.ID()).File() // without readahead
			read := func() error {
				got, err := scan(t.Context(), h, f.Info.Size())
				if !bytes.HasPrefix(f.Bytes(), got) || err == nil && len(got) < len(f.Bytes()) {
					t.Errorf("%d bytes, or wrong ones", len(got))
				}
				return err
			}
			if err := read(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				m.forgetChunks(t)
				m.plan.Before = func(_ context.Context, of codec.Hash, _ codec.ChunkRange) error {
					if of == x.Hash() {
						return origin.ErrNotFound
					}
					return nil
				}
				m.plan.SetDamage(origintest.Damage{Plan: func(fi *shard.FileInfo) *shard.FileInfo {
					if fi.File == f.Info.File {
						fi.Terms = []codec.Term{lie}
					}
					return fi
				}})
				for range 2 {
					if err := read(); err == nil {
						t.Error("a wrong plan: no error")
					}
				}
				m.plan.Before = nil
				m.plan.SetDamage(origintest.Damage{})
				if err := read(); err != nil {
					t.Errorf("the former plan again: %v", err)
				}
			}
		})
	}
}

// Chunks of a server that lied stay on disk if no reader got the whole file. Later mounts request
// them again.
func TestUnprovenChunksOfEarlierMount(t *testing.T) {
	s, f := large(t, largeChunks)
	dir, p := t.TempDir(), make([]byte, 8<<16)
	read := func(m *planMount) []byte {
		if _, err := m.handle(t, f.ID()).ReadAt(t.Context(), p, 10<<16); err != nil {
			t.Fatal(err)
		}
		return p
	}
	m := mountPlan(t, s, dir, Options{})
	m.plan.SetDamage(origintest.Damage{Chunk: func(_ codec.Hash, i uint32, content []byte) []byte { return otherByte(content) }})
	if bytes.Equal(read(m), f.Bytes()[10<<16:][:len(p)]) {
		t.Error("the chunks are not damaged")
	}
	m.close(t)
	for range 2 {
		m = mountPlan(t, s, dir, Options{})
		if n, err := m.CachedPercent(t.Context(), f.ID()); n != 0 || err != nil {
			t.Errorf("%d %% of the file need no request, %v", n, err)
		}
		for range 2 {
			if !bytes.Equal(read(m), f.Bytes()[10<<16:][:len(p)]) {
				t.Error("a later mount returned chunks of the server that lied")
			}
		}
		m.close(t)
	}
	m = mountPlan(t, s, dir, Options{})
	m.sound(t, f)
}

// tryScan opens and reads a file.
func (m *planMount) tryScan(t testing.TB, f *origintest.File) ([]byte, error) {
	file, err := m.Open(t.Context(), f.ID())
	if err != nil {
		return nil, err
	}
	h := file.Handle()
	defer h.Close()
	return scan(t.Context(), h, f.Info.Size())
}

// A file with a hash of its content is proven by one reading through the cache.
func TestUnprovenContentHash(t *testing.T) {
	for _, chunks := range []int{3, largeChunks} {
		for _, right := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d chunks, right=%v", chunks, right), func(t *testing.T) {
				s, f := large(t, chunks)
				sum := sha1.Sum(f.Bytes())
				sum[0] ^= map[bool]byte{true: 0, false: 1}[right]
				dir := t.TempDir()
				open := func() *planMount {
					m := mountPlan(t, s, dir, Options{})
					m.plan.Content = func(codec.FileID) (hash.Hash, []byte, error) { return sha1.New(), sum[:], nil }
					return m
				}
				m := open()
				if !right {
					if got, err := m.tryScan(t, f); !errors.Is(err, codec.ErrCorrupt) || chunks < 64 && len(got) > 0 {
						t.Errorf("%d bytes, %v", len(got), err)
					}
					return
				}
				m.sound(t, f)
				m.close(t)
				m = open()
				m.sound(t, f)
				if calls, _ := m.plan.Requests(); calls != 0 {
					t.Errorf("%d requests of a later mount", calls)
				}
			})
		}
	}
}

// A failed look-up of the hash of a content is an error of reads. The file is not wrong then, and
// later reads of the same handle succeed.
func TestUnprovenContentHashUnavailable(t *testing.T) {
	for _, chunks := range []int{3, largeChunks} {
		t.Run(fmt.Sprintf("%d chunks", chunks), func(t *testing.T) {
			s, f := large(t, chunks)
			sum := sha1.Sum(f.Bytes())
			m := mountPlan(t, s, "", Options{})
			var isMissing atomic.Bool
			m.plan.Content = func(codec.FileID) (hash.Hash, []byte, error) {
				if isMissing.Load() {
					return nil, nil, origin.ErrUnavailable
				}
				return sha1.New(), sum[:], nil
			}
			m.OnCorrupt(func(codec.FileID) { t.Error("the file is reported as corrupt") })
			isMissing.Store(true)
			h := m.handle(t, f.ID())
			if _, err := scan(t.Context(), h, f.Info.Size()); !errors.Is(err, origin.ErrUnavailable) || errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("a scan without the hash: %v", err)
			}
			if _, err := io.Copy(io.Discard, h.File().VerifyReader(t.Context(), nil)); !errors.Is(err, origin.ErrUnavailable) || errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("a VerifyReader without the hash: %v", err)
			}
			if m.isSuspect(f.ID()) {
				t.Error("the file is suspect")
			}
			isMissing.Store(false)
			got, err := scan(t.Context(), h, f.Info.Size())
			if err != nil || !bytes.Equal(got, f.Bytes()) {
				t.Errorf("a scan with the hash: %d bytes, %v", len(got), err)
			}
		})
	}
}

// Checks of files that were read completely take turns, if they read the files again. A small memory
// allows fewer of them.
func TestUnprovenChecksAreLimited(t *testing.T) {
	const files = maxLargeProofs + 2
	for ahead, most := range map[int64]int64{0: maxLargeProofs, 2 * proofAhead: 2, 1: 1} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) { checkProofs(t, files, most, Options{Ahead: ahead}) })
	}
}

// checkProofs fails the test unless most checks of a number of files run at once.
func checkProofs(t *testing.T, files int, most int64, o Options) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
	sums := map[codec.Hash][]byte{}
	var all []*origintest.File
	for i := range files {
		f := b.File(b.Xorb(pattern(files*largeChunks, 64<<10)[i*largeChunks:][:largeChunks]...).All())
		sum := sha1.Sum(f.Bytes())
		all, sums[f.Info.File] = append(all, f), sum[:]
	}
	s := b.Store()
	synctest.Test(t, func(t *testing.T) {
		m := mountPlan(t, s, "", o)
		m.plan.Content = func(id codec.FileID) (hash.Hash, []byte, error) { return sha1.New(), sums[id.File], nil }
		var isChecking atomic.Bool
		var blocked atomic.Int64 // checks that wait for the first chunks
		proceed := make(chan struct{})
		m.plan.Before = func(ctx context.Context, _ codec.Hash, r codec.ChunkRange) error {
			if !isChecking.Load() || r.Start != 0 {
				return nil
			}
			blocked.Add(1)
			defer blocked.Add(-1)
			select {
			case <-proceed:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		const last = (largeChunks - 2) << 16
		var handles []*Handle
		for _, f := range all {
			h := m.handle(t, f.ID())
			if _, err := scan(t.Context(), h, last); err != nil {
				t.Fatal(err)
			}
			handles = append(handles, h)
		}
		isChecking.Store(true)
		var readers sync.WaitGroup
		for i, h := range handles {
			readers.Go(func() {
				if err := tryRead(t.Context(), h, all[i].Bytes(), last, 2<<16); err != nil {
					t.Errorf("the last read of file %d: %v", i, err)
				}
			})
		}
		for left := int64(files); left > 0; left-- {
			synctest.Wait()
			if n := blocked.Load(); n != min(left, most) {
				t.Fatalf("%d checks at once with %d files left", n, left)
			}
			proceed <- struct{}{}
		}
		readers.Wait()
	})
}

// A mount that ended between seen and proven leaves nothing proven. With Options.Strict, the next one
// proves the chunks on disk. Otherwise it requests them again, because some may be wrong.
func TestUnprovenCrashBeforeProof(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("damaged=%v, strict=%v", damaged, strict), func(t *testing.T) {
				dir := t.TempDir()
				s, f := large(t, largeChunks)
				m := mountPlan(t, s, dir, Options{})
				if damaged {
					m.plan.SetDamage(wrongChunk(f.Info.Terms[0].Xorb, 7, 0))
				}
				h := m.handle(t, f.ID())
				if _, err := scan(t.Context(), h, 70<<16); err != nil {
					t.Fatal(err)
				}
				h.Close()
				m.close(t)
				m = mountPlan(t, s, dir, Options{Strict: strict})
				if v := m.handle(t, f.ID()).File().Verified(t.Context()); v != verifiedNone {
					t.Errorf("verified is %q after a crash", v)
				}
				m.sound(t, f)
				most := largeChunks
				switch {
				case damaged && strict:
					most = 2*largeChunks - 70
				case strict:
					most = largeChunks - 70
				}
				if _, n := m.plan.Requests(); n > most {
					t.Errorf("%d chunks were requested, more than %d", n, most)
				}
				m.close(t)
				m = mountPlan(t, s, dir, Options{})
				m.sound(t, f)
				if _, n := m.plan.Requests(); n > 0 {
					t.Errorf("%d chunks were requested by a mount after the proof", n)
				}
			})
		}
	}
}

// Bits flip in one of 100 answers during a scan of many files. Small files, and all with Strict,
// never have a wrong byte. Each other wrong byte is followed by an error. A later mount on the
// same disk cache, with a sound source, reads all files correctly.
func TestUnprovenFlippedAnswers(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 40})
	for i := range 30 {
		b.Add(origintest.Random(uint64(i), 300_000), 20_000)
	}
	for i := range 6 {
		b.Add(origintest.Random(uint64(100+i), smallFile+100_000), 60_000)
	}
	s := b.Store()
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict=%v", strict), func(t *testing.T) {
			dir := t.TempDir()
			m := mountPlan(t, s, dir, Options{Strict: strict})
			m.plan.SetDamage(flips(20))
			wrong, failed := 0, 0
			for range 3 {
				for _, f := range b.Files {
					got, err := m.tryScan(t, f)
					if !bytes.Equal(got, f.Bytes()[:len(got)]) {
						wrong++
						if err == nil || strict || f.Info.Size() <= smallFile {
							t.Errorf("wrong bytes of a file of %d bytes, strict %v: %v", f.Info.Size(), strict, err)
						}
					}
					if err != nil {
						failed++
					}
				}
			}
			t.Logf("%d scans with wrong bytes, %d failed", wrong, failed)
			m.close(t)
			again := mountPlan(t, s, dir, Options{Strict: strict})
			for _, f := range b.Files {
				got, err := again.tryScan(t, f)
				if err != nil { // found on disk
					got, err = again.tryScan(t, f)
				}
				if err != nil || !bytes.Equal(got, f.Bytes()) {
					t.Errorf("a later mount: %d bytes, %v", len(got), err)
				}
			}
		})
	}
}

// flips changes a byte of one chunk in about one of n answers.
func flips(n int) origintest.Damage {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(7, 7))
	return origintest.Damage{Chunk: func(_ codec.Hash, _ uint32, content []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(5*n) > 0 {
			return content
		}
		return otherByte(content)
	}}
}

// Each place of a small xorb is damaged, one at a time. No wrong byte is returned, and the next
// reader with a sound source reads the file.
func TestUnprovenEveryPlaceDamaged(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(slices.Concat(origintest.Text(1, 60_000), origintest.Random(2, 60_000), origintest.Floats(3, 60_000)), 20_000)
	s := b.Store()
	size := int64(0)
	for _, x := range b.Xorbs {
		size += int64(len(x.Bytes))
	}
	for at := int64(0); at < size; at += 4096 {
		for _, again := range []bool{false, true} {
			m := mountPlan(t, s, "", Options{})
			var calls atomic.Int64
			m.plan.SetDamage(origintest.Damage{Bytes: func(x codec.Hash, r codec.ChunkRange, packed []byte) {
				if (calls.Add(1) == 1 || again) && at < int64(len(packed)) {
					packed[at] ^= 0x10
				}
			}})
			got, err := m.tryScan(t, f)
			if !bytes.Equal(got, f.Bytes()[:len(got)]) {
				t.Errorf("byte %d: a wrong byte was returned, %v", at, err)
			}
			if !again && err != nil {
				t.Errorf("byte %d, once: %v", at, err)
			}
			m.plan.SetDamage(origintest.Damage{})
			m.sound(t, f)
			m.close(t)
		}
	}
}

// A killed reader of a gated file leaves at once. The others get the file.
func TestUnprovenKilledReaderLeaves(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, "", Options{Strict: true})
	arrived, proceed := make(chan struct{}, 100), make(chan struct{})
	m.plan.Before = func(ctx context.Context, _ codec.Hash, _ codec.ChunkRange) error {
		arrived <- struct{}{}
		select {
		case <-proceed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, kill := context.WithCancel(t.Context())
	killed, h := m.handle(t, f.ID()), m.handle(t, f.ID())
	if !h.NeedsProof() {
		t.Error("a read of a gated file would not wait for its proof")
	}
	var other sync.WaitGroup
	other.Go(func() {
		if got, err := scan(t.Context(), h, f.Info.Size()); err != nil || !bytes.Equal(got, f.Bytes()) {
			t.Errorf("the other reader: %d bytes, %v", len(got), err)
		}
	})
	<-arrived
	kill()
	if _, err := killed.ReadAt(ctx, make([]byte, 10), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("the killed reader: %v", err)
	}
	close(proceed)
	other.Wait()
	if h.NeedsProof() {
		t.Error("a read of a proven file would wait for its proof")
	}
}

// VerifyReader, Materialize and Prove prove the chunks that they read.
func TestUnprovenWholeReadsProve(t *testing.T) {
	for name, read := range map[string]func(t *testing.T, m *planMount, f *origintest.File) error{
		"VerifyReader": func(t *testing.T, m *planMount, f *origintest.File) error {
			file, err := m.Open(t.Context(), f.ID())
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, file.VerifyReader(t.Context(), nil))
			return err
		},
		"Materialize": func(t *testing.T, m *planMount, f *origintest.File) error {
			return m.Materialize(t.Context(), f.ID(), nil, func(int64) {})
		},
		"Prove": func(t *testing.T, m *planMount, f *origintest.File) error {
			file, err := m.Open(t.Context(), f.ID())
			if err != nil {
				return err
			}
			return file.Prove(t.Context())
		},
	} {
		for _, chunks := range []int{10, largeChunks} {
			t.Run(fmt.Sprintf("%s, %d chunks", name, chunks), func(t *testing.T) {
				s, f := large(t, chunks)
				m := mountPlan(t, s, t.TempDir(), Options{})
				m.plan.SetDamage(wrongChunk(f.Info.Terms[0].Xorb, 7, 0))
				if err := read(t, m, f); !errors.Is(err, codec.ErrCorrupt) {
					t.Errorf("of a wrong file: %v", err)
				}
				m.plan.SetDamage(origintest.Damage{})
				if err := read(t, m, f); err != nil {
					t.Error(err)
				}
				if v := m.handle(t, f.ID()).File().Verified(t.Context()); v != verifiedChunk {
					t.Errorf("verified is %q", v)
				}
				m.sound(t, f)
			})
		}
	}
}

// A proven file stays usable when a later whole read of it misses chunks or gets damaged ones.
func TestUnprovenFailedWholeReadOfProvenFile(t *testing.T) {
	for _, strict := range []bool{false, true} {
		for _, want := range []error{origin.ErrNotFound, codec.ErrCorrupt} {
			t.Run(fmt.Sprintf("strict=%v, %v", strict, want), func(t *testing.T) {
				s, f := large(t, largeChunks)
				m := mountPlan(t, s, "", Options{Strict: strict})
				m.OnCorrupt(func(codec.FileID) { t.Error("the file is reported as corrupt") })
				h := m.handle(t, f.ID())
				if _, err := scan(t.Context(), h, f.Info.Size()); err != nil || !h.File().isProven() {
					t.Fatalf("proven %v, %v", h.File().isProven(), err)
				}
				m.forgetChunks(t)
				m.plan.Before = func(context.Context, codec.Hash, codec.ChunkRange) error { return want }
				if _, err := io.Copy(io.Discard, newVerifyReader(t.Context(), h.File(), nil)); !errors.Is(err, want) {
					t.Errorf("the whole read: %v", err)
				}
				m.plan.Before = nil
				if err := tryRead(t.Context(), h, f.Bytes(), 0, 10); err != nil {
					t.Errorf("a later read: %v", err)
				}
				if m.isSuspect(f.ID()) {
					t.Error("the file is suspect")
				}
				m.sound(t, f)
			})
		}
	}
}

// The check of a sound file misses chunks or gets damaged ones, whose hashes were forgotten. Its reader gets
// the error, and a later read checks the file again.
func TestUnprovenFailedCheck(t *testing.T) {
	for _, want := range []error{origin.ErrNotFound, codec.ErrCorrupt} {
		t.Run(want.Error(), func(t *testing.T) {
			s, f := large(t, largeChunks)
			m := mountPlan(t, s, "", Options{})
			m.OnCorrupt(func(codec.FileID) { t.Error("the file is reported as corrupt") })
			file := m.handle(t, f.ID()).File() // without readahead
			const last = (largeChunks - 2) << 16
			if _, err := scan(t.Context(), file, last); err != nil {
				t.Fatal(err)
			}
			m.forgetChunks(t)
			m.plan.Before = func(_ context.Context, _ codec.Hash, r codec.ChunkRange) error {
				if r.Start < largeChunks-2 {
					return want
				}
				return nil
			}
			if err := tryRead(t.Context(), file, f.Bytes(), last, 2<<16); !errors.Is(err, want) {
				t.Errorf("the last read: %v", err)
			}
			m.plan.Before = nil
			if err := tryRead(t.Context(), file, f.Bytes(), 0, 10); err != nil || !file.isProven() {
				t.Errorf("a later read: %v, proven: %v", err, file.isProven())
			}
			if m.isSuspect(f.ID()) {
				t.Error("the file is suspect")
			}
		})
	}
}

// A proof that misses chunks or gets damaged ones returns the error. The file stays usable for its readers.
func TestUnprovenFailedProof(t *testing.T) {
	for _, want := range []error{origin.ErrNotFound, codec.ErrCorrupt} {
		t.Run(want.Error(), func(t *testing.T) {
			s, f := large(t, largeChunks)
			m := mountPlan(t, s, "", Options{})
			m.OnCorrupt(func(codec.FileID) { t.Error("the file is reported as corrupt") })
			file := m.handle(t, f.ID()).File() // without readahead
			m.plan.Before = func(context.Context, codec.Hash, codec.ChunkRange) error { return want }
			if err := file.Prove(t.Context()); !errors.Is(err, want) {
				t.Errorf("the proof: %v", err)
			}
			m.plan.Before = nil
			if err := tryRead(t.Context(), file, f.Bytes(), 0, 10); err != nil {
				t.Errorf("a later read: %v", err)
			}
			if err := file.Prove(t.Context()); err != nil || !file.isProven() {
				t.Errorf("a later proof: %v, proven: %v", err, file.isProven())
			}
		})
	}
}

// One damaged answer fails one read. A later open of the file does not end the handle of that read.
func TestUnprovenOpenAfterDamagedAnswer(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, "", Options{})
	first := m.handle(t, f.ID()).File() // without readahead
	if err := tryRead(t.Context(), first, f.Bytes(), 0, 10); err != nil {
		t.Fatal(err)
	}
	m.plan.SetDamage(origintest.Damage{Bytes: func(_ codec.Hash, _ codec.ChunkRange, packed []byte) { packed[0] ^= 1 }})
	if err := tryRead(t.Context(), first, f.Bytes(), 7<<16, 10); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("the damaged read: %v", err)
	}
	m.plan.SetDamage(origintest.Damage{})
	second := m.handle(t, f.ID()).File()
	for name, file := range map[string]*File{"first": first, "second": second} {
		if got, err := scan(t.Context(), file, f.Info.Size()); err != nil || !bytes.Equal(got, f.Bytes()) {
			t.Errorf("a scan of the %s handle: %d bytes, %v", name, len(got), err)
		}
	}
	if second != first {
		t.Error("the second open returned another file")
	}
}

// A gated file that was wrong at first is materialized with the chunks of the second fetch.
func TestUnprovenMaterializeAfterSecondFetch(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, t.TempDir(), Options{Materialize: MaterializeAuto, Strict: true})
	m.plan.SetDamage(wrongChunk(f.Info.Terms[0].Xorb, 7, 1))
	m.sound(t, f)
	m.materializer.running.Wait()
	if !m.disk.HasFile(f.Info.File) || m.isSuspect(f.ID()) {
		t.Errorf("materialized: %v, suspect: %v", m.disk.HasFile(f.Info.File), m.isSuspect(f.ID()))
	}
}

// A file whose SHA-256 is known is materialized without computing the SHA-256 again.
func TestUnprovenMaterializeUsesKnownSHA256(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, t.TempDir(), Options{Materialize: MaterializeAuto})
	m.ProveSHA256(f.Info.File, [32]byte{1})
	if _, err := scan(t.Context(), m.handle(t, f.ID()), f.Info.Size()); err != nil {
		t.Fatal(err)
	}
	m.materializer.running.Wait()
	if !m.disk.HasFile(f.Info.File) {
		t.Error("the file is not materialized")
	}
	if got, ok := m.c.SHA256(f.Info.File); ok {
		t.Errorf("the SHA-256 %x was computed", got)
	}
}

// Many readers of many files that share chunks, with random damage: each wrong byte is followed by
// an error of its handle.
func TestUnprovenConcurrentDamage(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 50})
	x := b.Xorb(pattern(200, 64<<10)...)
	for i := range 6 {
		b.File(x.Term(10*i, 100+10*i))
	}
	s := b.Store()
	m := mountPlan(t, s, t.TempDir(), Options{})
	m.plan.SetDamage(flips(40))
	var readers sync.WaitGroup
	for i := range 12 {
		f := b.Files[i%len(b.Files)]
		readers.Go(func() {
			for range 3 {
				got, err := m.tryScan(t, f)
				if !bytes.Equal(got, f.Bytes()[:len(got)]) && err == nil {
					t.Error("wrong bytes without an error")
				}
			}
		})
	}
	readers.Wait()
	m.plan.SetDamage(origintest.Damage{})
	for _, f := range b.Files {
		if _, err := m.tryScan(t, f); err != nil {
			m.sound(t, f)
		}
	}
}

// A file of very many terms, which are read in groups, is proven like others.
func TestUnprovenLargeFile(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true})
	x := b.Xorb(origintest.Random(1, 1000), origintest.Random(2, 1100), origintest.Random(3, 1200))
	terms := make([]origintest.Term, origin.MaxTerms+500)
	for i := range terms {
		terms[i] = x.Term(2*i%3, 2*i%3+1)
	}
	f := b.File(terms...)
	s, id := b.Store(), b.IDs()[0]
	dir := t.TempDir()
	for _, damaged := range []bool{true, false} {
		m := mountPlan(t, s, dir, Options{})
		if damaged {
			m.plan.SetDamage(wrongChunk(x.Hash(), 1, 1))
		}
		file, err := m.Open(t.Context(), id)
		if err != nil || file.large == nil || file.Size() <= smallFile {
			t.Fatalf("%v, or not a large file", err)
		}
		h := file.Handle()
		got, err := scan(t.Context(), h, file.Size())
		h.Close()
		if damaged != (err != nil) || !damaged && !bytes.Equal(got, f.Bytes()) {
			t.Errorf("damaged %v: %d bytes, %v", damaged, len(got), err)
		}
		if v := file.Verified(t.Context()); !damaged && v != verifiedChunk {
			t.Errorf("verified is %q", v)
		}
		m.close(t)
	}
}

// Proven hashes that contradict the source are dropped, because a wrong plan may have named their
// xorb. The hash of the file decides, at the next open.
func TestUnprovenContradiction(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, "", Options{})
	term := f.Info.Terms[0]
	for _, chunk := range []uint32{7, 40} {
		wrong := origin.ChunkHashes{Xorb: term.Xorb, Start: chunk, Leaves: []merkle.Leaf{{Hash: codec.Hash{1}, Size: 64 << 10}}}
		m.c.Prove([]origin.ChunkHashes{wrong})
	}
	if _, err := m.tryScan(t, f); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a chunk that contradicts its proven hash: %v", err)
	}
	m.sound(t, f)
}

// More files than there is room for are proven at the same time, also if all of them are wrong at
// first.
func TestUnprovenManyProofs(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 60})
	for i := range 3 * maxLargeProofs {
		b.Add(origintest.Random(uint64(i), smallFile+10_000+i), 100_000)
	}
	m := mountPlan(t, b.Store(), t.TempDir(), Options{})
	var first sync.Map
	m.plan.SetDamage(origintest.Damage{Chunk: func(x codec.Hash, i uint32, content []byte) []byte {
		if _, known := first.LoadOrStore(x, true); known || i > 0 {
			return content
		}
		return otherByte(content)
	}})
	var proofs sync.WaitGroup
	for _, f := range b.Files {
		proofs.Go(func() {
			file, err := m.Open(t.Context(), f.ID())
			if err == nil {
				err = file.Prove(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	proofs.Wait()
	for _, f := range b.Files {
		m.sound(t, f)
	}
}

// A wrong chunk that is too long hides the next one, which no reader gets then. The whole read fails.
func TestUnprovenHiddenChunk(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, "", Options{})
	m.plan.SetDamage(origintest.Damage{
		Chunk: func(_ codec.Hash, i uint32, content []byte) []byte {
			if i == 10 {
				return otherByte(f.Bytes()[10<<16:][:2<<16])
			}
			return content
		},
		Narrow: func(p codec.Piece, r codec.ChunkRange, skip int64) (codec.ChunkRange, int64) {
			if r.Contains(codec.ChunkRange{Start: 11, End: 12}) {
				return codec.ChunkRange{Start: 10, End: 11}, p.Skip - 10<<16
			}
			return r, skip
		},
	})
	got, err := scan(t.Context(), m.handle(t, f.ID()), f.Info.Size())
	if !errors.Is(err, codec.ErrCorrupt) || len(got) < len(f.Bytes())-128<<10 {
		t.Errorf("%d of %d bytes, equal: %v, %v", len(got), len(f.Bytes()), bytes.Equal(got, f.Bytes()), err)
	}
}

// Chunks on disk with other borders than those of the terms are dropped without an error.
func TestUnprovenMisfitLeavesDisk(t *testing.T) {
	s, f := large(t, largeChunks)
	dir := t.TempDir()
	m := mountPlan(t, s, dir, Options{})
	whole := f.Bytes()[10<<16:][:2<<16]
	m.plan.SetDamage(origintest.Damage{Chunk: func(_ codec.Hash, i uint32, content []byte) []byte {
		switch i {
		case 10:
			return whole[:1<<16-4096]
		case 11:
			return whole[1<<16-4096:]
		}
		return content
	}})
	if _, err := m.handle(t, f.ID()).ReadAt(t.Context(), make([]byte, 2<<16), 10<<16); err != nil {
		t.Fatal(err)
	}
	m.close(t)
	m = mountPlan(t, s, dir, Options{})
	got := make([]byte, 1<<16)
	if _, err := m.handle(t, f.ID()).ReadAt(t.Context(), got, 10<<16); err != nil || !bytes.Equal(got, whole[:1<<16]) {
		t.Errorf("the same read by another mount: %v", err)
	}
	m.sound(t, f)
	m.close(t)
	mountPlan(t, s, dir, Options{}).sound(t, f)
}

// A reader of another file got a chunk that is too short for a term. The read of the term fails once.
func TestUnprovenMisfitIsRequestedAgain(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
	x := b.Xorb(pattern(largeChunks, 64<<10)...)
	f, other := b.File(x.Term(0, largeChunks)), b.File(x.Term(0, largeChunks-1))
	m := mountPlan(t, b.Store(), "", Options{})
	m.plan.SetDamage(origintest.Damage{Chunk: func(_ codec.Hash, i uint32, content []byte) []byte {
		if i == 10 {
			return content[:1000]
		}
		return content
	}})
	file := m.handle(t, f.ID()).File() // without readahead
	if err := tryRead(t.Context(), m.handle(t, other.ID()).File(), other.Bytes(), 10<<16, 10); err != nil {
		t.Fatal(err)
	}
	m.plan.SetDamage(origintest.Damage{})
	if _, err := file.ReadAt(t.Context(), make([]byte, 1<<16), 10<<16); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("the first read: %v", err)
	}
	if got, err := scan(t.Context(), file, f.Info.Size()); err != nil || !bytes.Equal(got, f.Bytes()) {
		t.Errorf("a later scan: %d bytes, %v", len(got), err)
	}
}

// A plan of another size than the listing says is requested once more.
func TestUnprovenPlanOfAnotherSize(t *testing.T) {
	s, f := large(t, largeChunks)
	for wrong, want := range map[int]int64{0: 0, 1: 0, 2: -1} {
		m := mountPlan(t, s, t.TempDir(), Options{})
		m.plan.SetDamage(origintest.Damage{Plan: func(fi *shard.FileInfo) *shard.FileInfo {
			if m.plan.Plans() <= wrong {
				fi.Terms = slices.Clone(fi.Terms)
				fi.Terms[0].Size--
			}
			return fi
		}})
		got, err := m.OpenSize(t.Context(), f.ID(), f.Info.Size())
		if err != nil || got.Size() != f.Info.Size()+want || m.plan.Plans() != min(2, wrong+1) {
			t.Errorf("%d wrong plans: %v, %d plans", wrong, err, m.plan.Plans())
		}
	}
}

// The proof of a file with more chunks than the cache remembers proves all of them.
func TestUnprovenManyChunks(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true})
	f := b.Add(origintest.Random(1, smallFile+1<<20), 120) // 43,691 chunks
	m := &planMount{plan: origintest.NewPlan(objects.New(b.Store(), objects.Options{}), nil)}
	var err error
	if m.c, err = cache.New(m.plan, cache.Options{MemoryBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	m.Reader = New(m.c, Options{Strict: true})
	t.Cleanup(func() { m.close(t) })
	if err := tryRead(t.Context(), m.handle(t, f.ID()), f.Bytes(), 0, 1); err != nil {
		t.Fatal(err)
	}
	chunks, proven := 0, 0
	for _, term := range f.Info.Terms {
		chunks += term.Chunks.Len()
		for _, leaf := range m.c.Proven(term.Xorb, term.Chunks) {
			if !leaf.Hash.IsZero() {
				proven++
			}
		}
	}
	if proven < chunks {
		t.Errorf("%d of %d chunks are proven", proven, chunks)
	}
}

// A handle of a plan of another size than the right one fails. It requests the file once more, and no
// third time.
func TestUnprovenHandleOfAnotherSize(t *testing.T) {
	s, f := large(t, largeChunks)
	contradictions := 0
	m := mountPlan(t, s, t.TempDir(), Options{Strict: true, OnContradiction: func(codec.FileID) { contradictions++ }})
	m.plan.SetDamage(origintest.Damage{Plan: func(fi *shard.FileInfo) *shard.FileInfo {
		if m.plan.Plans() <= 1 {
			fi.Terms = slices.Clone(fi.Terms)
			fi.Terms[0].Size--
		}
		return fi
	}})
	h := m.handle(t, f.ID())
	for range 2 {
		if _, err := h.ReadAt(t.Context(), make([]byte, 1), 0); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("a read by the wrong plan: %v", err)
		}
	}
	if n := m.plan.Plans(); n != 2 || contradictions != 1 {
		t.Errorf("%d plans and %d contradictions, want 2 and 1", n, contradictions)
	}
}

// A file that known hashes have proven returns no other bytes, although the cache forgets the hashes at
// once.
func TestUnprovenHashesAreForgotten(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, "", Options{})
	file := m.handle(t, f.ID()).File()
	known := func(_ codec.Hash, r codec.ChunkRange) (leaves []merkle.Leaf) {
		for i := r.Start; i < r.End; i++ {
			leaves = append(leaves, merkle.Leaf{Hash: merkle.Chunk(f.Bytes()[i<<16:][:1<<16]), Size: 1 << 16})
		}
		return leaves
	}
	if err := file.proveByLeaves(t.Context(), known, true); err != nil || !file.isProven() {
		t.Fatalf("proven %v, %v", file.isProven(), err)
	}
	m.plan.SetDamage(wrongChunk(f.Info.Terms[0].Xorb, 7, 0))
	if _, err := file.ReadAt(t.Context(), make([]byte, 1), 7<<16); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("a read of another chunk than the proven one: %v", err)
	}
	if err := tryRead(t.Context(), file, f.Bytes(), 8<<16, 1<<16); err != nil {
		t.Errorf("a read of a proven chunk: %v", err)
	}
}

// Known hashes do not prove terms with other sizes, even if the sizes add up to that of the file.
func TestUnprovenTermOfAnotherSize(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
	all := pattern(10, 64<<10)
	x := b.Xorb(all...)
	f := b.File(x.Term(0, 3), x.Term(5, 8))
	m := mountPlan(t, b.Store(), "", Options{})
	m.plan.SetDamage(origintest.Damage{Plan: func(fi *shard.FileInfo) *shard.FileInfo {
		fi.Terms = slices.Clone(fi.Terms)
		fi.Terms[0].Size++
		fi.Terms[1].Size--
		return fi
	}})
	known := func(_ codec.Hash, r codec.ChunkRange) (leaves []merkle.Leaf) {
		for _, chunk := range all[r.Start:r.End] {
			leaves = append(leaves, merkle.Leaf{Hash: merkle.Chunk(chunk), Size: uint64(len(chunk))})
		}
		return leaves
	}
	file := m.handle(t, f.ID()).File()
	if err := file.proveByLeaves(t.Context(), known, true); !errors.Is(err, codec.ErrCorrupt) || file.isProven() {
		t.Errorf("proven %v, %v", file.isProven(), err)
	}
}

// Two files with one ID share a proof. The one with another size than the proven file fails.
func TestUnprovenProofOfAnotherSize(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
	f := b.File(b.Xorb(pattern(10, 64<<10)...).Term(0, 3))
	s := b.Store()
	synctest.Test(t, func(t *testing.T) {
		m := mountPlan(t, s, "", Options{})
		open := func(chunks uint32) *File {
			m.plan.SetDamage(origintest.Damage{Plan: func(fi *shard.FileInfo) *shard.FileInfo {
				fi.Terms = slices.Clone(fi.Terms)
				fi.Terms[0].Chunks.End, fi.Terms[0].Size = chunks, chunks<<16
				return fi
			}})
			file, err := m.OpenSize(t.Context(), f.ID(), int64(chunks)<<16)
			if err != nil || file.Size() != int64(chunks)<<16 {
				t.Fatalf("%d bytes, %v", file.Size(), err)
			}
			return file
		}
		wrong, right := open(4), open(3)
		proceed := make(chan struct{})
		m.plan.Before = func(context.Context, codec.Hash, codec.ChunkRange) error { <-proceed; return nil }
		var readers sync.WaitGroup
		readers.Go(func() {
			if err := tryRead(t.Context(), right, f.Bytes(), 0, 10); err != nil {
				t.Errorf("a read of the right file: %v", err)
			}
		})
		synctest.Wait()
		for _, off := range []int64{0, 3 << 16} { // in the right file, and behind its end
			readers.Go(func() {
				if _, err := wrong.ReadAt(t.Context(), make([]byte, 10), off); !errors.Is(err, codec.ErrCorrupt) {
					t.Errorf("a read of the wrong file at %d: %v", off, err)
				}
			})
		}
		synctest.Wait()
		close(proceed)
		readers.Wait()
	})
}

// A read behind the terms of a file is an error. The next open requests them again.
func TestReadBehindTerms(t *testing.T) {
	s, f := large(t, 3)
	file := open(t, s, f.ID())
	file.size++
	if _, err := file.ReadAt(t.Context(), make([]byte, 1), file.size-1); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("error = %v, want codec.ErrCorrupt", err)
	}
	if next, err := file.r.Open(t.Context(), f.ID()); err != nil || next == file {
		t.Errorf("the next open returned the same file, or %v", err)
	}
}

// A read of an attribute, or readahead, opens a dropped file again. Its handles stay usable.
func TestUnprovenLookupsKeepHandles(t *testing.T) {
	for name, lookUp := range map[string]func(t *testing.T, m *planMount, id codec.FileID){
		"attribute": func(t *testing.T, m *planMount, id codec.FileID) {
			if _, err := m.CachedPercent(t.Context(), id); err != nil {
				t.Error(err)
			}
		},
		"readahead": func(t *testing.T, m *planMount, id codec.FileID) {
			a := m.NewFileReadahead()
			a.Announce(t.Context(), []codec.FileID{id})
			a.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := large(t, largeChunks)
			m := mountPlan(t, s, "", Options{})
			file := m.handle(t, f.ID()).File() // without readahead
			if err := tryRead(t.Context(), file, f.Bytes(), 0, 1<<16); err != nil {
				t.Fatal(err)
			}
			m.plan.SetDamage(origintest.Damage{Bytes: func(_ codec.Hash, _ codec.ChunkRange, packed []byte) { packed[0] ^= 1 }})
			if _, err := file.ReadAt(t.Context(), make([]byte, 1), 40<<16); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("a read of damaged chunks: %v", err)
			}
			m.plan.SetDamage(origintest.Damage{})
			lookUp(t, m, f.ID())
			if got, err := scan(t.Context(), file, f.Info.Size()); err != nil || !bytes.Equal(got, f.Bytes()) {
				t.Errorf("the handle afterwards: %d bytes, %v", len(got), err)
			}
		})
	}
}

// A file may be dropped between its open and its first handle, and opened again. The handles of both opens
// share one file, whether the second open has a handle yet or not.
func TestUnprovenHandleOfDroppedFile(t *testing.T) {
	for _, isHeld := range []bool{true, false} {
		s, f := large(t, largeChunks)
		m := mountPlan(t, s, "", Options{})
		first, err := m.Open(t.Context(), f.ID())
		if err != nil {
			t.Fatal(err)
		}
		m.open.drop(first)
		second, err := m.Open(t.Context(), f.ID())
		if err != nil || second == first {
			t.Fatalf("the dropped file, or %v", err)
		}
		order := []*File{first, second}
		if isHeld {
			slices.Reverse(order)
		}
		for _, file := range order {
			h := file.Handle()
			defer h.Close()
			if h.File() != second {
				t.Errorf("second open has a handle: %v: a handle has the dropped file", isHeld)
			}
			if err := tryRead(t.Context(), h, f.Bytes(), 0, 10); err != nil {
				t.Errorf("second open has a handle: %v: %v", isHeld, err)
			}
		}
	}
}

// An outage ends a fetch of a file after a wrong chunk. The same handle reads the file later.
func TestUnprovenAbortedFetch(t *testing.T) {
	s, f := large(t, largeChunks)
	for name, isSuspect := range map[string]bool{"first": false, "second": true} {
		t.Run(name, func(t *testing.T) {
			m := mountPlan(t, s, "", Options{Strict: true})
			if isSuspect {
				m.suspects.Add(f.ID(), struct{}{}, 1)
			}
			var isDown atomic.Bool
			m.plan.Before = func(_ context.Context, _ codec.Hash, r codec.ChunkRange) error {
				if isDown.Load() && r.Start >= 64 {
					return origin.ErrUnavailable
				}
				return nil
			}
			h := m.handle(t, f.ID())
			m.plan.SetDamage(wrongChunk(f.Info.Terms[0].Xorb, 5, 0))
			isDown.Store(true)
			for range 2 {
				if _, err := h.ReadAt(t.Context(), make([]byte, 1), 0); !errors.Is(err, origin.ErrUnavailable) {
					t.Errorf("a read in the outage: %v", err)
				}
			}
			isDown.Store(false)
			m.plan.SetDamage(origintest.Damage{})
			if err := tryRead(t.Context(), h, f.Bytes(), 5<<16, 1<<16); err != nil {
				t.Errorf("a read after the outage: %v", err)
			}
		})
	}
}

// A file of many chunks takes the place of many open files, because its tracker has a mark for each.
func TestUnprovenMarksCount(t *testing.T) {
	const chunks = 20_000
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
	x := b.Xorb(pattern(chunks/4, 1<<10)...)
	f := b.File(x.All(), x.All(), x.All(), x.All())
	m := mountPlan(t, b.Store(), "", Options{})
	h := m.handle(t, f.ID())
	var pages [3]*coverage
	pages[0] = h.f.tracker.pages.Load()
	if err := tryRead(t.Context(), h, f.Bytes(), 0, 10); err != nil {
		t.Fatal(err)
	}
	pages[1] = h.f.tracker.pages.Load()
	m.sound(t, f)
	pages[2] = h.f.tracker.pages.Load()
	if n := m.open.byID.Cost() - fileSlots; n < chunks*8/slotBytes || n > chunks*9/slotBytes {
		t.Errorf("the tracker costs %d slots, want about %d", n, chunks*8/slotBytes)
	}
	if pages[0] != nil || pages[1] == nil || pages[2] != nil {
		t.Errorf("pages before the first read: %v, after it: %v, of a proven file: %v", pages[0], pages[1], pages[2])
	}
}

// A file that is dropped between its open and its first handle is not opened again.
func TestHoldDroppedFile(t *testing.T) {
	s, f := large(t, 10)
	m := mountPlan(t, s, "", Options{})
	dropped, err := m.Open(t.Context(), f.ID())
	if err != nil {
		t.Fatal(err)
	}
	dropped.discard()
	defer dropped.Handle().Close()
	if next, err := m.Open(t.Context(), f.ID()); err != nil || next == dropped {
		t.Errorf("the next open got the dropped file, %v", err)
	}
}

// Another process stores the plain file while a reader has bytes of a server that lied. The read that completes
// the file fails, although its own bytes are right.
func TestUnprovenBesidePlainFile(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, t.TempDir(), Options{})
	wrong := f.Info.Terms[0].Xorb
	m.plan.SetDamage(origintest.Damage{Chunk: func(x codec.Hash, i uint32, content []byte) []byte {
		if x != wrong || i != 3 {
			return content
		}
		return otherByte(content)
	}})
	h, half := m.handle(t, f.ID()), len(f.Bytes())/2
	if got, err := scan(t.Context(), h, int64(half)); err != nil || bytes.Equal(got, f.Bytes()[:half]) {
		t.Fatalf("the first half: %v", err)
	}
	if err := m.c.PutFile(f.ID().File, int64(len(f.Bytes())), bytes.NewReader(f.Bytes())); err != nil {
		t.Fatal(err)
	}
	m.plan.SetDamage(origintest.Damage{})
	rest := make([]byte, len(f.Bytes())-half)
	if _, err := h.ReadAt(t.Context(), rest, int64(half)); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("the second half: %v, right bytes: %v", err, bytes.Equal(rest, f.Bytes()[half:]))
	}
	if got, err := scan(t.Context(), m.handle(t, f.ID()), f.Info.Size()); err != nil || !bytes.Equal(got, f.Bytes()) {
		t.Errorf("a later open: %v", err)
	}
}

// A file that is read from its plain file alone needs no check, also if no hash of its chunks is known.
func TestUnprovenPlainFileAlone(t *testing.T) {
	s, f := large(t, largeChunks)
	m := mountPlan(t, s, t.TempDir(), Options{})
	if err := m.c.PutFile(f.ID().File, int64(len(f.Bytes())), bytes.NewReader(f.Bytes())); err != nil {
		t.Fatal(err)
	}
	h := m.handle(t, f.ID())
	if got, err := scan(t.Context(), h, f.Info.Size()); err != nil || !bytes.Equal(got, f.Bytes()) {
		t.Error(err)
	}
	if n, _ := m.plan.Requests(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// A strict descriptor reads on while the server stores a file in other xorbs several times, each time during
// its proof.
func TestStrictReadsOnWhilePlansAlternate(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	chunks := pattern(largeChunks, 64<<10)
	x, y := b.Xorb(chunks...), b.Xorb(append(pattern(1, 1<<10), chunks...)...)
	f := b.File(x.Term(0, largeChunks))
	terms := []codec.Term{
		{Xorb: x.Hash(), Chunks: codec.ChunkRange{End: largeChunks}, Size: uint32(f.Info.Size())},
		{Xorb: y.Hash(), Chunks: codec.ChunkRange{Start: 1, End: 1 + largeChunks}, Size: uint32(f.Info.Size())},
	}
	s := b.Store()
	for _, changes := range []int64{1, 2, 3, 4} {
		t.Run(fmt.Sprint(changes), func(t *testing.T) {
			m := mountPlan(t, s, "", Options{Strict: true})
			var change atomic.Int64
			m.plan.SetDamage(origintest.Damage{Plan: func(fi *shard.FileInfo) *shard.FileInfo {
				fi.Terms = []codec.Term{terms[change.Load()%2]}
				return fi
			}})
			h := m.handle(t, f.ID()).File() // without readahead
			m.plan.Before = func(_ context.Context, of codec.Hash, _ codec.ChunkRange) error {
				n := change.Load()
				if n < changes && of == terms[n%2].Xorb {
					change.CompareAndSwap(n, n+1)
				}
				if of != terms[change.Load()%2].Xorb {
					return origin.ErrNotFound
				}
				return nil
			}
			got, err := scan(t.Context(), h, f.Info.Size())
			if err != nil || !bytes.Equal(got, f.Bytes()) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			m.sound(t, f)
		})
	}
}
