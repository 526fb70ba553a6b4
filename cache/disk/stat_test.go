package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
)

// deadMount makes every look at a file fail: it is the mount of a FUSE server that has gone.
func deadMount(t testing.TB, path string) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	options := "fd=" + strconv.Itoa(fd) + ",rootmode=100000,user_id=0,group_id=0"
	err = unix.Mount("nobody", path, "fuse", 0, options)
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Lstat(path); err == nil {
		t.Fatal("a file can be looked at, and should not")
	}
}

// TestD04_OneFileCannotBeLookedAt opens a folder with files that cannot be examined. Only these
// are lost.
func TestD04_OneFileCannotBeLookedAt(t *testing.T) {
	for _, tt := range []struct {
		name   string // of the file
		chunks int    // that are left, of 3 segments with 25
		wholes int    // that are left, of 3
		event  string
	}{
		{"seg/00000002", 50, 3, EventDropped},
		{index.FileName(hashOf(1)), 75, 2, EventDropped},
		{tmpFileName(hashOf(7)), 75, 3, EventDropped},
		{"index-000001.log", 0, 0, EventRebuilt},
		{"seg/.nfs0001", 75, 3, ""},
		{wal.DamagedName, 75, 3, ""},
	} {
		t.Run(filepath.Base(tt.name), func(t *testing.T) {
			dir := cacheDir(t)
			b := openAt(t, dir)
			b.putThree()
			b.Close()
			path := filepath.Join(dir, tt.name)
			f, err := os.OpenFile(path, os.O_CREATE, 0o600)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			deadMount(t, path)

			for _, share := range []bool{false, true} {
				b := openAt(t, dir, func(o *Options) { o.Share = share })
				found, wholes := 0, 0
				for n := range 3 {
					found += b.has(n, 0, 25)
					if b.hasFile(n) {
						wholes++
					}
				}
				if found != tt.chunks || wholes != tt.wholes {
					t.Errorf("%d chunks and %d files are left, want %d and %d", found, wholes, tt.chunks, tt.wholes)
				}
				if share {
					continue
				}
				if tt.event != "" && b.saw(tt.event) != 1 || tt.event == "" && len(b.events) > 0 {
					t.Errorf("events: %v, want one %s", b.events, tt.event)
				}
				b.put(9, 0, 25)
				b.want(9, 0, 25, 25)
				if state := b.Stats().State; state != "ok" {
					t.Errorf("it is %s", state)
				}
				defer b.Close()
			}
		})
	}
}
