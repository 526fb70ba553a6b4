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

// A File is a whole file, open for reading, to be handed to the kernel. Until it is
// closed it is not evicted, so whoever lets the kernel read it closes it when the kernel
// is done.
type File struct {
	*os.File
	f    vfs.File
	d    *folder
	s    *Store
	w    *index.WholeFile
	shut atomic.Bool
}

// ReadAt implements io.ReaderAt. It waits no longer for the disk than readers of chunks
// do. A file that cannot be read, or was changed since it was opened, is forgotten.
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
	// If the disk hangs it may write there at any later time.
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

// Sound says whether the file is what it was when it was laid down, as far as can be told
// without reading it. One that is not is forgotten, or compared with its checksum.
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

// Close gives the file back. To close it again does nothing.
func (f *File) Close() error {
	if f.shut.Swap(true) {
		return nil
	}
	err := f.f.Close()
	f.s.release(f.d, f.w)
	return err
}

// release counts a handle less.
func (s *Store) release(d *folder, w *index.WholeFile) {
	if wr := s.writer.Load(); w.Open.Add(-1) == 0 && w.Gone.Load() && wr != nil {
		wr.freed(d, w)
	}
}

// OpenFile opens a whole file, if it is kept.
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

// closeLater closes a file that came too late.
func closeLater(opened <-chan vfs.File) {
	if f := <-opened; f != nil {
		_ = f.Close() // it was only read
	}
}

// HasFile says whether a whole file is kept. It asks the index alone.
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

// fileFailed forgets a file that could not be opened or read, or is not what it was. One
// that was only touched is compared first.
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
		w.Due.Store(0) // whoever asks for it next has it compared, if it waited for that
		s.failed("opening "+w.Name(), err)
		return
	}
	if errors.Is(err, errChecksum) {
		w.Corrupt.Store(true)
		s.corrupt.Store(w.Hash, nil)
		if s.Shared() {
			d.flagForOwner(w)
		}
	}
	if d != s.disk.Load() {
		return // the folder was opened anew since, and who opens the file there sees for himself
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

// WasCorrupt says whether wrong bytes may have been read of a whole file since Open, and
// somebody may hold them still: it was found to be damaged.
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

// freed is called when the last handle of a file that is gone was closed.
func (wr *writer) freed(d *folder, w *index.WholeFile) {
	wr.later(func() {
		if d == wr.d {
			wr.uncount(w)
		}
	})
}
