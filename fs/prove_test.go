package fs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/reconstruct"
)

// mountPlan mounts files of a Plan under their index as name.
func mountPlan(t *testing.T, b *origintest.Builder, ro reconstruct.Options, o Options) (mountFixture, *origintest.Plan) {
	t.Helper()
	needFUSE(t)
	plan := origintest.NewPlan(objects.New(b.Store(), objects.Options{}), nil)
	plan.Lengths = true
	c, err := cache.New(plan, cache.Options{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, c)
	r := reconstruct.New(c, ro)
	origintest.Close(t, r)
	var entries []page.Entry
	for i, f := range b.Files {
		entries = append(entries, page.Entry{Path: string(rune('a' + i)), ID: f.ID(), Size: f.Info.Size()})
	}
	m := mountFixture{dir: t.TempDir()}
	if m.s, err = mountHere(m.dir, newFakeTree(entries...), reader{r}, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.s.Shutdown(0); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return m, plan
}

// largeFiles has one file of 6 MiB in chunks of 64 KiB.
func largeFiles(t *testing.T) *origintest.Builder {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 100})
	b.Add(origintest.Random(1, 6<<20), 64<<10)
	return b
}

// damageOnce changes a byte of chunk 7 in the first answer.
func damageOnce() origintest.Damage {
	var calls atomic.Int64
	return origintest.Damage{Chunk: func(_ codec.Hash, i uint32, content []byte) []byte {
		if i == 7 && calls.Add(1) == 1 {
			content = bytes.Clone(content)
			content[0] ^= 1
		}
		return content
	}}
}

// Each open descriptor of a file with a wrong byte gets an error, also for pages that the kernel
// had. A new open returns the right bytes. A mount that was to be stateless has handles.
func TestUnprovenDescriptorsOfWrongFile(t *testing.T) {
	b := largeFiles(t)
	m, plan := mountPlan(t, b, reconstruct.Options{}, Options{Stateless: true})
	plan.SetDamage(damageOnce())
	other, err := os.Open(m.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	p := make([]byte, 4096)
	if _, err := other.ReadAt(p, 7<<16); err != nil || bytes.Equal(p, b.Files[0].Bytes()[7<<16:][:4096]) {
		t.Errorf("the first read of a wrong chunk: %v, or the right bytes", err)
	}
	file, err := os.Open(m.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.ReadAll(file); !errors.Is(err, syscall.EIO) {
		t.Errorf("a scan: %v", err)
	}
	m.awaitNotices()
	for name, f := range map[string]*os.File{"the scan": file, "another descriptor": other} {
		if _, err := f.ReadAt(p, 7<<16); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: a later read: %v", name, err)
		}
	}
	m.checkFile(t, b.Files[0])
}

// awaitNotices waits for the notices to the kernel that earlier reads have caused. The lock orders
// them before the wait, and later ones behind it.
func (m mountFixture) awaitNotices() {
	f := m.s.files
	isMounted := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return !f.unmounted
	}
	if isMounted() {
		f.background.Wait()
	}
	isMounted()
}

// checkFile reads the file a, which is then proven.
func (m mountFixture) checkFile(t *testing.T, f *origintest.File) {
	t.Helper()
	if got, err := os.ReadFile(m.path("a")); err != nil || !bytes.Equal(got, f.Bytes()) {
		t.Errorf("read: %d bytes, %v", len(got), err)
	}
	value := make([]byte, 10)
	if n, err := unix.Getxattr(m.path("a"), xattrVerified, value); err != nil || string(value[:n]) != "chunk" {
		t.Errorf("%s = %q, %v", xattrVerified, value[:max(n, 0)], err)
	}
}

// A later descriptor uses pages of an earlier one only if their file is proven, or if both are of
// one open file.
func TestUnprovenPagesOfClosedFile(t *testing.T) {
	for _, strict := range []bool{false, true} {
		b := largeFiles(t)
		m, plan := mountPlan(t, b, reconstruct.Options{Strict: strict}, Options{})
		plan.SetDamage(damageOnce())
		for range 2 {
			m.readSome(t, strict, b.Files[0])
		}
		if _, err := os.ReadFile(m.path("a")); !strict && !errors.Is(err, syscall.EIO) {
			t.Errorf("a scan: %v", err)
		}
		m.awaitNotices()
		m.checkFile(t, b.Files[0])
	}
}

// readSome reads the wrong chunk. Strict mounts return the right bytes.
func (m mountFixture) readSome(t *testing.T, strict bool, of *origintest.File) {
	t.Helper()
	f, err := os.Open(m.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, 4096)
	if _, err := f.ReadAt(p, 7<<16); err != nil || bytes.Equal(p, of.Bytes()[7<<16:][:4096]) != strict {
		t.Errorf("strict %v: %v, or other bytes", strict, err)
	}
}

// A completingReader completes its file with the first read, whose time ends before the check.
type completingReader struct {
	unprovenReader
	reads int
	limit time.Duration // of the last read
}

func (r *completingReader) NeedsProof() bool { return r.reads == 1 }

func (r *completingReader) ReadAt(ctx context.Context, p []byte, _ int64) (int, error) {
	deadline, _ := ctx.Deadline()
	r.limit = time.Until(deadline)
	if r.reads++; r.reads == 1 {
		return 0, context.DeadlineExceeded
	}
	return len(p), nil
}

func (r *completingReader) Close() error { return nil }

// The read that completes a file has the time limit of its check, also after reads that timed out.
func TestUnprovenReadWaitsForCheck(t *testing.T) {
	f := newFilesystem(volumeOf(newFakeTree()), newFakeEngine(), Options{}.withDefaults())
	r := &completingReader{}
	in := fuse.ReadIn{Fh: f.files.add(&fileHandle{reader: r, size: 10})}
	f.reads.failed(in.NodeId, f.limit, f.limit)
	if _, status := f.Read(nil, &in, make([]byte, 10)); !status.Ok() || r.reads != 2 {
		t.Errorf("%v after %d reads", status, r.reads)
	}
	if r.limit < proofLimit/2 {
		t.Errorf("the wait for the check has %v, want %v", r.limit, proofLimit)
	}
}

// A learningEngine is an unproven fakeEngine whose readers record what they are to learn.
type learningEngine struct {
	*fakeEngine
	learned [][32]byte
}

type learningReader struct {
	unprovenReader
	rangeReader
	e *learningEngine
}

func (e *learningEngine) open(ctx context.Context, id codec.FileID, want int64) (rangeReader, int64, error) {
	r, size, err := e.fakeEngine.open(ctx, id, want)
	return &learningReader{rangeReader: r, e: e}, size, err
}

func (r *learningReader) KeepsPages(uint64) bool { return true }

func (r *learningReader) LearnSHA256(want [32]byte) { r.e.learned = append(r.e.learned, want) }

// An open of a file whose SHA-256 is not known makes the engine learn it: passthrough needs it.
func TestUnprovenOpenLearnsSHA256(t *testing.T) {
	e := &learningEngine{fakeEngine: newFakeEngine()}
	e.unproven = true
	entry, sum := e.file("f", pattern(5<<20)), [32]byte{1}
	entry.SHA256 = &sum
	f := newFilesystem(volumeOf(newFakeTree(entry)), e, Options{}.withDefaults())
	var out fuse.EntryOut
	f.Lookup(nil, &fuse.InHeader{NodeId: 1}, "f", &out)
	for _, isKnown := range []bool{false, true} {
		if isKnown {
			e.ProveSHA256(entry.ID.File, sum)
		}
		in := fuse.OpenIn{InHeader: fuse.InHeader{NodeId: out.NodeId}}
		if status := f.Open(nil, &in, &fuse.OpenOut{}); !status.Ok() {
			t.Errorf("open: %v", status)
		}
		if len(e.learned) != 1 || e.learned[0] != sum {
			t.Errorf("known %v: learned %x", isKnown, e.learned)
		}
	}
}
