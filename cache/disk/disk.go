package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec"
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

// A Store keeps runs of packed chunks, index pages and whole files under one folder. It
// is a cache: every method may forget, none may return wrong bytes. It is safe for
// concurrent use.
type Store struct {
	dir string
	o   Options

	disk   atomic.Pointer[folder] // replaced when a suspended store resumes, or a shared one is owned
	reads  limiter
	writer atomic.Pointer[writer] // nil: another process writes
	health health
	stats  counters

	materializing sync.Map // whole files on their way: codec.Hash → struct{}
	corrupt       sync.Map // those found to be damaged since Open: codec.Hash → struct{}
	closed        atomic.Bool
	standby       *standby // nil: nobody waits for the owner to go
	scrubber      scrubber
}

// A folder is the files of a store and what is known of them, from one time that it is
// opened to the next.
type folder struct {
	vfs.Dir
	index  *index.Index
	opened openFiles
}

func newFolder(f vfs.Dir) *folder { return &folder{Dir: f, index: index.New()} }

// close closes all files but whole ones.
func (d *folder) close() error {
	d.opened.closeAll()
	return d.Dir.Close()
}

// Open uses dir, which it makes if it is not there, and reads its index. What the index
// names and the folder does not hold is forgotten; what it does not name is deleted in
// the background.
//
// The error is ErrBusy, ErrNewer or ErrRefused as they say, or why the folder cannot be
// read or written. Whoever gets one goes on without a disk cache.
func Open(dir string, o Options) (*Store, error) {
	if o.MaxBytes != 0 && o.MaxBytes < minBytes && o.testing.segment == 0 {
		return nil, fmt.Errorf("disk cache %s: %d bytes are too few, %d is the least", dir, o.MaxBytes, minBytes)
	}
	o.setDefaults()
	s := &Store{dir: dir, o: o}
	s.reads.init(o.ReadLimit)
	s.scrubber.init(s)
	err := s.openAsOwner()
	if err != nil && o.Share && mayShare(err) {
		if shared := s.share(); !errors.Is(shared, fs.ErrNotExist) {
			err = shared // else there is no cache yet, and err is why none can be made
		}
	}
	if err != nil {
		s.scrubber.stop()
		return nil, fmt.Errorf("disk cache %s: %w", dir, err)
	}
	go s.scrubber.run()
	if s.Shared() && o.TakeOver {
		s.standby = newStandby(s)
	}
	return s, nil
}

// Shared says that another process writes to the folder and this one only reads.
func (s *Store) Shared() bool { return s.writer.Load() == nil }

// down says that nothing can be asked of the disk now.
func (s *Store) down() error {
	if s.closed.Load() {
		return ErrClosed
	}
	if s.health.suspended.Load() {
		return ErrSuspended
	}
	return nil
}

// WriteErr returns why nothing would be kept that is put now, as PutRun does; nil if
// something would.
func (s *Store) WriteErr() error {
	if s.Shared() {
		return ErrReadOnly
	}
	if err := s.down(); err != nil {
		return err
	}
	if s.health.full() {
		return ErrFull
	}
	return nil
}

// dropped reports that something was damaged and is forgotten.
func (s *Store) dropped(what string, err error) {
	s.stats.dropped.Add(1)
	s.o.Event(Event{Name: EventDropped, What: what, Err: err})
}

func describe(k index.Key, r codec.ChunkRange) string {
	if k.Kind == index.PageKind {
		return fmt.Sprintf("page %x", k.Hash[:])
	}
	return fmt.Sprintf("xorb %s chunks %s", k.Hash, r)
}

// Sync makes everything last that was put before, and returns when it does.
func (s *Store) Sync() error {
	wr := s.writer.Load()
	if wr == nil {
		return nil
	}
	return wr.sync()
}

// Flush returns when everything that was put before can be found, here and by others who
// open the folder, and survives kill -9. It may wait for as long as the disk does; when ctx
// ends it returns its error.
func (s *Store) Flush(ctx context.Context) error {
	wr := s.writer.Load()
	if wr == nil {
		return nil
	}
	return wr.call(ctx, &callOp{run: func() error { return nil }})
}

// Close makes everything last and gives the folder free. It returns within 10 seconds,
// also if the disk does not answer. What is open of whole files stays open.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	end := now().Add(s.o.testing.ending)
	s.scrubber.stop()
	err := s.standby.close(s.o.testing.ending)
	if wr := s.writer.Load(); wr != nil && err == nil {
		err = wr.close(s.o.testing.ending)
	}
	if err == nil {
		err = s.scrubber.wait(max(time.Until(end), 0))
	}
	if err == nil {
		if err = s.disk.Load().close(); errors.Is(err, os.ErrClosed) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("disk cache %s: %w", s.dir, err)
	}
	return nil
}
