package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// readLimit is the time after which a read counts as hung. The mount's own limit is mountLimit. A busy
// machine may delay the answer.
const readLimit = harness.Patience

// mountLimit is the time after which a mount ends a read.
const mountLimit = time.Minute

// A Reference is what a file must contain.
type Reference interface {
	io.ReaderAt
	Size() int64
}

// A Reader reads one file and checks three promises at each read. They are no wrong byte (I1), no
// short read except at the end of the file (I2), and an end within the limit (I3). A broken promise
// fails the test. The caller judges the errors of reads.
type Reader struct {
	t    testing.TB
	name string
	f    *os.File
	want Reference // nil: nothing but the size is known
	size int64
}

// openReader opens a file of a mount for reading, to be compared with want.
func openReader(t testing.TB, path string, want Reference) *Reader {
	t.Helper()
	var f *os.File
	var err error
	within(t, path+": open", func() { f, err = os.Open(path) })
	if err != nil {
		t.Fatal(err)
	}
	return newReader(t, f, want)
}

// newReader takes over an open file.
func newReader(t testing.TB, f *os.File, want Reference) *Reader {
	t.Helper()
	r := &Reader{t: t, name: f.Name(), f: f, want: want}
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r.size = info.Size()
	if want != nil && r.size != want.Size() {
		t.Fatalf("%s: size is %d, want %d", r.name, r.size, want.Size())
	}
	return r
}

// ReadAt is pread(2), checked.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	return r.check(p, off, fmt.Sprintf("pread of %d bytes at %d", len(p), off), func(p []byte) (int, error) {
		return r.f.ReadAt(p, off)
	})
}

// check calls read for the bytes at off and checks the result.
func (r *Reader) check(p []byte, off int64, what string, read func(p []byte) (int, error)) (n int, err error) {
	r.t.Helper()
	within(r.t, r.name+": "+what, func() { n, err = read(p) })
	if err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	r.checkBytes(p[:max(n, 0)], off, len(p), what)
	return n, err
}

// checkBytes holds what a read of want bytes at off gave to I1 and I2.
func (r *Reader) checkBytes(got []byte, off int64, want int, what string) {
	r.t.Helper()
	if rest := min(int64(want), max(0, r.size-off)); int64(len(got)) != rest {
		r.t.Errorf("%s: %s gave %d bytes, want %d (I2)", r.name, what, len(got), rest)
		return
	}
	if r.want == nil || len(got) == 0 {
		return
	}
	wanted := make([]byte, len(got))
	if _, err := r.want.ReadAt(wanted, off); err != nil && !errors.Is(err, io.EOF) {
		r.t.Errorf("reference of %s: %v", r.name, err)
		return
	}
	if !bytes.Equal(got, wanted) {
		i := firstDifference(got, wanted)
		r.t.Errorf("%s: %s: byte %d is %#02x, want %#02x (I1)", r.name, what, off+int64(i), got[i], wanted[i])
	}
}

// ReadAll reads the file from start to end in steps of n bytes and returns the SHA-256.
func (r *Reader) ReadAll(n int) (sum [32]byte, err error) {
	h := sha256.New()
	p := make([]byte, n)
	for off := int64(0); off < r.size; {
		n, err := r.ReadAt(p, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return sum, err
		}
		if n == 0 {
			return sum, io.ErrUnexpectedEOF // reported by check
		}
		h.Write(p[:n])
		off += int64(n)
	}
	return [32]byte(h.Sum(nil)), nil
}

// ReadRandom reads count ranges of up to most bytes, which may reach past the end.
func (r *Reader) ReadRandom(seed uint64, count, most int) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := make([]byte, most)
	for range count {
		off := rng.Int64N(r.size + 2)
		if _, err := r.ReadAt(p[:1+rng.IntN(most)], off); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// within fails the test if do takes longer than a read may. A goroutine that hangs continues until
// the mount ends.
func within(t testing.TB, what string, do func()) {
	t.Helper()
	withinLimit(t, readLimit, what, do)
}

func withinLimit(t testing.TB, limit time.Duration, what string, do func()) {
	t.Helper()
	codectest.Within(t, limit, what+" (I3)", do)
}

// readWhole returns the content of a small file of a mount, checked against its SHA-256.
// It becomes the reference of what follows.
func readWhole(t testing.TB, path, sha string) *bytes.Reader {
	t.Helper()
	var b []byte
	var err error
	within(t, path+": read", func() { b, err = os.ReadFile(path) })
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != sha {
		t.Fatalf("%s: SHA-256 is %x, want %s (I1)", path, sum, sha)
	}
	return bytes.NewReader(b)
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
