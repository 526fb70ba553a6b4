package integration

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/xorb"
)

// farDelay is one round trip to the server, farLink its link.
const (
	farDelay = 25 * time.Millisecond
	farLink  = "100MB"
)

// A scan is how a file was read from its start to its end.
type scan struct {
	all       []byte
	first     time.Duration // until the first 4 KiB were there, the file opened anew
	stall     time.Duration // the longest read after the first 4 MiB
	ramp, end time.Time     // those were there; all was there
}

// scanRamp is how much of a scan is not measured.
const scanRamp = 4 << 20

// rate is bytes a second after the first 4 MiB.
func (s scan) rate() float64 { return float64(len(s.all)-scanRamp) / s.end.Sub(s.ramp).Seconds() }

// scanFile reads a file with reads of 1 MiB, the first one less, and calls atRamp between
// two of them. What was read is for the caller to check, since that takes the processor's
// time.
func scanFile(t testing.TB, path string, atRamp func()) (s scan) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	s.all = make([]byte, info.Size()) // before the clock runs: memory that was used takes time
	start := time.Now()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for off, n := 0, 4096; off < len(s.all); {
		began := time.Now()
		got, err := io.ReadFull(f, s.all[off:min(off+n, len(s.all))])
		if err != nil {
			t.Fatal(err)
		}
		s.end = time.Now()
		if off == 0 {
			s.first = s.end.Sub(start)
		}
		if off >= scanRamp {
			s.stall = max(s.stall, s.end.Sub(began))
		}
		off += got
		n = 1<<20 - off%(1<<20)
		if off == scanRamp {
			s.ramp = s.end
			atRamp()
		}
	}
	return s
}

// P9: a scan fetches each byte once, in a few large requests.
func TestFarSequential(t *testing.T) {
	dir, file := bigStore(t, 96<<20)
	s := serveFar(t, dir, "--delay="+farDelay.String(), "--bandwidth="+farLink)
	m := mountFar(t, s.URL)
	before := s.Traffic()
	got := scanFile(t, m.File(file.Hash), func() {})
	sent := s.Since(before)
	t.Logf("%.1f MB/s of %s/s after the first 4 MiB, first byte after %s, longest read %v; %.3f bytes fetched for one, %d requests",
		got.rate()/1e6, farLink, rounds(got.first, farDelay), got.stall, float64(sent.DataBytes)/float64(file.Size), sent.Requests)
	if sha256.Sum256(got.all) != file.SHA256 {
		t.Error("wrong bytes (I1)")
	}
	if sent.DataBytes > file.Size*11/10 {
		t.Errorf("%d bytes of xorbs were sent for %d", sent.DataBytes, file.Size)
	}
	if sent.DataRequests > file.Size>>20 {
		t.Errorf("%d requests for %d MiB", sent.DataRequests, file.Size>>20)
	}
}

// P9: the first byte of a file is three round trips away, or less; then each place is one.
// The delay is long, so that a busy machine does not matter.
func TestFarRandom(t *testing.T) {
	const delay, reads, chunk = 500 * time.Millisecond, 9, 64 << 10
	dir, file := bigStore(t, 64<<20)
	want := noise(1, 64<<20)
	s := serveFar(t, dir, "--delay="+delay.String())
	m := mountFar(t, s.URL)
	start := time.Now()
	r := openReader(t, m.File(file.Hash), bytes.NewReader(want))
	if _, err := r.ReadAt(make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
	first := time.Since(start)
	before := s.Traffic()
	dice := rand.New(rand.NewPCG(1, 1))
	var took []time.Duration
	for range reads {
		start := time.Now()
		if _, err := r.ReadAt(make([]byte, 4096), dice.Int64N(file.Size>>12)<<12); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	sent := s.Since(before)
	t.Logf("first byte after %s; 4 KiB at random: p50 %s, %.2f chunks and %.2f requests for each",
		rounds(first, delay), rounds(middle(took), delay), float64(sent.DataBytes)/chunk/reads, float64(sent.DataRequests)/reads)
	if first >= 4*delay {
		t.Errorf("the first byte came after %s", rounds(first, delay))
	}
	if middle(took) >= 2*delay {
		t.Errorf("a read takes %s", rounds(middle(took), delay))
	}
	if sent.DataBytes > 4*(chunk+xorb.ChunkHeaderSize)*reads || sent.DataRequests > 2*reads {
		t.Errorf("%d reads caused %d requests for %d bytes", reads, sent.DataRequests, sent.DataBytes)
	}
}

// P16: handles that have read a little and stay open are in nobody's way.
func TestFarIdleHandles(t *testing.T) {
	const idle, size = 64, 32 << 20
	dir := t.TempDir()
	_, files := store(t, dir, storeOptions{}, xorb.None, noise(1, size), noise(2, size))
	s := serveFar(t, dir, "--delay="+farDelay.String(), "--bandwidth="+farLink)
	measure := func(handles int) (got scan, sent Traffic) {
		m := mountFar(t, s.URL)
		defer openIdle(t, m.File(files[0].Hash), handles)()
		time.Sleep(300 * time.Millisecond)
		before := s.Traffic()
		got = scanFile(t, m.File(files[1].Hash), func() {})
		return got, s.Since(before)
	}
	alone, _ := measure(0)
	beside, sent := measure(idle)
	t.Logf("a scan alone %.1f MB/s, beside %d idle handles %.1f MB/s (%.2f), first byte %v and %v, longest read %v and %v",
		alone.rate()/1e6, idle, beside.rate()/1e6, beside.rate()/alone.rate(), alone.first, beside.first, alone.stall, beside.stall)
	if sha256.Sum256(alone.all) != files[1].SHA256 || sha256.Sum256(beside.all) != files[1].SHA256 {
		t.Error("wrong bytes (I1)")
	}
	if sent.DataBytes > size*11/10 {
		t.Errorf("%d bytes of xorbs were sent for %d", sent.DataBytes, size)
	}
	if beside.rate() < alone.rate()/4 { // a mount that is stuck, not a machine that is busy
		t.Errorf("beside idle handles a scan has %.1f MB/s of %.1f", beside.rate()/1e6, alone.rate()/1e6)
	}
}

// openIdle opens a file many times, reads a little at a place of its own through each of
// them, in a row, so that fetching ahead begins, and returns how to close them.
func openIdle(t testing.TB, path string, handles int) (closeAll func()) {
	t.Helper()
	files := make([]*os.File, handles)
	parallel(handles, func(i int) {
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
			return
		}
		files[i] = f
		info, err := f.Stat()
		if err != nil {
			t.Error(err)
			return
		}
		off := info.Size() / int64(handles) * int64(i) &^ 4095
		for j := range int64(3) {
			if _, err := f.ReadAt(make([]byte, 4096), off+j<<12); err != nil {
				t.Error(err)
			}
		}
	})
	return func() {
		for _, f := range files {
			f.Close()
		}
	}
}

// farTree publishes a tree of small and large files, and returns its store and what is in
// it.
func farTree(t *testing.T) (storeDir string, want treeList) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "folder")
	storeDir = filepath.Join(t.TempDir(), "store")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	goSources(t, folder, "encoding", "os", "sort")
	writeFile(t, filepath.Join(folder, "large"), noise(1, 24<<20))
	newCatalog(t, storeDir)
	publish(t, storeDir, "tree", folder)
	want, _ = listPatiently(t, folder)
	return storeDir, want
}

// listPatiently lists the regular files of a tree with their sums, and reads again what is
// an input/output error: a bit that flips in one answer and once more in the next is one.
func listPatiently(t *testing.T, root string) (list treeList, failed int) {
	t.Helper()
	for _, name := range filesBelow(t, root) {
		b, err := os.ReadFile(filepath.Join(root, name))
		for try := 0; errors.Is(err, unix.EIO) && try < 5; try++ {
			failed++
			b, err = os.ReadFile(filepath.Join(root, name))
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%q %d %x", name, len(b), sha256.Sum256(b)))
	}
	return list, failed
}

// N04, O09: what goes wrong on the way is seen by nobody: no wrong byte, and hardly an
// error. Before each round all is forgotten.
func TestFarFaults(t *testing.T) {
	storeDir, want := farTree(t)
	for _, tt := range []struct {
		name   string
		flags  []string
		errors int // at most
	}{
		{"flipped bits", []string{"--corrupt=1%"}, 10},
		{"failing", []string{"--fail=1%"}, 0},
		{"cut off", []string{"--truncate=1%"}, 0},
		{"all of it", []string{"--corrupt=1%", "--fail=1%", "--truncate=1%"}, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveFar(t, storeDir, tt.flags...)
			start := time.Now()
			m := mountFar(t, s.URL)
			got, failed := listPatiently(t, m.Path("tree"))
			t.Logf("%d files in %v, %d requests, %d errors", len(got), time.Since(start).Round(time.Millisecond), s.Traffic().Requests, failed)
			want.same(t, tt.name, got)
			if failed > tt.errors {
				t.Errorf("%d reads failed", failed)
			}
		})
	}
}
