package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec"
)

// A wholeFile is a whole file that is kept. The first four fields never change.
type wholeFile struct {
	hash  codec.Hash
	size  int64
	mtime int64 // its time of change in ns: who changes the file changes that
	crc   uint32

	ctime   atomic.Int64 // as entry.touched, when the file was last known to be sound; 0: unknown
	suspect atomic.Bool  // it was touched since: it is not given out until it was compared
	due     atomic.Int64 // checker.clock when it is to be compared again, or waits
	corrupt atomic.Bool  // it was compared, and is damaged

	// The writer's alone:
	order     uint64 // place in its queue; 0: in none
	unlinked  bool   // the file is deleted
	uncounted bool   // and its bytes are free

	uses atomic.Int32
	open atomic.Int32 // handles; grows under index.mu only
	gone atomic.Bool  // forgotten while it was open: its bytes are counted until it is closed
}

func (w *wholeFile) name() string { return wholeFileName(w.hash) }

func wholeFileName(h codec.Hash) string { return "whole/" + h.String() }

func (w *wholeFile) record() *record {
	return &record{
		kind: fileRecord, key: key{hash: w.hash}, size: uint64(w.size), time: uint64(w.mtime), crc: w.crc,
		ctime: uint64(w.ctime.Load()),
	}
}

// A File is a whole file, open for reading, to be handed to the kernel. Until it is
// closed it is not evicted, so whoever lets the kernel read it closes it when the kernel
// is done.
type File struct {
	*os.File
	f    vfs.File
	d    *folder
	s    *Store
	w    *wholeFile
	shut atomic.Bool
}

// ReadAt implements io.ReaderAt. It waits no longer for the disk than readers of chunks
// do. A file that cannot be read, or was changed since it was opened, is forgotten.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if f.w.corrupt.Load() {
		return 0, errChecksum
	}
	if err := f.w.compare(f.f); err != nil {
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
		f.s.failed("reading "+f.w.name(), err)
		return 0, err
	}
	n += copy(p[n:], rest[:<-got])
	if err != nil && (!errors.Is(err, io.EOF) || off+int64(n) < f.w.size) {
		f.s.fileFailed(f.d, f.w, err)
	}
	return n, err
}

// Sound says whether the file is what it was when it was laid down, as far as can be told
// without reading it. One that is not is forgotten, or compared with its checksum.
func (f *File) Sound() bool {
	if f.w.corrupt.Load() {
		return false
	}
	if err := f.w.compare(f.f); err != nil {
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
func (s *Store) release(d *folder, w *wholeFile) {
	if wr := s.writer.Load(); w.open.Add(-1) == 0 && w.gone.Load() && wr != nil {
		wr.freed(d, w)
	}
}

// OpenFile opens a whole file, if it is kept.
func (s *Store) OpenFile(h codec.Hash) (*File, bool) {
	if s.down() != nil {
		return nil, false
	}
	d := s.disk.Load()
	w := d.index.acquireFile(h)
	if w == nil {
		return nil, false
	}
	if w.suspect.Load() {
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
	if n := w.uses.Load(); n < maxUses {
		w.uses.CompareAndSwap(n, n+1)
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
	w := d.index.file(h)
	if w != nil && w.suspect.Load() {
		s.scrubber.add(d, w)
		return false
	}
	return w != nil
}

// file returns a file, or nil.
func (x *index) file(h codec.Hash) *wholeFile {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.files[h]
}

// acquireFile returns a file and counts a handle of it.
func (x *index) acquireFile(h codec.Hash) *wholeFile {
	x.mu.RLock()
	defer x.mu.RUnlock()
	w := x.files[h]
	if w != nil {
		w.open.Add(1)
	}
	return w
}

var (
	errFileChanged  = errors.New("somebody changed the file")
	errCtimeChanged = errors.New("somebody touched the file, and may have changed it")
)

func (d *folder) openFile(w *wholeFile) (vfs.File, error) {
	f, err := d.Open(w.name(), false)
	if err != nil {
		return nil, err
	}
	if err := w.compare(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// compare says whether a file is still as long and as old as when it was laid down: to
// compare its bytes would take what it is there to save.
func (w *wholeFile) compare(f vfs.File) error {
	e, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !w.is(e):
		return errFileChanged
	case e.CTime != w.ctime.Load() && !e.Unlinked:
		return errCtimeChanged
	}
	return nil
}

func (w *wholeFile) is(e vfs.FileInfo) bool {
	return e.Regular && e.Size == w.size && e.MTime == w.mtime
}

// fileFailed forgets a file that could not be opened or read, or is not what it was. One
// that was only touched is compared first.
func (s *Store) fileFailed(d *folder, w *wholeFile, err error) {
	switch {
	case errors.Is(err, errTimeout):
		s.failed("opening "+w.name(), err)
		return
	case w.gone.Load() || errors.Is(err, os.ErrClosed):
		return
	case errors.Is(err, errCtimeChanged):
		s.scrubber.markSuspect(d, w)
		return
	case isResourceExhausted(err):
		w.due.Store(0) // whoever asks for it next has it compared, if it waited for that
		s.failed("opening "+w.name(), err)
		return
	}
	if errors.Is(err, errChecksum) {
		w.corrupt.Store(true)
		s.corrupt.Store(w.hash, nil)
		if s.Shared() {
			d.flagForOwner(w)
		}
	}
	if d != s.disk.Load() {
		return // the folder was opened anew since, and who opens the file there sees for himself
	}
	if s.forgetFile(w.hash) && !s.gone(err) {
		s.dropped("file "+w.hash.String(), err)
	}
	for _, known := range []error{errFileChanged, errChecksum, vfs.ErrForeign, fs.ErrNotExist, io.EOF} {
		if errors.Is(err, known) {
			return
		}
	}
	s.failed("opening "+w.name(), err)
}

// WasCorrupt says whether wrong bytes may have been read of a whole file since Open, and
// somebody may hold them still: it was found to be damaged.
func (s *Store) WasCorrupt(h codec.Hash) bool {
	_, found := s.corrupt.Load(h)
	return found
}

// DropFile forgets a whole file, because its bytes are not what its hash says. Who has
// it open keeps it.
func (s *Store) DropFile(h codec.Hash) {
	if s.forgetFile(h) {
		s.dropped("file "+h.String(), errors.New("not what its hash says"))
	}
}

func (s *Store) forgetFile(h codec.Hash) bool {
	d := s.disk.Load()
	w := d.index.forgetFile(h)
	if wr := s.writer.Load(); w != nil && wr != nil {
		wr.later(func() { wr.removeFile(d, w) })
	}
	return w != nil
}

// forgetFile takes a whole file out of the index.
func (x *index) forgetFile(h codec.Hash) *wholeFile {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := x.files[h]
	if w != nil {
		w.gone.Store(true)
		delete(x.files, h)
	}
	return w
}

// evictFile deletes a whole file, unless it is open or has been used; then it gets
// another round.
func (wr *writer) evictFile(w *wholeFile) bool {
	if w.gone.Load() {
		return false // removeFile is on its way
	}
	x := wr.d.index
	x.mu.Lock()
	open, used := w.open.Load() > 0, w.uses.Load() > 0
	goes := !open && !used && x.files[w.hash] == w
	if goes {
		delete(x.files, w.hash)
		w.gone.Store(true)
	}
	x.mu.Unlock()
	switch {
	case goes:
		wr.s.stats.evicted.Add(w.size)
		wr.removeFile(wr.d, w)
		return true
	case !open:
		w.uses.Add(-1)
	}
	wr.queues.push(protected, queueItem{file: w})
	wr.write(w.record())
	return !open
}

// removeFile deletes a file that the index has forgotten.
func (wr *writer) removeFile(d *folder, w *wholeFile) {
	if d != wr.d || w.order == 0 {
		return
	}
	w.order = 0
	wr.held[protected] -= onDisk(w.size)
	if d.index.file(w.hash) != nil { // laid down anew meanwhile, in the place of this one
		w.unlinked = true
		wr.uncount(w)
		return
	}
	wr.write(&record{kind: forgetRecord, key: key{hash: w.hash}})
	wr.flush()
	wr.delete(orphan{name: w.name(), file: w})
}

// uncount frees the bytes of a file that was deleted, once nobody has it open any more.
func (wr *writer) uncount(w *wholeFile) {
	if w.unlinked && !w.uncounted && w.open.Load() == 0 {
		w.uncounted = true
		wr.s.stats.use(-onDisk(w.size), &wr.s.stats.fileBytes)
	}
}

// freed is called when the last handle of a file that is gone was closed.
func (wr *writer) freed(d *folder, w *wholeFile) {
	wr.later(func() {
		if d == wr.d {
			wr.uncount(w)
		}
	})
}

// loadFiles forgets whole files that are not there as they were, and finds those that
// nobody knows.
func (wr *writer) loadFiles() error {
	entries, err := wr.d.List("whole")
	if err != nil {
		return err
	}
	x, stats := wr.d.index, &wr.s.stats
	there := make(map[codec.Hash]bool)
	for _, e := range entries {
		if !isWholeFile(e.Name) {
			continue
		}
		if e.Err != nil {
			wr.s.dropped("whole/"+e.Name, e.Err)
			continue // as loadSegments does
		}
		stats.use(onDisk(e.Size), &stats.fileBytes)
		h, err := codec.ParseHash(e.Name)
		w := x.files[h]
		if err != nil || w == nil || !w.is(e) {
			wr.orphans = append(wr.orphans, orphan{name: "whole/" + e.Name, size: onDisk(e.Size), sort: &stats.fileBytes})
			continue
		}
		there[h] = true
		w.suspect.Store(e.CTime != w.ctime.Load())
		wr.held[protected] += onDisk(e.Size)
	}
	for h, w := range x.files {
		if !there[h] {
			w.order = 0
			delete(x.files, h)
		}
	}
	return nil
}
