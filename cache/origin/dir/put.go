package dir

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// PutIfAbsent implements origin.WriteStore. It replaces an object under a content key with another
// length, because such an object is corrupt.
func (s *Store) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := s.checkAbsent(k, len(value)); err != nil {
		return "", err
	}
	tmp, info, err := s.write(value, objectMode, isXorb(k))
	if err != nil {
		return "", wrapPut(k, err)
	}
	defer s.files.root.Remove(tmp) //nolint:errcheck // absent after a rename
	if err := s.link(ctx, tmp, k, len(value)); err != nil {
		return "", err
	}
	return tagOf(k, value, info), nil
}

// checkAbsent returns nil if a value of some size is to be put under k, and ErrExists if k has an
// object. The next Sync makes the name of that object durable, also if another process put it.
// An object under a content key with another size is corrupt and counts as absent.
func (s *Store) checkAbsent(k names.Key, size int) error {
	info, err := s.files.root.Lstat(string(k))
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return nil
	case err != nil:
		return wrapPut(k, err)
	case byContent(k) && (!info.Mode().IsRegular() || info.Size() != int64(size)):
		return nil
	}
	s.noteDirty(k)
	return exists(k)
}

// byContent reports whether k is a content key: its only valid value has the hash in the key.
func byContent(k names.Key) bool {
	return strings.HasPrefix(string(k), dataDir+"/") || strings.HasPrefix(string(k), "tindex/")
}

func exists(k names.Key) error { return fmt.Errorf("%s: %w", k, origin.ErrExists) }

// maxLinks is the maximum number of attempts to link a name while other processes create and
// remove it, or its folder.
const maxLinks = 10

// link gives a file its final name.
func (s *Store) link(ctx context.Context, tmp string, k names.Key, size int) error {
	var err error
	for range maxLinks {
		err = s.inFolder(k, func() error { return s.hard(tmp, string(k)) })
		switch {
		case err == nil:
			s.noteDirty(k)
			return nil
		case cannotLink(err):
			return s.rename(ctx, tmp, k, size)
		case !errors.Is(err, iofs.ErrExist):
			return wrapPut(k, err)
		}
		if err := s.checkAbsent(k, size); err != nil {
			return err
		}
		if byContent(k) {
			return s.replace(tmp, k)
		}
	}
	return wrapPut(k, err)
}

// inFolder makes the folder of an object and calls put. It does so again if another process, which
// deleted the last object in the folder, has removed the folder.
func (s *Store) inFolder(k names.Key, put func() error) (err error) {
	for range maxLinks {
		err = s.files.root.MkdirAll(path.Dir(string(k)), folderMode)
		if errors.Is(err, iofs.ErrExist) { // it was removed before MkdirAll could look at it
			continue
		}
		if err == nil {
			err = put()
		}
		if !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
	}
	return err
}

// replace renames a file to its final name, which may exist.
func (s *Store) replace(tmp string, k names.Key) error {
	if err := s.inFolder(k, func() error { return s.files.root.Rename(tmp, string(k)) }); err != nil {
		return wrapPut(k, err)
	}
	s.files.drop(string(k))
	s.noteDirty(k)
	return nil
}

// cannotLink reports whether the file system has no hard links, or cannot make this one.
func cannotLink(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) ||
		errors.Is(err, unix.EMLINK)
}

// rename is link for file systems without hard links. A lock excludes other writers, because
// rename replaces an existing file.
func (s *Store) rename(ctx context.Context, tmp string, k names.Key, size int) error {
	unlock, err := s.lock(ctx, k)
	if err != nil {
		return wrapPut(k, err)
	}
	defer unlock()
	if err := s.checkAbsent(k, size); err != nil {
		return err
	}
	_, err = s.files.root.Lstat(string(k))
	if byContent(k) || errors.Is(err, iofs.ErrNotExist) {
		return s.replace(tmp, k)
	}
	return wrapPut(k, err)
}

// PutIfMatch implements origin.WriteStore. The value and its name are durable when it returns
// without an error.
func (s *Store) PutIfMatch(ctx context.Context, k names.Key, value []byte, tag origin.Tag) (origin.Tag, error) {
	unlock, err := s.lock(ctx, k)
	if err != nil {
		return "", wrapPut(k, err)
	}
	defer unlock()
	_, now, err := s.Get(ctx, k, "")
	if err != nil && !errors.Is(err, origin.ErrNotFound) {
		return "", err
	}
	if err != nil || now != tag {
		return "", fmt.Errorf("%s: %w", k, origin.ErrConflict)
	}
	mode := os.FileMode(refMode)
	if byContent(k) {
		mode = objectMode
	}
	tmp, info, err := s.write(value, mode, isXorb(k))
	if err != nil {
		return "", wrapPut(k, err)
	}
	if err := s.replace(tmp, k); err != nil {
		return "", errors.Join(err, s.files.root.Remove(tmp))
	}
	// A killed writer may have made the folders above without syncing them.
	for dir := path.Dir(string(k)); ; dir = path.Dir(dir) {
		if err := s.syncDir(dir); err != nil {
			return "", fmt.Errorf("%s: %w: %v", k, origin.ErrUnknown, err)
		}
		if dir == "." {
			return tagOf(k, value, info), nil
		}
	}
}

// Pauses between the attempts to take a lock.
const (
	firstPause = time.Millisecond
	lastPause  = 32 * time.Millisecond
)

// lock excludes other writers of one key, in this process and others. It waits until the lock
// is free or ctx ends. Lock files are never removed, because a waiting writer would lock a file
// without a name. A blocking flock would not return when ctx ends.
func (s *Store) lock(ctx context.Context, k names.Key) (unlock func(), err error) {
	f, err := s.openLock(k)
	if err != nil {
		return nil, err
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) // the kernel's descriptors fit an int
		switch {
		case err == nil:
			return func() { f.Close() }, nil //nolint:errcheck // closing unlocks; nothing was written
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, errors.Join(err, f.Close())
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}

// openLock opens the lock file of a key. The lock file of another user may not be writable, but
// can be locked.
func (s *Store) openLock(k names.Key) (*os.File, error) {
	root := s.files.root
	if err := root.MkdirAll(lockDir, folderMode); err != nil {
		return nil, err
	}
	sum := blake3.Sum256([]byte(k))
	name := path.Join(lockDir, hex.EncodeToString(sum[:16]))
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, lockMode)
	if errors.Is(err, iofs.ErrPermission) {
		return root.Open(name)
	}
	return f, err
}

// wrapPut is wrap for writes. A missing folder or temporary file does not mean that the object
// is absent.
func wrapPut(k names.Key, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, unix.EXDEV):
		return &origin.LocalError{Path: string(k), Err: errors.New("its folder is on another file system than " + tmpDir)}
	case errors.Is(err, iofs.ErrNotExist):
		return &origin.LocalError{Path: string(k), Err: errors.New("its folder, or " + tmpDir + ", is removed all the time")}
	}
	return wrap(string(k), err)
}
