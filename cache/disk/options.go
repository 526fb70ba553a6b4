package disk

import (
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
)

// Options tune a Store. The zero value is good.
type Options struct {
	// MaxBytes is the most that all files together take at any moment, whole files, the
	// index and its next version included. 0: 10 GiB; at least 16 MiB.
	MaxBytes int64

	// MinFree is how many bytes of the file system stay free: the cache shrinks, down to
	// nothing, when others need the room. 0: a twentieth of it; negative: none.
	MinFree int64

	QueueBytes int64         // most that waits in memory to be written; 0: 32 MiB
	SyncBytes  int64         // written bytes after which they are made to last; 0: 64 MiB
	SyncEvery  time.Duration // time after which they are; 0: 5 s
	ReadLimit  time.Duration // longest that a reader waits for the disk; 0: 1 s

	// Share makes Open read what is there, where another process already writes to the
	// folder or this one may not, instead of returning ErrBusy or another error. Such a
	// store sees what there was when it was opened, as long as the owner keeps it.
	Share bool

	// Succeed makes a store that shares a folder look now and then whether it may write
	// there, and do so from then on.
	TakeOver bool

	// Event is called when something happened that a person may want to know. It may be
	// called by several goroutines at once and must not wait. nil: nobody wants to.
	Event func(Event)

	testing testOptions
}

// testOptions are what no user can set.
type testOptions struct {
	openDir    func(path string, write bool) (vfs.Dir, error)
	segment    int64         // bytes of a segment
	pause      time.Duration // without writes when the disk is full
	probe      time.Duration // between looks at a disk that fails
	ending     time.Duration // that Close waits
	spaceCheck time.Duration // between looks whether others need the room
	takeOver   time.Duration // between looks whether the owner of a folder has gone
	journal    int64         // least bytes of changes before a new snapshot
	recheck    time.Duration // after which a whole file that is opened is compared again
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
