package extract

import (
	"bytes"
	"context"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// A flatTree is a folder of files whose content is in their entries.
type flatTree struct {
	catalog.Tree
	files []page.Entry
}

func (t *flatTree) Lookup(context.Context, string) (page.Entry, error) {
	return page.Entry{Type: page.Dir, Mode: 0o755}, nil
}

func (t *flatTree) List(context.Context, string, string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		for _, e := range t.files {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// file returns an entry of a file with some size.
func file(name string, size int) page.Entry {
	return page.Entry{
		Path: name, Type: page.File, Mode: 0o644, Size: int64(size), Inline: bytes.Repeat([]byte("x"), size),
		ModTime: time.Unix(1e9, 0),
	}
}

// A later run trusts the size and time of a file. Small files are durable at the end of a run.
func TestRunIsDurable(t *testing.T) {
	store, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c, err := cache.New(objects.New(store, objects.Options{}), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	reader := reconstruct.New(c, reconstruct.Options{})
	defer c.Close()
	out := t.TempDir()
	result, err := Run(t.Context(), Options{
		Tree: &flatTree{files: []page.Entry{file("a", 5), file("b", 100_000)}}, Reader: reader,
		Paths: []string{""}, Folder: out,
	})
	if err != nil || result.Files != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	wantDurable(t, filepath.Join(out, "a"))
	wantDurable(t, filepath.Join(out, "b"))
}

// A large file is durable before it has its name, because a power loss may end the run.
func TestLargeFileIsDurable(t *testing.T) {
	out := t.TempDir()
	top, err := openTop(out)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{}
	top.run = r
	if err := r.write(t.Context(), job{top, file("large", leastLarge)}, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	wantDurable(t, filepath.Join(out, "large"))
	top.release()
}

// wantDurable checks that the disk has all pages of a file. A file system without a disk and an old
// kernel, which does not report that, pass.
func wantDurable(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil || st.Type == unix.TMPFS_MAGIC {
		t.Skip("no disk:", err)
	}
	var part struct{ Off, Len uint64 } // Len 0: to the end
	var pages struct{ Cached, Dirty, Writeback, Evicted, RecentlyEvicted uint64 }
	_, _, no := unix.Syscall6(unix.SYS_CACHESTAT, f.Fd(), uintptr(unsafe.Pointer(&part)), uintptr(unsafe.Pointer(&pages)), 0, 0, 0)
	if no != 0 {
		t.Skip("cachestat:", no)
	}
	if pages.Dirty+pages.Writeback > 0 {
		t.Errorf("%s: the disk lacks %d of %d pages", filepath.Base(path), pages.Dirty+pages.Writeback, pages.Cached)
	}
}
