package disk

import (
	"errors"
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
)

// mayShare reports whether a folder that this process cannot own may still be read.
func mayShare(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission)
}

// share opens a folder that another process owns, or owned.
func (s *Store) share() (err error) {
	f, err := s.o.testing.openDir(s.dir, false)
	if err != nil {
		return err
	}
	d := newFolder(f)
	for range 5 { // the owner may replace the journal at the same time
		if err = s.shareFolder(d); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err == nil {
		s.stats.reset()
		err = s.countFolder(d)
	}
	if err != nil {
		return errors.Join(err, d.close())
	}
	s.use(d)
	return nil
}

// countFolder counts the bytes of all files.
func (s *Store) countFolder(d *folder) error {
	for dir, sort := range map[string]*atomic.Int64{"": &s.stats.journalBytes, "seg": &s.stats.segmentBytes, "whole": &s.stats.fileBytes} {
		entries, err := d.List(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Regular {
				s.stats.use(index.OnDisk(e.Size), sort)
			}
		}
	}
	return nil
}

func (s *Store) shareFolder(d *folder) error {
	names, err := d.List("")
	if err != nil {
		return err
	}
	id, state, err := format(d, names)
	if err != nil || state == formatFresh {
		return err
	}
	found, _, err := wal.Recover(d, names, id)
	if err != nil || found == nil {
		return err
	}
	d.index = found.Index
	return d.forgetChangedFiles()
}

// forgetChangedFiles forgets the whole files that are absent or changed. The journal of the
// owner does not list them.
func (d *folder) forgetChangedFiles() error {
	entries, err := d.List("whole")
	if err != nil {
		return err
	}
	there := make(map[string]vfs.FileInfo, len(entries))
	for _, e := range entries {
		there["whole/"+e.Name] = e
	}
	for _, w := range d.index.Files() {
		e := there[w.Name()]
		if !isUnchanged(w, e) {
			d.index.ForgetFile(w.Hash)
		}
		w.Suspect.Store(e.CTime != w.CTime.Load())
	}
	return nil
}
