package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// S33: a file that is written through a shared mapping is read again. The kernel moves its
// modification time with the first change of a page only, until the page has been written out.
func TestS33_SharedMapping(t *testing.T) {
	t.Parallel()
	in, store := t.TempDir(), t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(in, &fs); err != nil || fs.Type != unix.EXT4_SUPER_MAGIC && fs.Type != unix.XFS_SUPER_MAGIC && fs.Type != unix.BTRFS_SUPER_MAGIC {
		t.Skipf("file system %#x, %v: changes of dirty pages cannot be seen there", fs.Type, err)
	}
	const first, second = "before the publish", "after one publish!"
	sizes := []int{200, 5000, smallFileSize + 1}
	var maps [][]byte
	for _, size := range sizes {
		f, err := os.OpenFile(filepath.Join(in, fmt.Sprint(size)), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(noisy(size)); err != nil {
			t.Fatal(err)
		}
		m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(m) //nolint:errcheck // of a test
		copy(m, first)
		maps = append(maps, m)
	}
	time.Sleep(2100 * time.Millisecond) // the record takes no younger files
	mustPublish(t, store, "x", in)
	for _, m := range maps {
		copy(m, second)
	}
	mustPublish(t, store, "x", in)
	for _, size := range sizes {
		if got := content(t, store, "x", fmt.Sprint(size)); !bytes.HasPrefix(got, []byte(second)) {
			t.Errorf("a file of %d bytes begins with %q", size, got[:min(len(got), len(first))])
		}
	}
}
