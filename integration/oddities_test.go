package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// Files whose sizes and contents are borders of chunking.
func TestF45_Contents(t *testing.T) {
	for _, chunk := range []int{8 << 10, 64 << 10, 128 << 10} {
		for _, scheme := range []xorb.Scheme{xorb.None, xorb.LZ4, xorb.ByteGrouping4LZ4} {
			t.Run(fmt.Sprintf("chunks of %d %s", chunk, scheme), func(t *testing.T) {
				block := harness.Noise(3, chunk)
				files := [][]byte{
					{}, {7}, harness.Noise(1, 8191), harness.Noise(2, 131072), harness.Noise(4, 131073), make([]byte, 1_000_000),
					bytes.Repeat(block, 20), []byte(strings.Repeat("all work and no play\n", 70_000)),
				}
				dir := t.TempDir()
				_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{ChunkSize: chunk}, scheme, files...)
				m := harness.MountSource(t, dir)
				for i, s := range stored {
					sum, err := openReader(t, m.File(s.Hash), bytes.NewReader(files[i])).ReadAll(100_000)
					if err != nil || sum != s.SHA256 {
						t.Errorf("file %d of %d bytes: SHA-256 %x, %v, want %x", i, s.Size, sum, err, s.SHA256)
					}
				}
			})
		}
	}
}

func TestK25_Oddities(t *testing.T) {
	content := harness.Noise(1, 200_000)
	dir := t.TempDir()
	_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, content)
	m := harness.MountSource(t, dir)
	path := m.File(stored[0].Hash)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	tests := []struct {
		name string
		do   func() (any, error)
		want any
		err  error
	}{
		{"data from the start", func() (any, error) { return unix.Seek(fd, 5, unix.SEEK_DATA) }, int64(5), nil},
		{"hole at the end", func() (any, error) { return unix.Seek(fd, 5, unix.SEEK_HOLE) }, int64(200_000), nil},
		{"data behind the end", func() (any, error) { return unix.Seek(fd, 200_000, unix.SEEK_DATA) }, nil, unix.ENXIO},
		{"access to read", func() (any, error) { return nil, unix.Access(path, unix.R_OK) }, nil, nil},
		{"access to execute", func() (any, error) { return nil, unix.Access(path, unix.X_OK) }, nil, unix.EACCES},
		{"attribute into too small a buffer", func() (any, error) { return unix.Getxattr(path, "user.xet.hash", make([]byte, 3)) }, nil, unix.ERANGE},
		{"length of an attribute", func() (any, error) { return unix.Getxattr(path, "user.xet.hash", nil) }, 64, nil},
		{"attribute that is not there", func() (any, error) { return unix.Getxattr(path, "user.nothing", make([]byte, 9)) }, nil, unix.ENODATA},
		{"unknown ioctl", func() (any, error) { return unix.IoctlGetInt(fd, 0x5877) }, nil, unix.ENOTTY},
		{"flock", func() (any, error) { return nil, unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }, nil, nil},
		{"read lock", func() (any, error) { return nil, lock(fd, unix.F_RDLCK) }, nil, nil},
		{"path only", func() (any, error) { return nil, openAndClose(path, unix.O_PATH) }, nil, nil},
		{"no access time", func() (any, error) { return nil, openAndClose(path, unix.O_NOATIME) }, nil, nil},
		{"as a folder", func() (any, error) { return nil, openAndClose(path, unix.O_DIRECTORY) }, nil, unix.ENOTDIR},
		{"name of 255 bytes", func() (any, error) { return nil, unix.Access(m.Path(strings.Repeat("x", 255)), unix.F_OK) }, nil, unix.ENOENT},
		{"name of 256 bytes", func() (any, error) { return nil, unix.Access(m.Path(strings.Repeat("x", 256)), unix.F_OK) }, nil, unix.ENAMETOOLONG},
		{"name in upper case", func() (any, error) { return nil, unix.Access(m.Path("BY-HASH"), unix.F_OK) }, nil, unix.ENOENT},
		{"file below a file", func() (any, error) { return nil, unix.Access(path+"/x", unix.F_OK) }, nil, unix.ENOTDIR},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.do()
			if !errors.Is(err, tt.err) || (tt.err == nil && got != tt.want) {
				t.Errorf("got %v, %v, want %v, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func lock(fd int, kind int16) error {
	return unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: kind, Whence: io.SeekStart})
}

func openAndClose(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// A listing is whole with the smallest buffer that holds one name, and says what
// things are.
func TestK26_Listing(t *testing.T) {
	files := make([][]byte, 300)
	for i := range files {
		files[i] = harness.Noise(uint64(i), 10+i)
	}
	dir := t.TempDir()
	_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, files...)
	m := harness.MountSource(t, dir)
	fd, err := unix.Open(m.Path("by-hash"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, size := range []int{128, 4096, 1 << 20} {
		if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for p := make([]byte, size); ; {
			n, err := unix.ReadDirent(fd, p)
			if errors.Is(err, unix.EINTR) {
				continue // a signal of the Go runtime; TestSignalsDoNotDisturb is about those
			}
			if err != nil {
				t.Fatalf("buffer of %d bytes: %v", size, err)
			}
			if n == 0 {
				break
			}
			_, _, names := unix.ParseDirent(p[:n], -1, nil)
			for _, name := range names {
				if seen[name] {
					t.Errorf("buffer of %d bytes: %s is listed twice", size, name)
				}
				seen[name] = true
			}
		}
		if len(seen) != len(stored) {
			t.Errorf("buffer of %d bytes: %d names, want %d", size, len(seen), len(stored))
		}
	}
	if got := namesIn(t, m.Dir); strings.Join(got, " ") != "by-hash by-sha256 shards" {
		t.Errorf("the root has %q", got)
	}
	if entry, err := os.Lstat(m.Path("by-hash", "..")); err != nil || entry.Sys().(*syscall.Stat_t).Ino != 1 {
		t.Errorf("by-hash/.. is %v, %v, want the root", entry, err)
	}
}
