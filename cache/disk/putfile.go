package disk

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec"
)

// PutFile lays a file of size bytes down, as content gives them. content must end with
// an error instead of io.EOF if it is not what the hash says. Nothing is kept unless all
// of it was read without an error and lasts on disk; nothing is read if the file is
// there already. Unlike PutRun it waits for the disk. The error is that of content, or as
// in PutRun; ErrBusy means that the same file is just being laid down.
func (s *Store) PutFile(h codec.Hash, size int64, content io.Reader) error {
	if err := s.WriteErr(); err != nil {
		return err
	}
	if s.HasFile(h) {
		return nil
	}
	if _, busy := s.materializing.LoadOrStore(h, nil); busy {
		return ErrBusy
	}
	defer s.materializing.Delete(h)
	d := s.disk.Load()
	if kept, err := s.checkNow(d, d.index.file(h)); kept || err != nil {
		return err
	}
	wr := s.writer.Load()
	if err := wr.do(func() error { return wr.reserve(d, h, size) }); err != nil {
		return err
	}
	w, err := s.materialize(d, h, size, content)
	if err == nil {
		err = wr.name(d, w)
	}
	if err != nil {
		_ = wr.do(func() error { return wr.unreserve(d, h, size) }) // closed or suspended: load finds the rest
	}
	return err
}

func tmpFileName(h codec.Hash) string { return wholeFileName(h) + ".tmp" }

// materialize writes the content to a file that nobody looks at yet.
func (s *Store) materialize(d *folder, h codec.Hash, size int64, content io.Reader) (*wholeFile, error) {
	rest := spaceReservation{&s.stats, size}
	defer rest.end()
	if err := d.Remove(tmpFileName(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, s.diskFailed(h, err)
	}
	f, err := d.Create(tmpFileName(h))
	if err != nil {
		return nil, s.diskFailed(h, err)
	}
	w := &wholeFile{hash: h, size: size}
	var e vfs.FileInfo
	if w.crc, err = s.fill(f, w, content, &rest); err == nil {
		if err = f.Sync(); err == nil {
			e, err = f.Stat()
		}
		w.mtime = e.MTime
		err = s.diskFailed(h, err)
	}
	return w, errors.Join(err, s.diskFailed(h, f.Close()))
}

// A spaceReservation is bytes that were made room for and are not written yet: of the file system
// they still seem to be free.
type spaceReservation struct {
	c    *counters
	left int64
}

func (p *spaceReservation) use(n int64) {
	p.left -= n
	p.c.reserved.Add(-n)
}

func (p *spaceReservation) end() { p.use(p.left) }

// fill writes content to f, as was promised, and returns its checksum.
func (s *Store) fill(f vfs.File, w *wholeFile, content io.Reader, rest *spaceReservation) (crc uint32, err error) {
	b := make([]byte, min(w.size+1, 1<<20)) // one more, or it would not be seen to be longer
	for off := int64(0); ; {
		n, err := content.Read(b)
		if int64(n) > w.size-off {
			return 0, fmt.Errorf("file %s: it is longer than %d bytes", w.hash, w.size)
		}
		if n > 0 {
			crc = crc32.Update(crc, castagnoli, b[:n])
			if _, err := f.WriteAt(b[:n], off); err != nil {
				return 0, s.diskFailed(w.hash, err)
			}
			off += int64(n)
			rest.use(int64(n))
		}
		switch {
		case errors.Is(err, io.EOF) && off < w.size:
			return 0, fmt.Errorf("file %s: it ends after %d of %d bytes", w.hash, off, w.size)
		case errors.Is(err, io.EOF):
			return crc, nil
		case err != nil:
			return 0, err
		case s.down() != nil:
			return 0, s.down()
		}
	}
}

// diskFailed takes notice of an error of the disk and says at which file it was.
func (s *Store) diskFailed(h codec.Hash, err error) error {
	if err == nil {
		return nil
	}
	s.failed("laying down file "+h.String(), err)
	return fmt.Errorf("file %s: %w", h, err)
}

// reserve makes room for a whole file and counts it from now on.
func (wr *writer) reserve(d *folder, h codec.Hash, size int64) error {
	if d != wr.d {
		return ErrSuspended
	}
	if err := wr.deleteNamed(tmpFileName(h), wholeFileName(h)); err != nil {
		return fmt.Errorf("file %s: %w", h, err)
	}
	if err := wr.makeRoom(size, 0); err != nil {
		return err
	}
	wr.s.stats.use(onDisk(size), &wr.s.stats.fileBytes)
	wr.s.stats.reserved.Add(size)
	return nil
}

// unreserve removes what was laid down of a file.
func (wr *writer) unreserve(d *folder, h codec.Hash, size int64) error {
	if d == wr.d {
		wr.delete(orphan{name: tmpFileName(h), size: onDisk(size), sort: &wr.s.stats.fileBytes})
	}
	return nil
}

// A pendingFile is a whole file that was laid down, about to get its name.
type pendingFile struct {
	d    *folder
	w    *wholeFile
	done chan error // of length 1
}

// name gives a file that was laid down its name, and tells the index.
func (wr *writer) name(d *folder, w *wholeFile) error {
	n := &pendingFile{d, w, make(chan error, 1)}
	if err := wr.add(op{name: n}); err != nil {
		return err
	}
	return <-n.done
}

// publishFiles gives the files that wait for it their names. The folder is synced once for
// all of them: of small files that takes longer than all else.
func (wr *writer) publishFiles() {
	var renamed []*pendingFile
	for _, n := range wr.pendingFiles {
		if err := wr.rename(n); err != nil {
			n.done <- err
		} else {
			renamed = append(renamed, n)
		}
	}
	wr.pendingFiles = nil
	if len(renamed) == 0 {
		return
	}
	err := wr.d.SyncDir("whole")
	wr.failed("syncing whole files", err) // once, not for each
	for _, n := range renamed {
		if err != nil {
			n.done <- fmt.Errorf("file %s: %w", n.w.hash, errors.Join(err, wr.d.Dir.Remove(n.w.name())))
		} else {
			wr.enterFile(n.w)
		}
	}
	if err != nil {
		return
	}
	wr.flush() // who waits may be killed now
	for _, n := range renamed {
		n.done <- nil
	}
}

func (wr *writer) rename(n *pendingFile) error {
	if n.d != wr.d || wr.log == nil {
		return ErrSuspended
	}
	var e vfs.FileInfo
	err := wr.d.Rename(tmpFileName(n.w.hash), n.w.name())
	if err == nil {
		e, err = wr.d.Stat(n.w.name()) // the new name has touched it
	}
	n.w.ctime.Store(e.CTime)
	n.w.due.Store(wr.s.scrubber.clock() + int64(wr.s.o.testing.recheck))
	if err != nil {
		err = errors.Join(err, wr.d.Dir.Remove(n.w.name()))
	}
	return wr.s.diskFailed(n.w.hash, err)
}

// enterFile tells the index and the journal of a whole file.
func (wr *writer) enterFile(w *wholeFile) {
	x := wr.d.index
	x.mu.Lock()
	x.files[w.hash] = w
	x.mu.Unlock()
	wr.held[protected] += onDisk(w.size)
	wr.queues.push(protected, queueItem{file: w})
	wr.write(w.record())
}
