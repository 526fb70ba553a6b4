package disk

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
	"github.com/xetfs/xetfs/codec"
)

// PutFile stores a whole file of size bytes. content must end with an error instead of io.EOF if
// it does not match the hash. The file is stored after all of content was read without an error
// and is durable. Its record in the index survives kill -9, and a power loss after the next sync:
// without the record, Open deletes the file. Nothing is read if the file is stored already. Unlike
// PutRunNoCopy, PutFile waits for the disk. The error is that of content, or one of PutRunNoCopy.
// ErrBusy means that another call writes the same file.
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
	if kept, err := s.checkNow(d, d.index.File(h)); kept || err != nil {
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
		_ = wr.do(func() error { return wr.unreserve(d, h, size) }) // in a closed or suspended store, load deletes the rest
	}
	return err
}

// materialize writes the content to a temporary file.
func (s *Store) materialize(d *folder, h codec.Hash, size int64, content io.Reader) (*index.WholeFile, error) {
	rest := spaceReservation{&s.stats, size}
	defer rest.end()
	if err := d.Remove(tmpFileName(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, s.diskFailed(h, err)
	}
	f, err := d.Create(tmpFileName(h))
	if err != nil {
		return nil, s.diskFailed(h, err)
	}
	w := &index.WholeFile{Hash: h, Size: size}
	var e vfs.FileInfo
	if w.CRC, err = s.fill(f, w, content, &rest); err == nil {
		if err = f.Sync(); err == nil {
			e, err = f.Stat()
		}
		w.MTime = e.MTime
		err = s.diskFailed(h, err)
	}
	return w, errors.Join(err, s.diskFailed(h, f.Close()))
}

// fill writes content to f, uses up the reservation, and returns the checksum.
func (s *Store) fill(f vfs.File, w *index.WholeFile, content io.Reader, rest *spaceReservation) (crc uint32, err error) {
	b := make([]byte, min(w.Size+1, 1<<20)) // one more byte, to detect longer content
	for off := int64(0); ; {
		n, err := content.Read(b)
		if int64(n) > w.Size-off {
			return 0, fmt.Errorf("file %s: it is longer than %d bytes", w.Hash, w.Size)
		}
		if n > 0 {
			crc = crc32.Update(crc, index.CRCTable, b[:n])
			if _, err := f.WriteAt(b[:n], off); err != nil {
				return 0, s.diskFailed(w.Hash, err)
			}
			off += int64(n)
			rest.use(int64(n))
		}
		switch {
		case errors.Is(err, io.EOF) && off < w.Size:
			return 0, fmt.Errorf("file %s: it ends after %d of %d bytes", w.Hash, off, w.Size)
		case errors.Is(err, io.EOF):
			return crc, nil
		case err != nil:
			return 0, err
		case s.down() != nil:
			return 0, s.down()
		}
	}
}

// diskFailed records an error of the disk and adds the file to it.
func (s *Store) diskFailed(h codec.Hash, err error) error {
	if err == nil {
		return nil
	}
	s.failed("writing file "+h.String(), err)
	return fmt.Errorf("file %s: %w", h, err)
}

// reserve makes room for a whole file and counts its bytes.
func (wr *writer) reserve(d *folder, h codec.Hash, size int64) error {
	if d != wr.d {
		return ErrSuspended
	}
	if err := wr.deleteNamed(tmpFileName(h), index.FileName(h)); err != nil {
		return fmt.Errorf("file %s: %w", h, err)
	}
	if err := wr.makeRoom(size, 0); err != nil {
		return err
	}
	wr.s.stats.use(index.OnDisk(size), &wr.s.stats.fileBytes)
	wr.s.stats.reserved.Add(size)
	return nil
}

// unreserve deletes a temporary file, which may have its name already.
func (wr *writer) unreserve(d *folder, h codec.Hash, size int64) error {
	if d != wr.d {
		return nil
	}
	name := tmpFileName(h)
	if _, err := wr.d.Stat(name); errors.Is(err, fs.ErrNotExist) {
		name = index.FileName(h)
	}
	wr.delete(orphan{name: name, size: index.OnDisk(size), sort: &wr.s.stats.fileBytes})
	return nil
}

// name renames a temporary file and adds it to the index.
func (wr *writer) name(d *folder, w *index.WholeFile) error {
	n := &pendingFile{d, w, make(chan error, 1)}
	if err := wr.add(op{name: n}); err != nil {
		return err
	}
	return <-n.done
}

// publishFiles renames all pending files and syncs their folder once. For small files the sync
// takes more time than all else.
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
	wr.failed("syncing whole files", err) // one failure, not one per file
	for _, n := range renamed {
		if err != nil {
			n.done <- fmt.Errorf("file %s: %w", n.w.Hash, err)
		} else {
			wr.enterFile(n.w)
		}
	}
	if err != nil {
		return
	}
	wr.flush() // the callers may be killed after this
	for _, n := range renamed {
		n.done <- nil
	}
}

func (wr *writer) rename(n *pendingFile) error {
	if n.d != wr.d || wr.log == nil {
		return ErrSuspended
	}
	var e vfs.FileInfo
	err := wr.d.Rename(tmpFileName(n.w.Hash), n.w.Name())
	if err == nil {
		e, err = wr.d.Stat(n.w.Name()) // the rename has changed it
	}
	n.w.CTime.Store(e.CTime)
	n.w.Due.Store(wr.s.scrubber.clock() + int64(wr.s.o.testing.recheck))
	return wr.s.diskFailed(n.w.Hash, err)
}

// enterFile adds a whole file to the index and the journal.
func (wr *writer) enterFile(w *index.WholeFile) {
	wr.d.index.AddFile(w)
	wr.policy.Held[index.Protected] += index.OnDisk(w.Size)
	wr.policy.Push(index.Protected, index.QueueItem{File: w})
	wr.write(wal.NewFileRecord(w))
	wr.syncing.entered(max(w.Size, 1)) // an empty file has a record, too
}
