package cache

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// A repackedStore has three old xorbs of 40 chunks, and a new one with every second chunk of these in
// runs of ten.
type repackedStore struct {
	store origin.WriteStore
	old   []xorbSource
	new   xorbSource
}

const (
	movedChunk = 1000 // unpacked bytes
	movedRun   = 10
)

func newRepacked(t testing.TB) *repackedStore {
	b := origintest.NewBuilder(t, origintest.Form{Schemes: allSchemes})
	s := &repackedStore{}
	var moved [][]byte
	for n := range 3 {
		var all [][]byte
		for i := range 40 {
			all = append(all, origintest.Text(uint64(100*n+i), movedChunk))
		}
		s.old = append(s.old, xorbSource{Xorb: b.Xorb(all...)})
		for i := 0; i < 40; i += 2 * movedRun {
			moved = append(moved, all[i:i+movedRun]...)
		}
	}
	s.new = xorbSource{Xorb: b.Xorb(moved...)}
	s.store = origintest.CopyOf(t, b.Store())
	return s
}

// mount opens a cache in a folder. The metacache and the chunks share the disk.
func (s *repackedStore) mount(t testing.TB, dir string, o disk.Options) *mount {
	t.Helper()
	m := &mount{disk: openDisk(t, dir, o)}
	m.src = hook(objects.New(s.store, objects.Options{Backend: m.disk}), nil)
	m.Cache = open(t, m.src, Options{MemoryBytes: noMemory, Disk: m.disk})
	return m
}

// filled is a mount that has read all old chunks.
func (s *repackedStore) filled(t testing.TB, dir string) *mount {
	t.Helper()
	m := s.mount(t, dir, disk.Options{})
	for _, x := range s.old {
		x.read(t, m.Cache, chunks(0, 40), 0, 40*movedChunk)
	}
	m.settle(t)
	m.requested()
	return m
}

// sweep deletes the old xorbs.
func (s *repackedStore) sweep(t testing.TB) {
	t.Helper()
	for _, x := range s.old {
		if err := s.store.Delete(t.Context(), x.Key()); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *repackedStore) readNew(t testing.TB, m *mount, start, end int) {
	t.Helper()
	s.new.read(t, m.Cache, chunks(start, end), 0, (end-start)*movedChunk)
}

// Every way to fetch chunks copies those that the disk has of other xorbs. The mount that stored them
// does so, and a later one. Later reads find them under their new names.
func TestMoved(t *testing.T) {
	for name, get := range map[string]func(t *testing.T, s *repackedStore, m *mount){
		"Read": func(t *testing.T, s *repackedStore, m *mount) { s.readNew(t, m, 0, 60) },
		"Read of parts": func(t *testing.T, s *repackedStore, m *mount) {
			for i := range 59 {
				s.new.read(t, m.Cache, chunks(i, i+2), 500, movedChunk)
			}
		},
		"Prefetch": func(t *testing.T, s *repackedStore, m *mount) {
			a := m.NewReadahead()
			defer a.Close()
			a.Prefetch(s.new.Hash(), chunks(0, 60), 0)
			s.readNew(t, m, 0, 60)
		},
		"PrefetchAll": func(t *testing.T, s *repackedStore, m *mount) {
			a := m.NewReadahead()
			defer a.Close()
			var p Plan
			p.Add(s.new.Hash(), chunks(0, 60), 60*movedChunk)
			a.PrefetchAll(t.Context(), &p)
			s.readNew(t, m, 0, 60)
		},
		"Run": func(t *testing.T, s *repackedStore, m *mount) {
			if err := s.new.unpack(t, m.Cache, chunks(0, 60)); err != nil {
				t.Error(err)
			}
		},
		"Download": func(t *testing.T, s *repackedStore, m *mount) {
			if err := m.Download(t.Context(), s.new.Hash(), chunks(0, 60)); err != nil {
				t.Error(err)
			}
		},
	} {
		for _, remounts := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s, dir := newRepacked(t), t.TempDir()
				m := s.filled(t, dir)
				if remounts {
					m.close(t)
					m = s.mount(t, dir, disk.Options{})
				}
				s.sweep(t)
				get(t, s, m)
				m.settle(t)
				m.wantRequested(t, "moved chunks", 0, 0)
				st := m.Stats()
				if st.Misses > 120 || st.FromOrigin > 120*movedChunk {
					t.Errorf("copies count as requests: %+v", st)
				}
				if gaps := m.disk.Missing(s.new.Hash(), chunks(0, 60)); len(gaps) > 0 {
					t.Errorf("chunks %v are not stored under their new names", gaps)
				}
				m.close(t)
				m = s.mount(t, dir, disk.Options{})
				s.readNew(t, m, 0, 60)
				m.wantRequested(t, "moved chunks of an earlier mount", 0, 0)
			})
		}
	}
}

// The origin gets requests for those chunks alone that the disk has lost. Small gaps between them
// cost no request of their own.
func TestMoved_Holes(t *testing.T) {
	tests := []struct {
		name             string
		lost             []codec.ChunkRange // of the second old xorb: chunks 20 to 40 of the new one
		requests, chunks int64
	}{
		{"one chunk", []codec.ChunkRange{chunks(3, 4)}, 1, 1},
		{"half", []codec.ChunkRange{chunks(0, 10)}, 1, 10},
		{"a small gap", []codec.ChunkRange{chunks(1, 2), chunks(6, 7)}, 1, 6},
		{"a large gap", []codec.ChunkRange{chunks(1, 2), chunks(7, 8)}, 2, 2},
		{"a whole xorb", []codec.ChunkRange{chunks(0, 40)}, 1, 20},
		{"unused chunks", []codec.ChunkRange{chunks(10, 20)}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newRepacked(t)
			m := s.filled(t, t.TempDir())
			for _, r := range tt.lost {
				m.disk.Drop(s.old[1].Hash(), r)
			}
			s.readNew(t, m, 0, 60)
			m.wantRequested(t, "lost chunks", tt.requests, tt.chunks)
			m.settle(t)
			s.readNew(t, m, 0, 60)
			m.wantRequested(t, "a second read", 0, 0)
		})
	}
}

// Damaged copies are fetched, and no reader gets their bytes.
func TestMoved_Damage(t *testing.T) {
	s, dir := newRepacked(t), t.TempDir()
	s.filled(t, dir).close(t)
	segments, err := filepath.Glob(filepath.Join(dir, "seg", "*"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	dice := rand.New(rand.NewPCG(1, 2))
	for _, path := range segments {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < 10_000 {
			continue // index pages: the chunks of their xorbs could not be copied
		}
		for range 1 + len(b)/5000 {
			b[dice.IntN(len(b))] ^= 1
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := s.mount(t, dir, disk.Options{})
	for i := range 60 {
		s.readNew(t, m, i, i+1)
	}
	if _, n := m.requested(); n == 0 || n > 40 {
		t.Errorf("%d chunks were requested", n)
	}
	m.settle(t)
	if n := m.wantGood(t, s.new); n != 60 {
		t.Errorf("%d chunks are stored", n)
	}
}

// A liar is a Source that proves other hashes than those of its runs.
type liar struct {
	origin.Source
	proven func(x codec.Hash, r codec.ChunkRange) []merkle.Leaf
}

func (l *liar) Proven(x codec.Hash, r codec.ChunkRange) []merkle.Leaf { return l.proven(x, r) }

// Copies are compared with the hashes of the new xorb. A retry gets the bytes of the origin.
func TestMoved_OtherBytes(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, s *repackedStore, m *mount){
		"the hashes of other chunks": func(_ *testing.T, s *repackedStore, m *mount) {
			proven := m.src.Source.Proven
			m.src.Source = &liar{m.src.Source, func(x codec.Hash, r codec.ChunkRange) []merkle.Leaf {
				leaves := proven(x, r)
				if x == s.new.Hash() {
					slices.Reverse(leaves)
				}
				return leaves
			}}
		},
		"other bytes on disk": func(t *testing.T, s *repackedStore, m *mount) {
			for _, x := range s.old {
				m.disk.Drop(x.Hash(), chunks(0, 40))
				if err := m.disk.PutRunNoCopy(x.Hash(), x.forge(t, chunks(0, 40)), func() {}); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRepacked(t)
			m := s.filled(t, t.TempDir())
			prepare(t, s, m)
			m.settle(t)
			if err := s.new.unpack(t, m.Cache, chunks(40, 60)); err == nil {
				t.Error("a run has other bytes without an error")
			}
			s.readNew(t, m, 0, 20)
			if err := m.Download(t.Context(), s.new.Hash(), chunks(20, 40)); err == nil {
				t.Error("other bytes were stored")
			}
			if err := m.Download(origin.NoCache(t.Context()), s.new.Hash(), chunks(20, 40)); err != nil {
				t.Error(err)
			}
			m.settle(t)
			if n := m.wantGood(t, s.new); n < 40 {
				t.Errorf("%d chunks are stored", n)
			}
		})
	}
}

// A chunk that the disk lacks makes the source drop the info of its xorb. A later mount still finds
// the other chunks of that xorb.
func TestMoved_LostXorb(t *testing.T) {
	s, dir := newRepacked(t), t.TempDir()
	m := s.filled(t, dir)
	m.disk.Drop(s.old[0].Hash(), chunks(15, 16))
	s.sweep(t)
	err := m.Read(t.Context(), s.old[0].Hash(), chunks(15, 16), 0, make([]byte, movedChunk))
	if !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("read of a lost xorb: %v", err)
	}
	m.close(t)
	m = s.mount(t, dir, disk.Options{})
	s.readNew(t, m, 0, 60)
	m.wantRequested(t, "chunks of lost xorbs", 0, 0)
}

// A process that shares the disk of another one copies, too. It stores nothing.
func TestMoved_Shared(t *testing.T) {
	s, dir := newRepacked(t), t.TempDir()
	owner := s.filled(t, dir)
	if err := owner.disk.Sync(); err != nil {
		t.Fatal(err)
	}
	m := s.mount(t, dir, disk.Options{Share: true})
	for range 2 {
		s.readNew(t, m, 0, 60)
		m.settle(t)
		m.wantRequested(t, "moved chunks", 0, 0)
	}
	if !m.disk.Shared() || len(owner.disk.Missing(s.new.Hash(), chunks(0, 60))) == 0 {
		t.Error("the chunks were stored")
	}
}

// Copies make their originals redundant, so a full disk evicts the originals first.
func TestMoved_FullDisk(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	var old []xorbSource
	var moved [][]byte
	for n := range 14 {
		var all [][]byte
		for i := range 16 {
			all = append(all, origintest.Random(uint64(1000*n+i), 64<<10))
		}
		old = append(old, xorbSource{Xorb: b.Xorb(all...)})
		moved = append(moved, all...)
	}
	next := xorbSource{Xorb: b.Xorb(moved...)}
	s := &repackedStore{store: origintest.CopyOf(t, b.Store()), old: old, new: next}
	m := s.mount(t, t.TempDir(), disk.Options{MaxBytes: 16 << 20})
	for _, x := range old {
		for range 2 { // used chunks outlive others
			x.read(t, m.Cache, chunks(0, 16), 0, 16*64<<10)
			m.settle(t)
		}
	}
	m.requested()
	for round := range 2 {
		for i := 0; i < len(moved); i += 16 {
			next.read(t, m.Cache, chunks(i, i+16), 0, 16*64<<10)
			m.settle(t)
		}
		_, n := m.requested()
		t.Logf("round %d: %d of %d chunks were requested, %+v", round, n, len(moved), m.disk.Stats())
		if n > int64(len(moved)/10) {
			t.Errorf("round %d: %d of %d chunks were requested", round, n, len(moved))
		}
	}
}

// The end of its context ends the wait of a request for the table.
func TestMoved_Canceled(t *testing.T) {
	s := newRepacked(t)
	m := s.filled(t, t.TempDir())
	m.moved = newMovedChunks(minMoved)
	m.moved.start.Do(func() {}) // the table is never ready
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Read(ctx, s.new.Hash(), chunks(0, 60), 0, make([]byte, 60*movedChunk)); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	close(m.moved.ready)
	if p := make([]byte, movedChunk); m.Read(t.Context(), s.new.Hash(), chunks(0, 1), 0, p) != nil || !bytes.Equal(p, s.new.Xorb.Chunks[0]) {
		t.Error("a later read failed")
	}
}
