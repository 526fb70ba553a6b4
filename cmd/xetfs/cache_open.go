package main

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk"
)

// A diskCache is an open disk cache, whose events are in the log.
type diskCache struct {
	*disk.Store
	events *cacheEvents
}

// open opens the disk cache. What happens to it goes to the log.
func (f *cacheFolder) open(log *slog.Logger) (*diskCache, error) {
	if f.err != nil {
		return nil, f.err
	}
	events := newCacheEvents(log)
	o := f.options
	o.Event = events.tell
	store, err := disk.Open(f.path, o)
	switch {
	case errors.Is(err, disk.ErrBusy):
		err = fmt.Errorf("disk cache %s: %s writes to it; %s", f.path, processName(ownerOf(f.path)), f.ifBusy)
	case errors.Is(err, unix.ENOTDIR):
		err = fmt.Errorf("disk cache %s: %w", f.path, unix.ENOTDIR)
	case errors.Is(err, unix.EROFS):
		err = fmt.Errorf("disk cache %s: %w; name another folder with --cache-dir", f.path, unix.EROFS)
	}
	if err != nil {
		events.close()
		return nil, err
	}
	return &diskCache{store, events}, nil
}

// Close closes the store and writes down what it still had to tell.
func (c *diskCache) Close() error {
	err := c.Store.Close()
	c.events.close()
	return err
}

// refused says whether an error means that a folder, rather than its disk, is not one for a
// cache.
func refused(err error) bool {
	return errors.Is(err, disk.ErrRefused) || errors.Is(err, disk.ErrNewer) || errors.Is(err, unix.ENOTDIR)
}

// openDisk opens the disk cache, if there is to be one. Without it everything goes on,
// unless the user has named a folder that is not one for a cache, or not theirs.
func (s *source) openDisk(o *sourceOptions) error {
	f := o.disk
	if f == nil {
		return nil
	}
	c, err := f.open(o.log)
	switch {
	case err != nil && f.named && errors.Is(err, iofs.ErrPermission):
		return err
	case err != nil && f.named && refused(err):
		return ArgumentError{fmt.Errorf("%w; name another folder with --cache-dir", err)}
	case err != nil && !f.options.Share: // without it the command is useless
		return err
	case err != nil:
		s.warn(o.log, eventRefused, fmt.Sprintf("%v; it goes on without a disk cache", err))
		return nil
	}
	s.disk = c
	if !c.Shared() {
		return nil
	}
	why, until := "it cannot be written to", ""
	if f.writable() {
		why = processName(ownerOf(f.path)) + " writes to it"
		if f.options.TakeOver {
			until = " until that ends"
		}
	}
	s.warn(o.log, eventShared, fmt.Sprintf("disk cache %s: %s, so this one reads what is there and keeps nothing%s", f.path, why, until))
	return nil
}

// writable says whether this process may write to the folder. Where it may not, a cache is
// shared although nobody writes to it.
func (f *cacheFolder) writable() bool { return unix.Access(f.path, unix.W_OK) == nil }

// warn logs what a user should hear of.
func (s *source) warn(log *slog.Logger, event, text string) {
	log.Warn(text, "event", event)
	s.warnings = append(s.warnings, text)
}

// shared is a folder that may be read if it cannot be written to.
func (f *cacheFolder) shared() *cacheFolder {
	if f != nil {
		f.options.Share = true
	}
	return f
}

// inherited is one that is written to as soon as that can be.
func (f *cacheFolder) inherited() *cacheFolder {
	if f != nil {
		f.options.Share, f.options.TakeOver = true, true
	}
	return f
}
