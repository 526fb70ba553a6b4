package disk

import (
	"errors"

	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
)

var (
	// ErrBusy means that another process writes to the folder, or that the queue of the writer
	// is full.
	ErrBusy = errors.New("disk cache is busy")

	// ErrFull means that there is no room, even after eviction.
	ErrFull = errors.New("disk cache is full")

	// ErrSuspended means that the disk failed too often and is not used for a while.
	ErrSuspended = errors.New("disk cache is suspended")

	// ErrReadOnly means that another process owns the folder and this one only reads it.
	ErrReadOnly = errors.New("disk cache is read-only")

	// ErrNewer means that a newer program wrote the folder. The folder was left as it is.
	ErrNewer = wal.ErrNewer

	// ErrRefused means that the folder is not suitable for a cache: it belongs to another user,
	// is writable for others, or holds other files. The folder was left as it is.
	ErrRefused = vfs.ErrRefused

	// ErrClosed means that Close was called.
	ErrClosed = errors.New("disk cache is closed")
)

// Names of events, which are stable.
const (
	EventDropped   = "cache_entry_dropped" // a corrupt entry was forgotten
	EventFull      = "cache_full"          // nothing is written for 30 seconds
	EventSuspended = "cache_suspended"     // no reads and writes until the disk works again
	EventResumed   = "cache_resumed"       // the disk works again
	EventOwned     = "cache_owned"         // the owner has exited, and this process writes now
	EventRebuilt   = "cache_rebuilt"       // FORMAT or the index was damaged: entries may be forgotten
)

// An Event is a message for the user of the program. Callers of the store do not see events: for
// them, a forgotten entry is a miss.
type Event struct {
	Name string
	What string // "xorb 0706… chunks [3, 4)", "page …", "file …", "index-000003.log", "FORMAT"; may be empty
	Err  error  // the reason
}
