package stack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLockers(t *testing.T) {
	const table = `1: POSIX  ADVISORY  READ 10 fe:00:131094 128 128
2: FLOCK  ADVISORY  WRITE 11 fe:00:131094 0 EOF
2: -> FLOCK  ADVISORY  WRITE 12 fe:00:131094 0 EOF
3: FLOCK  ADVISORY  WRITE 13 fe:00:31094 0 EOF
4: FLOCK  ADVISORY  WRITE 14 00:2a:131094 0 EOF
5: FLOCK  ADVISORY  WRITE -1 fe:00:131094 0 EOF
6: FLOCK  ADVISORY
7: OFDLCK ADVISORY  WRITE -1 00:06:41 0 EOF
`
	want := []int{11, 14} // the latter on another device: the caller checks the device
	if got := lockers(strings.NewReader(table), 131094); !slices.Equal(got, want) {
		t.Errorf("lockers = %v, want %v", got, want)
	}
}

// The owner is found while it holds the lock, and no longer.
func TestOwnerOf(t *testing.T) {
	dir := t.TempDir()
	if pid := CacheOwner(dir); pid != 0 {
		t.Errorf("owner of nothing: %d", pid)
	}
	f, err := os.Create(filepath.Join(dir, lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if pid := CacheOwner(dir); pid != 0 {
		t.Errorf("owner of what is not locked: %d", pid)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if pid := CacheOwner(dir); pid != os.Getpid() {
		t.Errorf("owner = %d, want %d", pid, os.Getpid())
	}
}
