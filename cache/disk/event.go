package disk

import (
	"errors"

	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
)

var (
	// ErrBusy means that another process writes to the folder, or that more is waiting to
	// be written than the disk takes.
	ErrBusy = errors.New("disk cache is busy")

	// ErrFull means that there is no room, even without all that could be thrown away.
	ErrFull = errors.New("disk cache is full")

	// ErrSuspended means that the disk failed too often and is left alone for a while.
	ErrSuspended = errors.New("disk cache is suspended")

	// ErrReadOnly means that this process only reads what another one keeps.
	ErrReadOnly = errors.New("disk cache is read-only")

	// ErrNewer means that a newer program wrote the folder. It was left as it is.
	ErrNewer = wal.ErrNewer

	// ErrRefused means that the folder is not one for a cache: somebody else's, writable
	// by others, or full of other things. It was left as it is.
	ErrRefused = vfs.ErrRefused

	// ErrClosed means that Close was called.
	ErrClosed = errors.New("disk cache is closed")
)

// Names of events, which are stable.
const (
	EventDropped   = "cache_entry_dropped" // something was damaged and is forgotten
	EventFull      = "cache_full"          // nothing is written for 30 seconds
	EventSuspended = "cache_suspended"     // neither read nor written, until the disk works again
	EventResumed   = "cache_resumed"       // it does
	EventOwned     = "cache_owned"         // who wrote to it has gone, and this process does so now
	EventRebuilt   = "cache_rebuilt"       // the index was damaged: all or some of it is forgotten
)

// An Event is something that a person who runs the program may want to know. No caller
// of the store sees it: to them, what is gone was never there.
type Event struct {
	Name string
	What string // "xorb 0706… chunks [3, 4)", "page …", "file …", "index-000003.log"; may be empty
	Err  error  // why
}
