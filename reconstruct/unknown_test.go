package reconstruct

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Chunks that an earlier mount got from a server that lied are on disk, and unknown to the next mount.
// Proofs of whole files may use them. Readers get none of them, whatever happens to such a proof.

// A liedStore has two large files and a small one with the same chunks. The server has lied about those of
// liedChunks, which are in a disk cache.
type liedStore struct {
	origin.Store
	whole, part, small *origintest.File
	dir                string // of the disk cache
}

var liedChunks = codec.ChunkRange{Start: 10, End: 18}

func newLiedStore(t testing.TB) *liedStore {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
	x := b.Xorb(pattern(largeChunks, 64<<10)...)
	s := &liedStore{
		whole: b.File(x.Term(0, largeChunks)),
		part:  b.File(x.Term(0, largeChunks-5)),
		small: b.File(x.Term(10, 30), x.Term(30, 40)),
		dir:   t.TempDir(),
	}
	s.Store = b.Store()
	m := mountPlan(t, s, s.dir, Options{})
	m.plan.SetDamage(origintest.Damage{Chunk: func(_ codec.Hash, _ uint32, content []byte) []byte { return otherByte(content) }})
	if got := s.read(t, m, s.whole); bytes.Equal(got, s.liedBytes()) {
		t.Fatal("the chunks are not damaged")
	}
	m.close(t)
	return s
}

// liedBytes are the right bytes of liedChunks in a large file.
func (s *liedStore) liedBytes() []byte {
	return s.whole.Bytes()[liedChunks.Start<<16 : liedChunks.End<<16]
}

// read reads the bytes of liedChunks in a large file.
func (s *liedStore) read(t testing.TB, m *planMount, f *origintest.File) []byte {
	t.Helper()
	p := make([]byte, liedChunks.Len()<<16)
	if _, err := m.handle(t, f.ID()).ReadAt(t.Context(), p, int64(liedChunks.Start)<<16); err != nil {
		t.Fatal(err)
	}
	return p
}

// wantRight fails if a reader of a large file gets an error or bytes of the server that lied.
func (s *liedStore) wantRight(t testing.TB, m *planMount, f *origintest.File) {
	t.Helper()
	if got := s.read(t, m, f); !bytes.Equal(got, s.liedBytes()) {
		t.Error("a reader got bytes of the server that lied")
	}
}

// failFrom makes requests for chunks from start on fail.
func (m *planMount) failFrom(start uint32) {
	m.plan.Before = func(_ context.Context, _ codec.Hash, r codec.ChunkRange) error {
		if r.Start >= start {
			return origin.ErrUnavailable
		}
		return nil
	}
}

// A whole read that ends early has unpacked chunks on disk, which stay unknown.
func TestUnknownAbortedVerifyReader(t *testing.T) {
	s := newLiedStore(t)
	m := mountPlan(t, s, s.dir, Options{})
	m.failFrom(64)
	f, err := m.Open(t.Context(), s.whole.ID())
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, f.VerifyReader(t.Context(), nil))
	if !errors.Is(err, origin.ErrUnavailable) || n < int64(liedChunks.End)<<16 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	m.plan.Before = nil
	s.wantRight(t, m, s.part)
}

// The materializer requests unknown chunks again, since the file has readers. They get right bytes
// meanwhile, and no error later.
func TestUnknownMaterializer(t *testing.T) {
	s := newLiedStore(t)
	m := mountPlan(t, s, s.dir, Options{Materialize: MaterializeAlways})
	begun, proceed := m.block(t, batchChunks)
	h := m.handle(t, s.whole.ID())
	<-begun // the materializer has unpacked the first batch
	s.wantRight(t, m, s.whole)
	proceed()
	m.materializer.running.Wait()
	if !m.c.HasFile(s.whole.Info.File) {
		t.Error("the file is not stored")
	}
	if _, err := h.ReadAt(t.Context(), make([]byte, 10), 0); err != nil {
		t.Errorf("a later read: %v", err)
	}
}

// block makes requests for chunks from start on wait for the returned function. The channel is closed when
// the first of them has begun.
func (m *planMount) block(t testing.TB, start uint32) (begun <-chan struct{}, proceed func()) {
	first, blocked := make(chan struct{}), make(chan struct{})
	begin, proceed := sync.OnceFunc(func() { close(first) }), sync.OnceFunc(func() { close(blocked) })
	t.Cleanup(proceed)
	m.plan.Before = func(_ context.Context, _ codec.Hash, r codec.ChunkRange) error {
		if r.Start >= start {
			begin()
			<-blocked
		}
		return nil
	}
	return first, proceed
}

// Readers of a large file get no unknown chunks from the proof of a small file that is still running.
func TestUnknownRunningProof(t *testing.T) {
	s := newLiedStore(t)
	m := mountPlan(t, s, s.dir, Options{})
	begun, proceed := m.block(t, liedChunks.End)
	h := m.handle(t, s.small.ID())
	var reader sync.WaitGroup
	reader.Go(func() {
		p := make([]byte, 10)
		if _, err := h.ReadAt(t.Context(), p, 0); err != nil || !bytes.Equal(p, s.small.Bytes()[:10]) {
			t.Errorf("the small file: %v", err)
		}
	})
	<-begun // the proof has the chunks from disk
	s.wantRight(t, m, s.whole)
	proceed()
	reader.Wait()
}

// Readers of a large file get no unknown chunks from the proof of a small file that has failed.
func TestUnknownFailedProof(t *testing.T) {
	s := newLiedStore(t)
	m := mountPlan(t, s, s.dir, Options{})
	m.failFrom(30)
	if _, err := m.handle(t, s.small.ID()).ReadAt(t.Context(), make([]byte, 10), 0); !errors.Is(err, origin.ErrUnavailable) {
		t.Fatal(err)
	}
	m.plan.Before = nil
	s.wantRight(t, m, s.whole)
	m.sound(t, s.small)
}

// Right chunks of an earlier mount are not requested again for the proof of a small file.
func TestUnknownSmallFileUsesDisk(t *testing.T) {
	s, f := large(t, 10)
	dir := t.TempDir()
	m := mountPlan(t, s, dir, Options{})
	if err := m.c.Download(t.Context(), f.Info.Terms[0].Xorb, codec.ChunkRange{Start: 2, End: 8}); err != nil {
		t.Fatal(err)
	}
	m.close(t)
	m = mountPlan(t, s, dir, Options{})
	m.sound(t, f)
	if _, n := m.plan.Requests(); n != 4 {
		t.Errorf("%d chunks were requested, 4 are not on disk", n)
	}
}

// A whole read for the SHA-256 of a file with readers requests unknown chunks again.
func TestUnknownVerifySHA256WithReaders(t *testing.T) {
	s := newLiedStore(t)
	m := mountPlan(t, s, s.dir, Options{})
	h := m.handle(t, s.whole.ID())
	if err := h.File().VerifySHA256(t.Context(), sha256.Sum256(s.whole.Bytes())); err != nil {
		t.Error(err)
	}
	if err := tryRead(t.Context(), h, s.whole.Bytes(), int64(liedChunks.Start)<<16, 1<<16); err != nil {
		t.Errorf("a later read: %v", err)
	}
}

// A mount cannot replace unknown chunks on the disk of another process. The check of a file whose hashes were
// forgotten requests them again.
func TestUnknownCheckBesideOwner(t *testing.T) {
	s := newLiedStore(t)
	owner, err := disk.Open(s.dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	m := mountPlan(t, s, s.dir, Options{})
	file := m.handle(t, s.whole.ID()).File() // without readahead
	const last = (largeChunks - 2) << 16
	if _, err := scan(t.Context(), file, last); err != nil {
		t.Fatal(err)
	}
	m.forgetChunks(t)
	if err := tryRead(t.Context(), file, s.whole.Bytes(), last, 2<<16); err != nil || !file.isProven() {
		t.Errorf("the last read: %v, proven: %v", err, file.isProven())
	}
}
