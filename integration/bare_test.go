package integration

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// wantFile reads a whole file of a mount and compares it.
func wantFile(t *testing.T, m *harness.Mount, f harness.Stored, content []byte) {
	t.Helper()
	r := openReader(t, m.File(f.Hash), bytes.NewReader(content))
	defer r.f.Close()
	sum, err := r.ReadAll(1 << 20)
	if err != nil || sum != f.SHA256 {
		t.Errorf("file %s: SHA-256 %x, %v, want %x", f.Hash, sum, err, f.SHA256)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Rename(from, to)); err != nil {
		t.Fatal(err)
	}
}

// Shards and xorbs are found by what is in them, wherever they lie and whatever they
// are called.
func TestBareFoundByContent(t *testing.T) {
	content := text(t, 1, 2_000_000)
	tests := []struct {
		name    string
		options harness.StoreOptions
		place   func(i int, name string) string
	}{
		{"flat", harness.StoreOptions{XorbChunks: 5}, func(_ int, name string) string { return name }},
		{"nested by digits", harness.StoreOptions{XorbChunks: 5}, func(_ int, name string) string { return name[:2] + "/" + name[2:4] + "/" + name }},
		{"without extensions", harness.StoreOptions{XorbChunks: 5}, func(_ int, name string) string {
			return strings.TrimSuffix(strings.TrimSuffix(name, ".xorb"), ".shard")
		}},
		{"names that say nothing", harness.StoreOptions{XorbChunks: 5}, func(i int, _ string) string { return fmt.Sprintf("deep/er/object %d", i) }},
		{"without footers", harness.StoreOptions{XorbChunks: 5, NoFooter: true}, func(_ int, name string) string { return name }},
		{"without footers, names that say nothing", harness.StoreOptions{XorbChunks: 5, NoFooter: true, Upload: true}, func(i int, _ string) string { return fmt.Sprint(i) }},
		{"names that lie", harness.StoreOptions{XorbChunks: 5}, func(i int, _ string) string { return fmt.Sprintf("%064d.xorb", i) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, placed := t.TempDir(), t.TempDir()
			_, stored := harness.StoreFiles(t, dir, tt.options, xorb.LZ4, content)
			for i, name := range namesIn(t, dir) {
				move(t, filepath.Join(dir, name), filepath.Join(placed, filepath.FromSlash(tt.place(i, name))))
			}
			wantFile(t, harness.MountSource(t, placed), stored[0], content)
		})
	}
}

// The extended attributes say what a file is and how far it is verified.
func TestBareXattrs(t *testing.T) {
	content := harness.Noise(1, 200_000)
	tests := []struct {
		name     string
		options  harness.StoreOptions
		verified string
		sha      bool
	}{
		{"footer and CAS Info", harness.StoreOptions{}, "chunk", true},
		{"footer", harness.StoreOptions{NoCASInfo: true}, "chunk", true},
		{"CAS Info", harness.StoreOptions{NoFooter: true}, "chunk", true},
		{"neither", harness.StoreOptions{NoFooter: true, NoCASInfo: true}, "chunk", true},
		{"no SHA-256", harness.StoreOptions{NoSHA256: true}, "chunk", false},
		{"no verification hashes", harness.StoreOptions{NoVerify: true}, "chunk", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			_, stored := harness.StoreFiles(t, dir, tt.options, xorb.None, content)
			m := harness.MountSource(t, dir)
			path := m.File(stored[0].Hash)
			if got := xattr(t, path, "user.xet.hash"); got != stored[0].Hash.String() {
				t.Errorf("user.xet.hash is %s, want %s", got, stored[0].Hash)
			}
			if got := xattr(t, path, "user.xet.verified"); got != tt.verified {
				t.Errorf("user.xet.verified is %s, want %s", got, tt.verified)
			}
			sum := hex.EncodeToString(stored[0].SHA256[:])
			if _, err := os.Stat(m.Path("by-sha256", sum)); (err == nil) != tt.sha {
				t.Errorf("by-sha256/%s: %v", sum, err)
			}
			if _, err := unix.Getxattr(path, "user.xet.sha256", nil); err != unix.ENODATA {
				t.Errorf("user.xet.sha256, which nothing has proven: %v, want ENODATA", err)
			}
			wantFile(t, m, stored[0], content)
			if tt.sha {
				readWhole(t, m.Path("by-sha256", sum), sum)
				if got := xattr(t, path, "user.xet.sha256"); got != sum {
					t.Errorf("user.xet.sha256 is %s, want %s", got, sum)
				}
			}
		})
	}
}

// Attributes are exact, and the same after mounting again.
func TestBareAttributes(t *testing.T) {
	dir := t.TempDir()
	files := [][]byte{{}, harness.Noise(1, 1), harness.Noise(2, 512), harness.Noise(3, 513), harness.Noise(4, 70_000)}
	_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, files...)
	attributes := func(m *harness.Mount) string {
		var all strings.Builder
		err := filepath.Walk(m.Dir, func(path string, info os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			rel, _ := filepath.Rel(m.Dir, path)
			fmt.Fprintln(&all, rel, st.Ino, st.Mode, st.Nlink, st.Size, st.Blocks, st.Mtim.Sec)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all.String()
	}
	m := harness.MountSource(t, dir)
	for i, f := range stored {
		var st syscall.Stat_t
		if err := syscall.Stat(m.File(f.Hash), &st); err != nil {
			t.Fatal(err)
		}
		size := int64(len(files[i]))
		if st.Size != size || st.Blocks != (size+511)/512 || st.Mode != syscall.S_IFREG|0o444 || st.Uid != uint32(os.Getuid()) {
			t.Errorf("a file of %d bytes: size %d, %d blocks, mode %o, user %d", size, st.Size, st.Blocks, st.Mode, st.Uid)
		}
	}
	first := attributes(m)
	m.Unmount()
	if again := attributes(harness.MountSource(t, dir)); again != first {
		t.Errorf("mounted again:\n%s\nbefore:\n%s", again, first)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(harness.MountSource(t, dir).Dir, &st); err != nil || st.Blocks == 0 || st.Files < uint64(len(files)) || st.Bavail != 0 {
		t.Errorf("statfs: %+v, %v", st, err)
	}
}

// Shards that come later are seen when the folder is mounted anew.
func TestBareGrowingFolder(t *testing.T) {
	dir := t.TempDir()
	a, b := harness.Noise(1, 100_000), harness.Noise(2, 100_000)
	_, first := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, a)
	m := harness.MountSource(t, dir)
	_, second := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, b)
	if _, err := os.Stat(m.File(second[0].Hash)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a new shard in a mount that is there: %v", err)
	}
	wantFile(t, m, first[0], a)
	m.Unmount()
	m = harness.MountSource(t, dir)
	wantFile(t, m, first[0], a)
	wantFile(t, m, second[0], b)
}

// An empty folder is mounted, and said to be empty.
func TestBareEmpty(t *testing.T) {
	m := harness.MountSource(t, t.TempDir())
	for _, dir := range []string{"by-hash", "by-sha256", "shards"} {
		if got := namesIn(t, m.Path(dir)); len(got) != 0 {
			t.Errorf("%s has %q", dir, got)
		}
	}
	if len(m.Log.After(harness.Warnings)) == 0 {
		t.Error("nothing says that there is no shard")
	}
}
