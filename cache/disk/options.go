package disk

import (
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
)

// Options tune a Store. The zero value is valid.
type Options struct {
	// MaxBytes limits the bytes of all files at any moment, including whole files, the index and
	// its next version. 0: 10 GiB; at least 16 MiB.
	MaxBytes int64

	// MinFree is the number of bytes of the file system that stay free. The cache shrinks, down
	// to nothing, if other programs need the room. 0: a twentieth of the file system; negative:
	// none.
	MinFree int64

	// QueueBytes limits the chunks that wait in memory. Pages may use 4 MiB more, and an empty queue
	// accepts a put of any size. 0: 32 MiB.
	QueueBytes int64

	SyncBytes int64         // written bytes before a sync, whole files included; 0: 64 MiB
	SyncEvery time.Duration // time before a sync; 0: 5 s
	ReadLimit time.Duration // limit of the time that a reader waits for the disk; 0: 1 s

	// Share makes Open read a folder that another process owns, or that this process may not
	// write. Otherwise Open returns ErrBusy or another error. Such a store serves the entries of
	// the time of Open, until the owner evicts them.
	Share bool

	// TakeOver makes a store that shares a folder become its owner after the former owner has
	// exited.
	TakeOver bool

	// Event receives messages for the user. Several goroutines may call it at once, and it must
	// not block. nil: no messages.
	Event func(Event)

	testing testOptions
}

// testOptions are options for tests.
type testOptions struct {
	openDir    func(path string, write bool) (vfs.Dir, error)
	segment    int64         // bytes of a segment
	pause      time.Duration // without writes after a lack of room
	probe      time.Duration // between probes of a failing disk
	ending     time.Duration // limit of Close
	spaceCheck time.Duration // between checks of MinFree
	takeOver   time.Duration // between attempts to take over a folder
	journal    int64         // least bytes of changes before a new snapshot
	recheck    time.Duration // between two comparisons of a whole file that is opened
}

const minBytes = 16 << 20

func (o *Options) setDefaults() {
	setDefault(&o.MaxBytes, 10<<30)
	setDefault(&o.QueueBytes, 32<<20)
	setDefault(&o.SyncBytes, 64<<20)
	setDefault(&o.SyncEvery, 5*time.Second)
	setDefault(&o.ReadLimit, time.Second)
	if o.Event == nil {
		o.Event = func(Event) {}
	}
	t := &o.testing
	if t.openDir == nil {
		t.openDir = vfs.OpenDir
	}
	setDefault(&t.segment, min(max(o.MaxBytes/64, 1<<20), 256<<20))
	setDefault(&t.pause, 30*time.Second)
	setDefault(&t.probe, 30*time.Second)
	setDefault(&t.ending, 10*time.Second)
	setDefault(&t.spaceCheck, 5*time.Second)
	setDefault(&t.takeOver, 10*time.Second)
	setDefault(&t.journal, 4<<20)
	setDefault(&t.recheck, 7*24*time.Hour)
	t.journal = min(t.journal, max(o.MaxBytes/64, 4<<10))
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
