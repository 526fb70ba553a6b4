package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec"
)

// A File is a whole file that is open for reading, also by the kernel. It is not evicted before
// Close, so Close follows the last read of the kernel.
type File struct {
	*os.File
	f    vfs.File
	d    *folder
	s    *Store
	w    *index.WholeFile
	shut atomic.Bool
}

// ReadAt implements io.ReaderAt. It waits for the disk at most as long as a reader of chunks. It
// forgets a file that is unreadable or was changed since it was opened.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if f.w.Corrupt.Load() {
		return 0, errChecksum
	}
	if err := compareStat(f.w, f.f); err != nil {
		f.s.fileFailed(f.d, f.w, err)
		return 0, err
	}
	n := f.f.TryRead(p, off)
	if n == len(p) {
		return n, nil
	}
	// A disk that hangs may write to rest at any later time.
	rest, got := make([]byte, len(p)-n), make(chan int, 1)
	err := f.s.reads.do(func() error {
		m, err := f.f.ReadAt(rest, off+int64(n))
		got <- m
		return err
	})
	if errors.Is(err, errTimeout) {
		f.s.failed("reading "+f.w.Name(), err)
		return 0, err
	}
	n += copy(p[n:], rest[:<-got])
	if err != nil && (!errors.Is(err, io.EOF) || off+int64(n) < f.w.Size) {
		f.s.fileFailed(f.d, f.w, err)
	}
	return n, err
}

// Sound reports whether length and times of the file are unchanged. A changed file is forgotten,
// or compared with its checksum.
func (f *File) Sound() bool {
	if f.w.Corrupt.Load() {
		return false
	}
	if err := compareStat(f.w, f.f); err != nil {
		f.s.fileFailed(f.d, f.w, err)
		return false
	}
	f.s.scrubber.add(f.d, f.w)
	return true
}

// Close releases the file. Further calls do nothing.
func (f *File) Close() error {
	if f.shut.Swap(true) {
		return nil
	}
	err := f.f.Close()
	f.s.release(f.d, f.w)
	return err
}

// release counts one handle less.
func (s *Store) release(d *folder, w *index.WholeFile) {
	if wr := s.writer.Load(); w.Open.Add(-1) == 0 && w.Gone.Load() && wr != nil {
		wr.freed(d, w)
	}
}

// OpenFile opens a whole file. It returns false if the file is not stored or suspect.
func (s *Store) OpenFile(h codec.Hash) (*File, bool) {
	if s.down() != nil {
		return nil, false
	}
	d := s.disk.Load()
	w := d.index.AcquireFile(h)
	if w == nil {
		return nil, false
	}
	if w.Suspect.Load() {
		s.release(d, w)
		s.scrubber.add(d, w)
		return nil, false
	}
	opened := make(chan vfs.File, 1)
	err := s.reads.do(func() error {
		f, err := d.openFile(w)
		opened <- f
		return err
	})
	if errors.Is(err, errTimeout) && !errors.Is(err, errBacklog) {
		go closeLater(opened)
	}
	if err != nil {
		s.release(d, w)
		s.fileFailed(d, w, err)
		return nil, false
	}
	f := <-opened
	s.scrubber.add(d, w)
	s.stats.fileHits.Add(1)
	if n := w.Uses.Load(); n < index.MaxUses {
		w.Uses.CompareAndSwap(n, n+1)
	}
	return &File{File: f.OSFile(), f: f, d: d, s: s, w: w}, true
}

// closeLater closes a file that was opened too late.
func closeLater(opened <-chan vfs.File) {
	if f := <-opened; f != nil {
		_ = f.Close() // it was only read
	}
}

// HasFile reports whether a whole file is stored. It reads the index alone.
func (s *Store) HasFile(h codec.Hash) bool {
	if s.down() != nil {
		return false
	}
	d := s.disk.Load()
	w := d.index.File(h)
	if w != nil && w.Suspect.Load() {
		s.scrubber.add(d, w)
		return false
	}
	return w != nil
}

// fileFailed forgets a file that is unreadable or was changed. It queues a comparison for a file
// of which only the ctime changed.
func (s *Store) fileFailed(d *folder, w *index.WholeFile, err error) {
	switch {
	case errors.Is(err, errTimeout):
		s.failed("opening "+w.Name(), err)
		return
	case w.Gone.Load() || errors.Is(err, os.ErrClosed):
		return
	case errors.Is(err, errCtimeChanged):
		s.scrubber.markSuspect(d, w)
		return
	case isResourceExhausted(err):
		w.Due.Store(0) // the next open queues a comparison again
		s.failed("opening "+w.Name(), err)
		return
	}
	if errors.Is(err, errChecksum) {
		w.Corrupt.Store(true)
		s.corrupt.Store(w.Hash, nil) // before the next Load, see use
		d.flagCorrupt(w)
	}
	if current := s.disk.Load(); d != current {
		if again := current.index.File(w.Hash); again != nil && s.WasCorrupt(w.Hash) {
			s.scrubber.markSuspect(current, again)
		}
		return // the opens of the new folder find other damage
	}
	if s.forgetFile(w.Hash) && !s.gone(err) {
		s.dropped("file "+w.Hash.String(), err)
	}
	for _, known := range []error{errFileChanged, errChecksum, vfs.ErrForeign, fs.ErrNotExist, io.EOF} {
		if errors.Is(err, known) {
			return
		}
	}
	s.failed("opening "+w.Name(), err)
}

// WasCorrupt reports whether a whole file was found corrupt since Open. Readers may still hold
// wrong bytes of it.
func (s *Store) WasCorrupt(h codec.Hash) bool {
	_, found := s.corrupt.Load(h)
	return found
}

func (s *Store) forgetFile(h codec.Hash) bool {
	d := s.disk.Load()
	w := d.index.ForgetFile(h)
	if wr := s.writer.Load(); w != nil && wr != nil {
		wr.later(func() { wr.removeFile(d, w) })
	}
	return w != nil
}

// freed is called when the last handle of a forgotten file was closed.
func (wr *writer) freed(d *folder, w *index.WholeFile) {
	wr.later(func() {
		if d == wr.d {
			wr.uncount(w)
		}
	})
}
