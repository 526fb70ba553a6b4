package fs

import (
	"context"
	"errors"
	iofs "io/fs"
	"syscall"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// errnos maps errors to errnos, and nothing else does. The first row whose kind is in the
// error's chain wins.
//
// ErrNotExist is from the catalog alone. A missing shard or xorb is ErrNotFound and so an I/O
// error: the name does exist.
var errnos = []struct {
	kind  error
	errno syscall.Errno
	event string // of the log line of an EIO
}{
	{context.Canceled, syscall.EINTR, ""},
	{context.DeadlineExceeded, syscall.EIO, "read_timeout"},
	{iofs.ErrNotExist, syscall.ENOENT, ""},
	{iofs.ErrPermission, syscall.EACCES, "auth_refused"}, // EIO in a read (readErrno)
	{codec.ErrCorrupt, syscall.EIO, "corrupt"},
	{origin.ErrNotFound, syscall.EIO, "origin_gave_up"},
	{origin.ErrUnavailable, syscall.EIO, "origin_gave_up"},
}

// errno translates err for the kernel. The default is EIO.
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

// readErrno is errno for read(2). Programs do not expect EACCES or ENOENT from an open file.
func readErrno(err error) syscall.Errno { return forRead(errno(err)) }

func forRead(code syscall.Errno) syscall.Errno {
	if code == syscall.EACCES || code == syscall.ENOENT {
		return syscall.EIO
	}
	return code
}

// eventOf returns the event of an error that becomes an EIO.
func eventOf(err error) string {
	for _, row := range errnos {
		if row.event != "" && errors.Is(err, row.kind) {
			return row.event
		}
	}
	return "read_failed"
}
