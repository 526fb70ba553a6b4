package stack

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A DiskCache is an open disk cache that logs its events.
type DiskCache struct {
	*disk.Store
	events *cacheEvents
}

// minDescriptors is the limit of descriptors that a mount with a disk cache needs, with connections to two servers.
const minDescriptors = 40

var errFewDescriptors = errors.New("the limit of descriptors is too low")

// descriptorLimit returns the number of descriptors that this process may have.
func descriptorLimit() uint64 {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // it does not fail
	return limit.Cur
}

// Open opens the disk cache. Its events go to the log.
func (f *CacheFolder) Open(log *slog.Logger) (*DiskCache, error) {
	if f.Err != nil {
		return nil, f.Err
	}
	if limit := descriptorLimit(); f.Options.TakeOver && limit < minDescriptors {
		return nil, fmt.Errorf("disk cache %s: %w: %d; raise it: ulimit -n 1024", f.Path, errFewDescriptors, limit)
	}
	events := newCacheEvents(log)
	o := f.Options
	o.Event = events.add
	store, err := disk.Open(f.Path, o)
	switch {
	case errors.Is(err, disk.ErrBusy):
		owner := CacheOwner(f.Path)
		err = &BusyError{owner, fmt.Sprintf("disk cache %s: %s writes to it; %s", f.Path, processName(owner), f.IfBusy)}
	case errors.Is(err, unix.ENOTDIR):
		err = fmt.Errorf("disk cache %s: %w", f.Path, unix.ENOTDIR)
	case errors.Is(err, unix.EROFS):
		err = fmt.Errorf("disk cache %s: %w; name another folder with --cache-dir", f.Path, unix.EROFS)
	}
	if err != nil {
		events.close()
		return nil, err
	}
	return &DiskCache{store, events}, nil
}

// A BusyError reports a disk cache that another process writes to.
type BusyError struct {
	Owner int // the process, as CacheOwner returns it
	text  string
}

func (e *BusyError) Error() string { return e.text }

// OpenPresent opens the disk cache for a command that looks after it. It sets no limits, so a
// look at the cache evicts nothing, and it does not create a missing cache. A shared cache can
// be read while another process writes to it.
func (f *CacheFolder) OpenPresent(share bool, log *slog.Logger) (*DiskCache, error) {
	if f.Err != nil {
		return nil, f.Err
	}
	if _, err := os.Stat(filepath.Join(f.Path, "FORMAT")); err != nil && !errors.Is(err, iofs.ErrPermission) {
		return nil, fmt.Errorf("%s: there is no disk cache: %w", f.Path, ui.Reason(err))
	}
	f.Options = disk.Options{MaxBytes: math.MaxInt64 / 2, MinFree: -1, Share: share}
	f.IfBusy = "first end it: xetfs umount, if it is a mount"
	c, err := f.Open(log)
	if err != nil && f.Named && isRefused(err) {
		return nil, ArgumentError{err}
	}
	return c, err
}

// Close closes the store and writes its last events to the log.
func (c *DiskCache) Close() error {
	err := c.Store.Close()
	c.events.close()
	return err
}

// isRefused reports whether an error means that the folder is unfit for a cache, rather than
// its disk.
func isRefused(err error) bool {
	return errors.Is(err, disk.ErrRefused) || errors.Is(err, disk.ErrNewer) || errors.Is(err, unix.ENOTDIR)
}

// openDisk opens the disk cache, if the options have one.
func (s *Source) openDisk(o *Options) (err error) {
	if s.shared = o.Shared != nil; s.shared {
		s.Disk = o.Shared
		return nil
	}
	s.Disk, err = o.Disk.OpenOrWarn(o.Log, func(text string) { s.Warnings = append(s.Warnings, text) })
	return err
}

// OpenOrWarn opens the disk cache. It returns nil for a nil f. A failure is a warning, which is
// logged, too. It is an error for a named folder that is unfit or belongs to another user, and with
// too few descriptors.
func (f *CacheFolder) OpenOrWarn(log *slog.Logger, warn func(text string)) (*DiskCache, error) {
	if f == nil {
		return nil, nil
	}
	report := func(event, text string) {
		log.Warn(text, "event", event)
		warn(text)
	}
	c, err := f.Open(log)
	switch {
	case err != nil && f.Named && (errors.Is(err, iofs.ErrPermission) || errors.Is(err, errFewDescriptors)):
		return nil, err
	case err != nil && f.Named && isRefused(err):
		return nil, ArgumentError{fmt.Errorf("%w; name another folder with --cache-dir", err)}
	case err != nil && !f.Options.Share: // without it the command is useless
		return nil, err
	case err != nil:
		report(eventRefused, fmt.Sprintf("%v; no disk cache is used", err))
		return nil, nil
	case !c.Shared():
		return c, nil
	}
	why, until := "it cannot be written to", ""
	if f.Writable() {
		why = processName(CacheOwner(f.Path)) + " writes to it"
		if f.Options.TakeOver {
			until = " until that ends"
		}
	}
	report(eventShared, fmt.Sprintf("disk cache %s: %s, so this process only reads from it%s", f.Path, why, until))
	return c, nil
}

// Writable reports whether this process may write to the folder. Other processes share the
// cache.
func (f *CacheFolder) Writable() bool { return unix.Access(f.Path, unix.W_OK) == nil }

// Sharing returns f with the option to read a cache that is not writable.
func (f *CacheFolder) Sharing() *CacheFolder {
	if f != nil {
		f.Options.Share = true
	}
	return f
}

// TakingOver returns f with the option to write to a shared cache as soon as that is possible.
func (f *CacheFolder) TakingOver() *CacheFolder {
	if f != nil {
		f.Options.Share, f.Options.TakeOver = true, true
	}
	return f
}
