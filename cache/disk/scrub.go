package disk

import (
	"context"
	"errors"
	"hash/crc32"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
)

// A scrubber compares whole files with their checksums in the background: the kernel reads
// them by itself, and nobody else would see that a disk has changed a byte. Each is looked
// at when it is opened for the first time, and then again when it is opened after days. A
// file that is in doubt comes before those, and is not given out until it is found sound.
type scrubber struct {
	s     *Store
	began time.Time
	ctx   context.Context // ends with the store
	stop  context.CancelFunc
	wake  chan struct{}
	done  chan struct{}

	mu       sync.Mutex
	suspects []scrubTask // guarded by mu
	routine  []scrubTask // guarded by mu
}

// A scrubTask is a whole file that waits for it.
type scrubTask struct {
	d *folder
	w *index.WholeFile
}

// isQueued is the due of a file that stands in a list of the checker.
const isQueued = math.MaxInt64

// How much of the time of a disk a check takes, and how fast it reads at most. A file in
// doubt is no use until it is done.
const (
	routinePauses, suspectPauses = 9, 1 // as long as a read takes, so many times
	routineRate, suspectRate     = 32 << 20, 256 << 20
)

func (sc *scrubber) init(s *Store) {
	sc.s, sc.began = s, now()
	sc.ctx, sc.stop = context.WithCancel(context.Background())
	sc.wake, sc.done = make(chan struct{}, 1), make(chan struct{})
}

// clock is the time since the store was opened.
func (sc *scrubber) clock() int64 { return int64(time.Since(sc.began)) }

// add has a file compared if it is due.
func (sc *scrubber) add(d *folder, w *index.WholeFile) {
	due, suspect := w.Due.Load(), w.Suspect.Load()
	if due == isQueued || due > sc.clock() && !suspect || !w.Due.CompareAndSwap(due, isQueued) {
		return
	}
	sc.push(scrubTask{d, w}, suspect)
}

// markSuspect has a file compared before it is given out again.
func (sc *scrubber) markSuspect(d *folder, w *index.WholeFile) {
	if !w.Suspect.Swap(true) {
		w.Due.Store(isQueued) // it may stand among the others; then it is passed over there
		sc.push(scrubTask{d, w}, true)
	}
}

func (sc *scrubber) push(e scrubTask, suspect bool) {
	sc.mu.Lock()
	if suspect {
		sc.suspects = append(sc.suspects, e)
	} else {
		sc.routine = append(sc.routine, e)
	}
	sc.mu.Unlock()
	select {
	case sc.wake <- struct{}{}:
	default:
	}
}

func (sc *scrubber) take() (scrubTask, bool) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, list := range []*[]scrubTask{&sc.suspects, &sc.routine} {
		if len(*list) > 0 {
			e := (*list)[0]
			(*list)[0] = scrubTask{}
			*list = (*list)[1:]
			return e, true
		}
	}
	return scrubTask{}, false
}

func (sc *scrubber) run() {
	defer close(sc.done)
	for sc.ctx.Err() == nil {
		if e, ok := sc.take(); ok {
			sc.scrub(e)
			continue
		}
		select {
		case <-sc.wake:
		case <-sc.ctx.Done():
		}
	}
}

func (sc *scrubber) scrub(e scrubTask) {
	switch {
	case e.d != sc.s.disk.Load() || e.w.Gone.Load() || e.w.Due.Load() != isQueued:
	case sc.s.down() != nil:
		e.w.Due.Store(0)
	default:
		_ = sc.s.scrubFile(sc.ctx, e.d, e.w, sc.pace) // it has taken notice
	}
}

// wait waits for the checker to end after stop.
func (sc *scrubber) wait(limit time.Duration) error { return within(limit, sc.done) }

// pace leaves the disk to others after n bytes of a file were read.
func (sc *scrubber) pace(w *index.WholeFile, n int, took time.Duration) {
	pause := max(routinePauses*took, time.Duration(n)*time.Second/routineRate)
	if w.Suspect.Load() {
		pause = max(suspectPauses*took, time.Duration(n)*time.Second/suspectRate)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-sc.ctx.Done():
	}
}

// scrubFile compares a file with its checksum and takes notice of what it finds: it is
// given out from now on, or forgotten.
func (s *Store) scrubFile(ctx context.Context, d *folder, w *index.WholeFile, pace func(w *index.WholeFile, n int, took time.Duration)) error {
	ctime, err := d.checksumFile(ctx, w, pace)
	switch {
	case err == nil:
		s.clearSuspect(d, w, ctime)
	case ctx.Err() == nil:
		s.fileFailed(d, w, err)
	}
	return err
}

// checksumFile reads a file, compares it with its checksum, and returns when it was touched
// before that. What was not in memory before is not kept there for it.
func (d *folder) checksumFile(ctx context.Context, w *index.WholeFile, pace func(w *index.WholeFile, n int, took time.Duration)) (ctime int64, err error) {
	began := now()
	f, err := d.Open(w.Name(), false)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	e, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !isUnchanged(w, e) {
		return 0, errFileChanged
	}
	var crc uint32
	buffer := make([]byte, min(w.Size, verifyBytes))
	for off := int64(0); off < w.Size; {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if w.Gone.Load() {
			return 0, errMoved
		}
		b := buffer[:min(int64(len(buffer)), w.Size-off)]
		if err := readOnce(f, b, off); err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, index.CRCTable, b)
		off += int64(len(b))
		if pace != nil {
			pace(w, len(b), time.Since(began))
			began = now()
		}
	}
	if crc != w.CRC {
		return 0, errChecksum
	}
	return e.CTime, nil
}

// readOnce is ReadAt of bytes that nobody may want again.
func readOnce(f vfs.File, b []byte, off int64) error {
	if f.TryRead(b, off) == len(b) {
		return nil
	}
	if _, err := f.ReadAt(b, off); err != nil {
		return err
	}
	if plain := f.OSFile(); plain != nil {
		_ = unix.Fadvise(int(plain.Fd()), off, int64(len(b)), unix.FADV_DONTNEED) // they stay, then
	}
	return nil
}

// clearSuspect gives a file out that was found sound, as it was touched then.
func (s *Store) clearSuspect(d *folder, w *index.WholeFile, ctime int64) {
	w.Due.Store(s.scrubber.clock() + int64(s.o.testing.recheck))
	news := w.CTime.Swap(ctime) != ctime
	w.Suspect.Store(false)
	if wr := s.writer.Load(); news && wr != nil {
		wr.later(func() { wr.recordCtime(d, w) })
	}
}

// recordCtime writes down that a file was found sound after somebody had touched it.
func (wr *writer) recordCtime(d *folder, w *index.WholeFile) {
	if d == wr.d && wr.policy.HasFile(w) && !w.Gone.Load() {
		wr.policy.Push(index.Protected, index.QueueItem{File: w})
		wr.write(wal.NewFileRecord(w))
	}
}

// checkNow compares a file that is in doubt at once, for who would else lay it down anew,
// and says whether it is kept.
func (s *Store) checkNow(d *folder, w *index.WholeFile) (kept bool, err error) {
	if w == nil || !w.Suspect.Load() {
		return w != nil, nil
	}
	err = s.scrubFile(s.scrubber.ctx, d, w, nil)
	if errors.Is(err, context.Canceled) {
		return false, ErrClosed
	}
	return err == nil, nil
}

// flagForOwner touches a file that is damaged, so that the process that owns the folder doubts it
// and looks for itself.
func (d *folder) flagForOwner(w *index.WholeFile) {
	f, err := d.Open(w.Name(), false)
	if err != nil {
		return
	}
	if plain := f.OSFile(); plain != nil {
		_ = plain.Chmod(os.FileMode(0o600)) // on a read-only file system the owner finds it later
	}
	_ = f.Close() // nothing was written
}
