package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/xorb"
)

// hashOf returns a hash for the nth xorb, page or file of a test.
func hashOf(n int) (h codec.Hash) {
	seed := uint64(n)
	for i := 0; i < len(h); i += 8 {
		binary.LittleEndian.PutUint64(h[i:], codectest.SplitMix64(&seed))
	}
	return h
}

// chunkOf returns chunk c of the nth xorb, packed, header included. Its length depends on
// both and is about size.
func chunkOf(n int, c uint32, size int) []byte {
	seed := uint64(n)<<20 | uint64(c)
	size = size/2 + int(seed*7919%uint64(size))
	b := xorb.ChunkHeader{Packed: size, Unpacked: size}.Append(nil)
	return append(b, codectest.Bytes(seed, size)...)
}

// packedOf returns chunks of the nth xorb, back to back.
func packedOf(n int, r codec.ChunkRange, size int) (b []byte) {
	for c := r.Start; c < r.End; c++ {
		b = append(b, chunkOf(n, c, size)...)
	}
	return b
}

func runOf(t testing.TB, n int, r codec.ChunkRange, size int) *xorb.Run {
	t.Helper()
	run, err := xorb.ParseRun(packedOf(n, r, size), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func chunks(start, end uint32) codec.ChunkRange { return codec.ChunkRange{Start: start, End: end} }

func pageOf(n int) []byte { return codectest.Bytes(uint64(n)+1<<40, 200+n%500) }

func fileOf(n int) []byte { return codectest.Bytes(uint64(n)+1<<41, 1000+n*777%20000) }

// A fixture is a store over a simDisk, and its events.
type fixture struct {
	*Store
	t    testing.TB
	disk *simDisk

	mu     sync.Mutex
	events []Event
}

// chunkSize is about the length of a chunk in most tests.
const chunkSize = 500

// smallReadLimit lets nothing but a disk that hangs be slow, however busy the machine is.
const smallReadLimit = time.Minute

func smallOptions(d *simDisk) Options {
	return Options{
		MaxBytes:  1 << 20,
		MinFree:   -1,
		SyncEvery: time.Hour,
		ReadLimit: smallReadLimit,
		testing: testOptions{
			openDir: d.openDir,
			segment: 16 << 10,
			pause:   50 * time.Millisecond,
			probe:   5 * time.Millisecond,
			journal: 8 << 10,
		},
	}
}

func open(t testing.TB, d *simDisk, change ...func(*Options)) *fixture {
	t.Helper()
	b, err := tryOpen(t, d, change...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tryOpen(t testing.TB, d *simDisk, change ...func(*Options)) (*fixture, error) {
	t.Helper()
	b := &fixture{t: t, disk: d}
	return b, b.open("cache", smallOptions(d), change)
}

func (b *fixture) open(dir string, o Options, change []func(*Options)) error {
	o.Event = func(e Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
	}
	for _, c := range change {
		c(&o)
	}
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	b.Store = s
	b.t.Cleanup(func() { s.Close() })
	return nil
}

// saw counts the events of a name.
func (b *fixture) saw(name string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.Name == name {
			n++
		}
	}
	return n
}

// put stores chunks of the nth xorb and waits until they can be found.
func (b *fixture) put(n int, start, end uint32) {
	b.t.Helper()
	if err := b.putRun(hashOf(n), runOf(b.t, n, chunks(start, end), chunkSize)); err != nil {
		b.t.Fatal(err)
	}
	b.flush()
}

func (b *fixture) flush() {
	b.t.Helper()
	if err := b.Flush(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// has returns how many chunks from the first on come back, and fails if any is wrong.
func (b *fixture) has(n int, start, end uint32) int {
	b.t.Helper()
	run, ok := b.Run(hashOf(n), chunks(start, end))
	if !ok {
		return 0
	}
	if run.Chunks.Start != start || run.Chunks.End > end || run.Chunks.Len() == 0 {
		b.t.Fatalf("requested chunks [%d, %d), got %s", start, end, run.Chunks)
	}
	if !bytes.Equal(run.Packed, packedOf(n, run.Chunks, chunkSize)) {
		b.t.Fatalf("xorb %d chunks %s: wrong bytes", n, run.Chunks)
	}
	return run.Chunks.Len()
}

// want fails unless the expected number of chunks can be read.
func (b *fixture) want(n int, start, end uint32, found int) {
	b.t.Helper()
	if got := b.has(n, start, end); got != found {
		b.t.Errorf("xorb %d chunks [%d, %d): %d found, want %d", n, start, end, got, found)
	}
}

// keepFile stores the nth whole file.
func (b *fixture) keepFile(n int) {
	b.t.Helper()
	if err := b.putFile(n); err != nil {
		b.t.Fatal(err)
	}
}

// openFile opens the nth whole file, which must be kept, until the test ends.
func (b *fixture) openFile(n int) *File {
	b.t.Helper()
	f, ok := b.OpenFile(hashOf(n))
	if !ok {
		b.t.Fatalf("file %d is not kept", n)
	}
	b.t.Cleanup(func() { f.Close() })
	return f
}

// putThree stores three xorbs of 25 chunks, each in a segment of its own, and three whole files.
func (b *fixture) putThree() {
	b.t.Helper()
	for n := range 3 {
		b.put(n, 0, 25)
		b.writerSeals()
		b.keepFile(n)
	}
}

// wholeBytes returns the content of a whole file.
func (b *fixture) wholeBytes(n int) ([]byte, bool) {
	b.t.Helper()
	f, ok := b.OpenFile(hashOf(n))
	if !ok {
		return nil, false
	}
	defer f.Close()
	e, err := f.f.Stat()
	if err != nil {
		return nil, false
	}
	got := make([]byte, e.Size)
	if _, err := f.f.ReadAt(got, 0); err != nil && len(got) > 0 {
		return nil, false
	}
	return got, true
}

func (b *fixture) hasFile(n int) bool {
	b.t.Helper()
	got, ok := b.wholeBytes(n)
	if ok && !bytes.Equal(got, fileOf(n)) {
		b.t.Fatalf("file %d: %d wrong bytes", n, len(got))
	}
	return ok
}

func (b *fixture) putFile(n int) error {
	content := fileOf(n)
	return b.PutFile(hashOf(n), int64(len(content)), io.MultiReader(bytes.NewReader(content[:len(content)/2]), bytes.NewReader(content[len(content)/2:])))
}

// again closes the store and opens the folder again.
func (b *fixture) again(change ...func(*Options)) *fixture {
	b.t.Helper()
	if err := b.Close(); err != nil {
		b.t.Fatal(err)
	}
	return open(b.t, b.disk, change...)
}

func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(codectest.Patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", codectest.Patience, what)
		}
	}
}

// putRun stores a copy of a run.
func (s *Store) putRun(x codec.Hash, run *xorb.Run) error {
	again, err := xorb.ParseRun(bytes.Clone(run.Packed), run.Chunks, nil)
	if err != nil {
		return err
	}
	return s.PutRunNoCopy(x, again, func() {})
}

// dropFile forgets a whole file as corrupt.
func (s *Store) dropFile(h codec.Hash) {
	if s.forgetFile(h) {
		s.dropped("file "+h.String(), errors.New("not what its hash says"))
	}
}
