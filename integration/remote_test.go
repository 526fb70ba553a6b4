package integration

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// remoteLink is the link to the server.
const remoteLink = "100MB"

// P9: a scan fetches each byte once, in a few large requests.
func TestRemoteSequential(t *testing.T) {
	t.Parallel()
	dir, file := bigStore(t, 96<<20)
	s := harness.ServeRemote(t, dir, "--delay="+harness.RemoteDelay.String(), "--bandwidth="+remoteLink)
	m := harness.MountRemote(t, s.URL)
	before := s.Traffic()
	got := harness.ScanFile(t, m.File(file.Hash), func() {})
	sent := s.Since(before)
	t.Logf("%.1f MB/s of %s/s after the first 4 MiB, first byte after %s, longest read %v; %.3f bytes fetched for one, %d requests",
		got.Rate()/1e6, remoteLink, harness.Rounds(got.First, harness.RemoteDelay), got.Stall, float64(sent.DataBytes)/float64(file.Size), sent.Requests)
	if sha256.Sum256(got.All) != file.SHA256 {
		t.Error("wrong bytes (I1)")
	}
	if sent.DataBytes > file.Size*11/10+sent.Hedged()<<22 {
		t.Errorf("%d bytes of xorbs were sent for %d", sent.DataBytes, file.Size)
	}
	if sent.DataRequests > file.Size>>20 {
		t.Errorf("%d requests for %d MiB", sent.DataRequests, file.Size>>20)
	}
}

// P9: the first byte of a file takes at most three requests, then each place takes one round trip.
// The delay is long, so that a busy machine does not matter. TestP9_Links has the round trips of
// the first byte in virtual time.
func TestRemoteRandom(t *testing.T) {
	t.Parallel() // it waits for the delays
	const delay, reads, chunk = time.Second, 7, 64 << 10
	dir, file := bigStore(t, 64<<20)
	want := harness.Noise(1, 64<<20)
	s := harness.ServeRemote(t, dir, "--delay="+delay.String())
	m := harness.MountRemote(t, s.URL)
	before := s.Traffic()
	start := time.Now()
	r := openReader(t, m.File(file.Hash), bytes.NewReader(want))
	if _, err := r.ReadAt(make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
	first, opened := time.Since(start), s.Since(before)
	before = s.Traffic()
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
	// TestP9_Links has bounds of the first byte. Here, readahead may have begun, too.
	t.Logf("first byte after %s and %d requests; 4 KiB at random: p50 %s, %.2f chunks and %.2f requests for each",
		harness.Rounds(first, delay), opened.Requests, harness.Rounds(harness.Middle(took), delay), float64(sent.DataBytes)/chunk/reads, float64(sent.DataRequests)/reads)
	if harness.Middle(took) >= 2*delay {
		t.Errorf("a read takes %s", harness.Rounds(harness.Middle(took), delay))
	}
	if sent.DataBytes > 4*(chunk+xorb.ChunkHeaderSize)*reads || sent.DataRequests > 2*reads {
		t.Errorf("%d reads caused %d requests for %d bytes", reads, sent.DataRequests, sent.DataBytes)
	}
}

// P16: idle open handles do not slow a reader.
func TestRemoteIdleHandles(t *testing.T) {
	t.Parallel()
	const idle, size = 64, 32 << 20
	dir := t.TempDir()
	_, files := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, harness.Noise(1, size), harness.Noise(2, size))
	s := harness.ServeRemote(t, dir, "--delay="+harness.RemoteDelay.String(), "--bandwidth="+remoteLink)
	measure := func(handles int) (got harness.Scan, sent harness.Traffic) {
		m := harness.MountRemote(t, s.URL)
		defer harness.OpenIdle(t, m.File(files[0].Hash), handles)()
		time.Sleep(300 * time.Millisecond)
		before := s.Traffic()
		got = harness.ScanFile(t, m.File(files[1].Hash), func() {})
		return got, s.Since(before)
	}
	alone, _ := measure(0)
	beside, sent := measure(idle)
	t.Logf("a scan alone %.1f MB/s, beside %d idle handles %.1f MB/s (%.2f), first byte %v and %v, longest read %v and %v",
		alone.Rate()/1e6, idle, beside.Rate()/1e6, beside.Rate()/alone.Rate(), alone.First, beside.First, alone.Stall, beside.Stall)
	if sha256.Sum256(alone.All) != files[1].SHA256 || sha256.Sum256(beside.All) != files[1].SHA256 {
		t.Error("wrong bytes (I1)")
	}
	if sent.DataBytes > size*11/10+sent.Hedged()<<22 {
		t.Errorf("%d bytes of xorbs were sent for %d", sent.DataBytes, size)
	}
}

// remoteTree publishes a tree of small and large files, and returns its store and what is in
// it.
func remoteTree(t *testing.T) (storeDir string, want treeList) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "folder")
	storeDir = filepath.Join(t.TempDir(), "store")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	goSources(t, folder, "encoding", "os", "sort")
	harness.WriteFile(t, filepath.Join(folder, "large"), harness.Noise(1, 24<<20))
	newCatalog(t, storeDir)
	harness.Publish(t, storeDir, "tree", folder)
	want, _ = listPatiently(t, folder)
	return storeDir, want
}

// listPatiently lists the regular files of a tree with their sums. It repeats reads that fail with
// an input/output error, since two bad answers in a row cause one.
func listPatiently(t *testing.T, root string) (list treeList, failed int) {
	t.Helper()
	for _, name := range harness.FilesBelow(t, root) {
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

// N04, O09: readers do not see faults of the network: no wrong byte, and hardly an error. Each round
// begins without a cache.
func TestRemoteFaults(t *testing.T) {
	t.Parallel()
	storeDir, want := remoteTree(t)
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
			s := harness.ServeRemote(t, storeDir, tt.flags...)
			start := time.Now()
			m := harness.MountRemote(t, s.URL)
			got, failed := listPatiently(t, m.Path("tree"))
			t.Logf("%d files in %v, %d requests, %d errors", len(got), time.Since(start).Round(time.Millisecond), s.Traffic().Requests, failed)
			want.same(t, tt.name, got)
			if failed > tt.errors {
				t.Errorf("%d reads failed", failed)
			}
		})
	}
}

// The kernel sends smaller reads to a mount of a remote store that has little memory.
func TestRemoteMaxRead(t *testing.T) {
	t.Parallel()
	source, _ := bigStore(t, 1000)
	server := harness.ServeRemote(t, source)
	for _, tt := range []struct{ address, memory, want string }{
		{source, "16MiB", "max_read=1048576"},
		{server.URL, "128MiB", "max_read=1048576"},
		{server.URL, "64MiB", "max_read=524288"},
	} {
		m := harness.MountSource(t, tt.address, "--memory="+tt.memory)
		table, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^\S+ ` + regexp.QuoteMeta(m.Dir) + ` .*$`).FindString(string(table))
		if !strings.Contains(line, tt.want) {
			t.Errorf("%s, --memory=%s: %q, want %s", tt.address, tt.memory, line, tt.want)
		}
	}
}
