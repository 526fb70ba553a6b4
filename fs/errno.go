package fs

import (
	"context"
	"errors"
	iofs "io/fs"
	"syscall"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// errnos is the only place where an error becomes an errno. The first row whose kind
// is in the error's chain wins.
//
// ErrNotExist comes from the catalog alone. A shard or xorb that is missing is
// ErrNotFound, and to the user an I/O error: the name does exist.
var errnos = []struct {
	kind  error
	errno syscall.Errno
	event string // of the log line of an EIO
}{
	{context.Canceled, syscall.EINTR, ""},
	{context.DeadlineExceeded, syscall.EIO, "read_timeout"},
	{iofs.ErrNotExist, syscall.ENOENT, ""},
	{iofs.ErrPermission, syscall.EACCES, "auth_refused"}, // EIO where a read says it (readErrno)
	{codec.ErrCorrupt, syscall.EIO, "corrupt"},
	{origin.ErrNotFound, syscall.EIO, "origin_gave_up"},
	{origin.ErrUnavailable, syscall.EIO, "origin_gave_up"},
}

// errno translates err for the kernel. What no row knows is an I/O error.
func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	for _, row := range errnos {
		if errors.Is(err, row.kind) {
			return row.errno
		}
	}
	return syscall.EIO
}

// readErrno is errno for read(2), of which programs do not expect that a file they
// have opened is forbidden, or has no name.
func readErrno(err error) syscall.Errno {
	return forRead(errno(err))
}

func forRead(code syscall.Errno) syscall.Errno {
	if code == syscall.EACCES || code == syscall.ENOENT {
		return syscall.EIO
	}
	return code
}

// eventOf names the event of an error that became an EIO.
func eventOf(err error) string {
	for _, row := range errnos {
		if row.event != "" && errors.Is(err, row.kind) {
			return row.event
		}
	}
	return "read_failed"
}
