package integration

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

func TestK20_Mapping(t *testing.T) {
	content := harness.Noise(1, 3_000_001)
	dir := t.TempDir()
	_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, content)
	m := harness.MountSource(t, dir)
	path := m.File(stored[0].Hash)
	tests := []struct {
		name string
		prot int
		flag int
	}{
		{"shared", unix.PROT_READ, unix.MAP_SHARED},
		{"private", unix.PROT_READ, unix.MAP_PRIVATE},
		{"private and written", unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE},
		{"populated", unix.PROT_READ, unix.MAP_SHARED | unix.MAP_POPULATE},
		{"executable", unix.PROT_READ | unix.PROT_EXEC, unix.MAP_PRIVATE},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := mapFile(t, path, len(content)+2*os.Getpagesize(), tt.prot, tt.flag)
			end := (len(content) + os.Getpagesize() - 1) &^ (os.Getpagesize() - 1)
			within(t, "mapping", func() {
				if tt.prot&unix.PROT_WRITE != 0 {
					b[5]++ // a copy of our own
					b[5]--
				}
				if !bytes.Equal(b[:len(content)], content) {
					t.Errorf("byte %d differs (I1)", firstDifference(b, content))
				}
				if i := bytes.IndexFunc(b[len(content):end], func(r rune) bool { return r != 0 }); i >= 0 {
					t.Errorf("byte %d behind the end is not zero", i)
				}
				if err := touch(b, end); err == nil {
					t.Error("the page behind the end can be read, want SIGBUS")
				}
			})
		})
	}
}

func mapFile(t *testing.T, path string, n, prot, flag int) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, n, prot, flag)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) }) //nolint:errcheck // it was mapped
	return b
}

// touch reads one byte of a mapping and returns SIGBUS as an error.
func touch(b []byte, i int) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	sink = b[i]
	return nil
}

var sink byte
