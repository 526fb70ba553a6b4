package warm

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
)

// cachedName is the extended attribute with the percentage of a file that needs no origin.
const cachedName = "user.xet.cached"

// A Mounted reads files through a mount. The mount owns the disk cache and stores them there.
type Mounted struct {
	Paths  []string // files and folders of mounts
	Bar    *ui.Progress
	Check  func() error                 // is called before each read; an error ends the run
	Failed func(path string, err error) // reports one file that could not be stored

	mu     sync.Mutex
	all    Selection // guarded by mu
	result Result    // guarded by mu
}

// Do reads all files and returns the sums and the counts. A file that the mount does not store ends the
// run with an error.
func (m *Mounted) Do(ctx context.Context) (Selection, Result, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(warmers)
	m.Bar.Start()
	var err error
	for _, path := range m.Paths {
		err = filepath.WalkDir(path, func(path string, d iofs.DirEntry, err error) error {
			if err != nil || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			if d.Type().IsRegular() {
				group.Go(func() error { return m.file(ctx, path) })
			}
			return nil
		})
		if err != nil {
			break
		}
	}
	waited := group.Wait()
	if waited != nil {
		err = waited
	}
	return m.all, m.result, err
}

// file reads one file, unless the cache has it.
func (m *Mounted) file(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		m.finish(path, 0, false, err)
		return ctx.Err()
	}
	info, err := f.Stat()
	f.Close()
	if err != nil {
		return err
	}
	already, err := isCached(path)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%s: has no %s, so it is in no mount of xetfs that can warm files", path, cachedName)
	}
	if already && inIndex(path, info.Size()) {
		return ctx.Err()
	}
	if err == nil && !already {
		if err := m.Check(); err != nil {
			return err
		}
		err = m.read(ctx, path)
	}
	if errors.Is(err, errNotKept) {
		return fmt.Errorf("%s: %w; xetfs status --json shows the state and the limit of the disk cache", path, err)
	}
	if already {
		m.Bar.Add(info.Size())
	}
	m.finish(path, info.Size(), already, err)
	return ctx.Err()
}

// Limits of the wait until the mount has stored a file that was read. It stores in the background.
const (
	storeWait = 5 * time.Second
	storePoll = 20 * time.Millisecond
)

// read reads a file until the cache has it, at most warmTries times.
func (m *Mounted) read(ctx context.Context, path string) error {
	for range warmTries {
		if err := m.readOnce(ctx, path); err != nil {
			return err
		}
		for end := time.Now().Add(storeWait); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(storePoll) {
			if ok, err := isCached(path); ok || err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errNotKept
}

// readBuffer is the size of one read.
const readBuffer = 1 << 20

// readOnce reads a file. O_DIRECT passes each read to the mount, also of pages that the kernel has.
func (m *Mounted) readOnce(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	buf, err := unix.Mmap(-1, 0, readBuffer, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer unix.Munmap(buf) //nolint:errcheck // the range is that of Mmap
	for ctx.Err() == nil {
		n, err := f.Read(buf)
		m.Bar.Add(int64(n))
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return cause(path, err)
		}
	}
	return ctx.Err()
}

// cause returns the reason that the mount gives for an input/output error.
func cause(path string, err error) error {
	buf := make([]byte, 4096)
	if n, e := unix.Lgetxattr(path, "user.xet.error", buf); e == nil {
		return errors.New(string(buf[:n]))
	}
	return ui.Reason(err)
}

// isCached reports whether a file needs no origin.
func isCached(path string) (bool, error) {
	var buf [16]byte
	n, err := unix.Lgetxattr(path, cachedName, buf[:])
	if err != nil {
		return false, err
	}
	percent, err := strconv.Atoi(string(buf[:n]))
	return percent == 100, err
}

// inIndex reports whether an index page has the bytes of a cached file. A Run does not count such a file
// either. A tiny file of the Hub outside Xet looks the same.
func inIndex(path string, size int64) bool {
	_, err := unix.Lgetxattr(path, "user.xet.hash", nil)
	return size == 0 || size <= page.MaxInline && errors.Is(err, unix.ENODATA)
}

// finish counts one file.
func (m *Mounted) finish(path string, size int64, already bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.Files++
	m.all.Bytes += size
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		m.result.Failed++
		m.Failed(path, err)
	case already:
		m.result.Already++
	}
}
