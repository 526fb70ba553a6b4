package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// A Fuse is what a mount says of the messages it got.
type Fuse struct {
	Open, Passthrough, Read int64
}

// fuseOf returns the counters of FUSE in the statistics of a mount.
func fuseOf(t testing.TB, m *harness.Mount) Fuse {
	t.Helper()
	var stats struct{ Fuse Fuse }
	if err := json.Unmarshal([]byte(xattr(t, m.Dir, "user.xet.stats")), &stats); err != nil {
		t.Fatal(err)
	}
	return stats.Fuse
}

// readOpen reads all of a file and compares it.
func readOpen(t testing.TB, f *os.File, want []byte) {
	t.Helper()
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, %v, want %d; or others", f.Name(), len(got), err, len(want))
	}
}

func readAgain(t testing.TB, path string, want []byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	readOpen(t, f, want)
}

// untilPassed opens a file until the kernel reads it directly.
func untilPassed(t testing.TB, m *harness.Mount, path string) {
	t.Helper()
	for end := time.Now().Add(harness.MountLimit); ; time.Sleep(20 * time.Millisecond) {
		before := fuseOf(t, m).Passthrough
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		switch {
		case fuseOf(t, m).Passthrough > before:
			return
		case time.Now().After(end):
			t.Fatalf("not materialized within %v: %s", harness.MountLimit, xattr(t, m.Dir, "user.xet.stats"))
		}
	}
}

// needPassthrough skips a test on a kernel without passthrough.
func needPassthrough(t testing.TB) {
	t.Helper()
	harness.NeedFuse(t)
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	major, rest, _ := strings.Cut(release, ".")
	minor, _, _ := strings.Cut(rest, ".")
	if major < "6" || major == "6" && len(minor) == 1 && minor < "9" {
		t.Skipf("Linux %s has no FUSE passthrough", release)
	}
	if os.Geteuid() != 0 {
		t.Skip("passthrough takes the rights of root")
	}
}

// A file that was read completely is materialized. Then it causes no READ message in this mount, in
// the next one, or through a mapping. Its data is read once from the origin.
func TestP6_ReadByTheKernel(t *testing.T) {
	t.Parallel()
	needPassthrough(t)
	const size = 24<<20 + 123
	// Reads that overtake others by far make a stream drop what it prefetched, and fetch it again.
	// A busy machine delays reads so much in one of a hundred runs.
	const again = 2 * origin.ReadaheadStep
	store, file := bigStore(t, size)
	want := harness.Noise(1, size)
	tests := []struct {
		name   string
		source func() (string, func() harness.Traffic)
		flags  []string
		most   int64 // bytes of xorbs; 0: it cannot tell
	}{
		{"remote, read completely", func() (string, func() harness.Traffic) {
			s := harness.ServeRemote(t, store)
			return s.URL, s.Traffic
		}, nil, size + size/50 + again},
		{"near, when opened", func() (string, func() harness.Traffic) { return store, func() (none harness.Traffic) { return } }, []string{"--materialize=always"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source, sent := tt.source()
			flags := append([]string{"--cache-dir=" + filepath.Join(t.TempDir(), "cache")}, tt.flags...)
			m := harness.MountSource(t, source, flags...)
			readAgain(t, m.File(file.Hash), want)
			untilPassed(t, m, m.File(file.Hash))
			fetched := sent()
			if most := tt.most + fetched.Hedged()*origin.ReadaheadStep; fetched.DataBytes > most {
				t.Errorf("%d bytes were fetched, want %d at most", fetched.DataBytes, most)
			}
			for range 2 {
				before := fuseOf(t, m)
				readAgain(t, m.File(file.Hash), want)
				checkMapped(t, m.File(file.Hash), want)
				if now := fuseOf(t, m); now.Read != before.Read || now.Passthrough != before.Passthrough+2 {
					t.Errorf("messages = %+v, before = %+v", now, before)
				}
				m.Unmount()
				m = harness.MountSource(t, source, flags...)
			}
			if n := sent().DataBytes - fetched.DataBytes; n > 0 {
				t.Errorf("%d bytes were fetched of what is materialized", n)
			}
		})
	}
}

// checkMapped maps a file and compares it, also once it is closed.
func checkMapped(t testing.TB, path string, want []byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, len(want), unix.PROT_READ, unix.MAP_PRIVATE)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("%s: mapped, it has other bytes", path)
	}
	if err := unix.Munmap(b); err != nil {
		t.Error(err)
	}
}

// An open file keeps its content when the cache is cleared under it, and when the mount is killed.
func TestP6_OpenStaysReadable(t *testing.T) {
	needPassthrough(t)
	const size = 4<<20 + 1
	store, file := bigStore(t, size)
	want := harness.Noise(1, size)
	cache := filepath.Join(t.TempDir(), "cache")
	m := harness.MountSource(t, store, "--cache-dir="+cache, "--materialize=always")
	untilPassed(t, m, m.File(file.Hash))
	f, err := os.Open(m.File(file.Hash))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := filepath.Glob(filepath.Join(cache, "whole", "*"))
	if err != nil || len(all) != 1 {
		t.Fatalf("materialized: %v, %v", all, err)
	}
	if err := os.Remove(all[0]); err != nil {
		t.Fatal(err)
	}
	readOpen(t, f, want)
	readAgain(t, m.File(file.Hash), want)
	m.Ended = true
	m.Signal(syscall.SIGKILL)
	if _, ok := m.Wait(harness.UnmountLimit); !ok {
		t.Fatal("it was killed, and goes on")
	}
	readOpen(t, f, want)
}
