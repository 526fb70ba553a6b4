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
)

// A checker compares whole files with their checksums in the background: the kernel reads
// them by itself, and nobody else would see that a disk has changed a byte. Each is looked
// at when it is opened for the first time, and then again when it is opened after days. A
// file that is in doubt comes before those, and is not given out until it is found sound.
type checker struct {
	s     *Store
	began time.Time
	ctx   context.Context // ends with the store
	stop  context.CancelFunc
	wake  chan struct{}
	done  chan struct{}

	mu      sync.Mutex
	doubted []check // guarded by mu
	routine []check // guarded by mu
}

// A check is a whole file that waits for it.
type check struct {
	d *folder
	w *wholeFile
}

// waits is the due of a file that stands in a list of the checker.
const waits = math.MaxInt64

// How much of the time of a disk a check takes, and how fast it reads at most. A file in
// doubt is no use until it is done.
const (
	routinePauses, doubtedPauses = 9, 1 // as long as a read takes, so many times
	routineRate, doubtedRate     = 32 << 20, 256 << 20
)

func (c *checker) init(s *Store) {
	c.s, c.began = s, now()
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.wake, c.done = make(chan struct{}, 1), make(chan struct{})
}

// clock is the time since the store was opened.
func (c *checker) clock() int64 { return int64(time.Since(c.began)) }

// add has a file compared if it is due.
func (c *checker) add(d *folder, w *wholeFile) {
	due, doubted := w.due.Load(), w.doubted.Load()
	if due == waits || due > c.clock() && !doubted || !w.due.CompareAndSwap(due, waits) {
		return
	}
	c.push(check{d, w}, doubted)
}

// doubt has a file compared before it is given out again.
func (c *checker) doubt(d *folder, w *wholeFile) {
	if !w.doubted.Swap(true) {
		w.due.Store(waits) // it may stand among the others; then it is passed over there
		c.push(check{d, w}, true)
	}
}

func (c *checker) push(e check, doubted bool) {
	c.mu.Lock()
	if doubted {
		c.doubted = append(c.doubted, e)
	} else {
		c.routine = append(c.routine, e)
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *checker) take() (check, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, list := range []*[]check{&c.doubted, &c.routine} {
		if len(*list) > 0 {
			e := (*list)[0]
			(*list)[0] = check{}
			*list = (*list)[1:]
			return e, true
		}
	}
	return check{}, false
}

func (c *checker) run() {
	defer close(c.done)
	for c.ctx.Err() == nil {
		if e, ok := c.take(); ok {
			c.check(e)
			continue
		}
		select {
		case <-c.wake:
		case <-c.ctx.Done():
		}
	}
}

func (c *checker) check(e check) {
	switch {
	case e.d != c.s.disk.Load() || e.w.gone.Load() || e.w.due.Load() != waits:
	case c.s.down() != nil:
		e.w.due.Store(0)
	default:
		_ = c.s.scrubFile(c.ctx, e.d, e.w, c.pace) // it has taken notice
	}
}

// wait waits for the checker to end after stop.
func (c *checker) wait(limit time.Duration) error { return within(limit, c.done) }

// within waits until done is closed. The error says that it took longer than limit.
func within(limit time.Duration, done <-chan struct{}) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return errSlow
	}
}

// pace leaves the disk to others after n bytes of a file were read.
func (c *checker) pace(w *wholeFile, n int, took time.Duration) {
	pause := max(routinePauses*took, time.Duration(n)*time.Second/routineRate)
	if w.doubted.Load() {
		pause = max(doubtedPauses*took, time.Duration(n)*time.Second/doubtedRate)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
	}
}

// scrubFile compares a file with its checksum and takes notice of what it finds: it is
// given out from now on, or forgotten.
func (s *Store) scrubFile(ctx context.Context, d *folder, w *wholeFile, pace func(w *wholeFile, n int, took time.Duration)) error {
	touched, err := d.checksumFile(ctx, w, pace)
	switch {
	case err == nil:
		s.trust(d, w, touched)
	case ctx.Err() == nil:
		s.fileFailed(d, w, err)
	}
	return err
}

// checksumFile reads a file, compares it with its checksum, and returns when it was touched
// before that. What was not in memory before is not kept there for it.
func (d *folder) checksumFile(ctx context.Context, w *wholeFile, pace func(w *wholeFile, n int, took time.Duration)) (touched int64, err error) {
	began := now()
	f, err := d.open(w.name(), false)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	e, err := f.stat()
	if err != nil {
		return 0, err
	}
	if !w.is(e) {
		return 0, errChanged
	}
	var crc uint32
	buffer := make([]byte, min(w.size, verifyBytes))
	for off := int64(0); off < w.size; {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if w.gone.Load() {
			return 0, errMoved
		}
		b := buffer[:min(int64(len(buffer)), w.size-off)]
		if err := readOnce(f, b, off); err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, b)
		off += int64(len(b))
		if pace != nil {
			pace(w, len(b), time.Since(began))
			began = now()
		}
	}
	if crc != w.crc {
		return 0, errChecksum
	}
	return e.touched, nil
}

// readOnce is ReadAt of bytes that nobody may want again.
func readOnce(f file, b []byte, off int64) error {
	if f.readNow(b, off) == len(b) {
		return nil
	}
	if _, err := f.ReadAt(b, off); err != nil {
		return err
	}
	if plain := f.plain(); plain != nil {
		_ = unix.Fadvise(int(plain.Fd()), off, int64(len(b)), unix.FADV_DONTNEED) // they stay, then
	}
	return nil
}

// trust gives a file out that was found sound, as it was touched then.
func (s *Store) trust(d *folder, w *wholeFile, touched int64) {
	w.due.Store(s.checks.clock() + int64(s.o.testing.recheck))
	news := w.touched.Swap(touched) != touched
	w.doubted.Store(false)
	if k := s.writer.Load(); news && k != nil {
		k.later(func() { k.touched(d, w) })
	}
}

// touched writes down that a file was found sound after somebody had touched it.
func (wr *writer) touched(d *folder, w *wholeFile) {
	if d == wr.d && w.order != 0 && !w.gone.Load() {
		wr.rows.push(protected, member{file: w})
		wr.write(w.record())
	}
}

// settle compares a file that is in doubt at once, for who would else lay it down anew,
// and says whether it is kept.
func (s *Store) settle(d *folder, w *wholeFile) (kept bool, err error) {
	if w == nil || !w.doubted.Load() {
		return w != nil, nil
	}
	err = s.scrubFile(s.checks.ctx, d, w, nil)
	if errors.Is(err, context.Canceled) {
		return false, ErrClosed
	}
	return err == nil, nil
}

// blame touches a file that is damaged, so that the process that owns the folder doubts it
// and looks for itself.
func (d *folder) blame(w *wholeFile) {
	f, err := d.open(w.name(), false)
	if err != nil {
		return
	}
	if plain := f.plain(); plain != nil {
		_ = plain.Chmod(os.FileMode(0o600)) // on a read-only file system the owner finds it later
	}
	_ = f.Close() // nothing was written
}
