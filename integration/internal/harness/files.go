package harness

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// WriteFile writes a file, and makes its folder.
func WriteFile(t testing.TB, path string, content []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, content, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// IsMounted reports whether dir is a mountpoint.
func IsMounted(t testing.TB, dir string) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(b), " "+strings.ReplaceAll(dir, " ", `\040`)+" ")
}

// Parallel runs n of do at once and waits for all.
func Parallel(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// DropPages makes the kernel forget the pages of a file.
func DropPages(t *testing.T, path string) {
	t.Helper()
	if err := TryDropPages(path); err != nil {
		t.Fatal(err)
	}
}

// TryDropPages is DropPages for other goroutines than that of the test.
func TryDropPages(path string) error {
	return WithFile(path, func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
}

// WaitUntil waits until something that must happen soon is so, twice in a row.
func WaitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for times := 0; times < 2; {
		if time.Now().After(deadline) {
			t.Fatalf("not soon: %s", what)
		}
		if is() {
			times++
		} else {
			times = 0
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// WithFile calls do with an open file.
func WithFile(path string, do func(fd int) error) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// FilesBelow returns the names of all regular files, relative to folder.
func FilesBelow(t *testing.T, folder string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(folder, path) // both begin with folder
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// XorbBytes returns how large the xorbs of a store are.
func XorbBytes(t *testing.T, storeDir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(storeDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".xorb") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
