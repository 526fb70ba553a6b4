package hubimport

import (
	"context"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
)

// Bounds of the private catalogs. All of them are copies of listings of the Hub.
const (
	maxUnused   = 30 * 24 * time.Hour // a catalog that was not used for so long is removed
	maxCatalogs = 1000                // the catalogs that were used last remain
	maxVersions = 1000                // of one catalog, which then begins anew
)

// lockSuffix is that of the file beside the folder of a catalog. Each process that uses the catalog
// has a shared lock of it. Its time is that of the last use: an Open, an import or a Close.
const lockSuffix = ".lock"

// A folderLock is a lock of the folder of a catalog.
type folderLock struct{ file *os.File }

// lockPause is the pause between tries of a lock, while another process removes the catalog.
const lockPause = 5 * time.Millisecond

// lockFolder locks the folder of a catalog for its use.
func lockFolder(ctx context.Context, folder string) (*folderLock, error) {
	for {
		l, err := openLock(folder, unix.LOCK_SH)
		if err == nil {
			return l, l.touch()
		}
		if !errors.Is(err, errLocked) {
			return nil, err
		}
		if err := origin.Sleep(ctx, lockPause); err != nil {
			return nil, err
		}
	}
}

var errLocked = errors.New("another process uses the catalog")

// openLock opens and locks a lock file. The error is errLocked if that is not possible now.
func openLock(folder string, how int) (*folderLock, error) {
	f, err := os.OpenFile(folder+lockSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) || err == nil && !isNamed(f) {
		err = errLocked // the last one: another process has removed the file
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &folderLock{f}, nil
}

// isNamed reports whether an open file still has its name.
func isNamed(f *os.File) bool {
	opened, err := f.Stat()
	named, err2 := os.Stat(f.Name())
	return err == nil && err2 == nil && os.SameFile(opened, named)
}

// touch records a use.
func (l *folderLock) touch() error {
	now := time.Now()
	return os.Chtimes(l.file.Name(), now, now)
}

// unlock ends the use.
func (l *folderLock) unlock() { _ = l.file.Close() } // nothing was written

// removeUnused removes a catalog, unless a process uses it.
func removeUnused(folder string) {
	l, err := openLock(folder, unix.LOCK_EX)
	if err != nil {
		return
	}
	defer l.unlock()
	if removeFolder(folder) == nil && removeFile(folder+doubtSuffix) == nil {
		_ = removeFile(folder + lockSuffix) // an old lock file is found again
	}
}

// goneSuffix is that of a folder whose catalog is being removed. A process that is killed meanwhile leaves only
// such a folder, and no part of a catalog.
const goneSuffix = ".gone"

// removeFolder removes the folder of a catalog.
func removeFolder(folder string) error {
	gone := folder + goneSuffix
	if err := os.RemoveAll(gone); err != nil { // of a process that was killed
		return err
	}
	if err := os.Rename(folder, gone); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(gone)
}

func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	return nil
}

// prune removes the catalogs below a folder that are too old, and the oldest ones above a number. It
// completes removals of processes that were killed. A failure leaves the catalogs.
func prune(below string, most int) {
	entries, _ := os.ReadDir(below)
	type used struct {
		folder string
		last   time.Time
	}
	var all []used
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), goneSuffix) {
			_ = os.RemoveAll(filepath.Join(below, e.Name()))
			continue
		}
		name := strings.TrimSuffix(e.Name(), lockSuffix)
		if e.IsDir() == (name != e.Name()) { // neither a folder nor a lock file
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		u := used{filepath.Join(below, name), info.ModTime()}
		if n := len(all); n > 0 && all[n-1].folder == u.folder { // the lock file is behind its folder
			all[n-1] = u
		} else {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b used) int { return b.last.Compare(a.last) })
	for i, u := range all {
		if i >= most || time.Since(u.last) > maxUnused {
			removeUnused(u.folder)
		}
	}
}

// mustRenew reports whether the catalog has as many versions as allowed. It is also true if the index of files
// outside Xet is lost, because later versions are based on it.
func (im *Importer) mustRenew(ctx context.Context) bool {
	ref, err := im.catalog.ReadRef(ctx, im.symbol)
	isFull := err == nil && ref.Ref.Latest != nil && ref.Ref.Latest.Number+1 >= im.o.Versions
	return isFull || im.lacksPlain(ctx)
}

// renew makes an empty catalog, if no other process uses it. It is called after a listing is
// complete: without the Hub, the old versions remain.
func (im *Importer) renew(ctx context.Context) error {
	im.plain.Store(nil)
	if err := im.closeCatalog(); err != nil {
		return err
	}
	removeUnused(im.folder)
	return im.openCatalog(ctx)
}
