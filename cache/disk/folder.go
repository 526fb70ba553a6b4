package disk

import (
	"context"
	"errors"
	"hash/crc32"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
)

// A folder is the open files of a store and its index. A store that resumes opens a new one.
type folder struct {
	vfs.Dir
	index  *index.Index
	opened openFiles
}

func newFolder(f vfs.Dir) *folder {
	return &folder{Dir: f, index: index.New(), opened: openFiles{limit: maxOpen(descriptorLimit())}}
}

// close closes all files except whole files.
func (d *folder) close() error {
	d.opened.closeAll()
	return d.Dir.Close()
}

// errMoved means that a segment was deleted before it could be read.
var errMoved = errors.New("it was moved or evicted meanwhile")

var errChecksum = errors.New("not the bytes that were written")

// readSpan fills b. It tries again if the file was closed in favor of another one.
func (d *folder) readSpan(p index.Span, b []byte) error {
	for again := false; ; again = true {
		f, err := d.opened.get(d.Dir, p.Segment)
		if err != nil {
			return err
		}
		_, err = f.ReadAt(b, p.Off)
		if !errors.Is(err, os.ErrClosed) || again {
			return err
		}
	}
}

func (d *folder) openFile(w *index.WholeFile) (vfs.File, error) {
	f, err := d.Open(w.Name(), false)
	if err != nil {
		return nil, err
	}
	if err := compareStat(w, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// compareStat compares length and times of a file with those in the index. A comparison of the
// bytes would cost as much time as the file saves.
func compareStat(w *index.WholeFile, f vfs.File) error {
	e, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !isUnchanged(w, e):
		return errFileChanged
	case e.CTime != w.CTime.Load() && !e.Unlinked:
		return errCtimeChanged
	}
	return nil
}

func isUnchanged(w *index.WholeFile, e vfs.FileInfo) bool {
	return e.Regular && e.Size == w.Size && e.MTime == w.MTime
}

var (
	errFileChanged  = errors.New("the file was changed")
	errCtimeChanged = errors.New("the ctime of the file changed, and perhaps its content")
)

// checksumFile compares a file with its checksum and returns the ctime before the read. It
// leaves bytes that were not in memory out of the page cache.
func (d *folder) checksumFile(ctx context.Context, w *index.WholeFile, pace func(w *index.WholeFile, n int, took time.Duration)) (ctime int64, err error) {
	began := time.Now()
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
			began = time.Now()
		}
	}
	if crc != w.CRC {
		return 0, errChecksum
	}
	return e.CTime, nil
}

// readOnce is ReadAt of bytes that are probably not read again.
func readOnce(f vfs.File, b []byte, off int64) error {
	if f.TryRead(b, off) == len(b) {
		return nil
	}
	if _, err := f.ReadAt(b, off); err != nil {
		return err
	}
	if plain := f.OSFile(); plain != nil {
		_ = unix.Fadvise(int(plain.Fd()), off, int64(len(b)), unix.FADV_DONTNEED) // the bytes stay in memory
	}
	return nil
}

// flagCorrupt changes the ctime of a corrupt file, so that the owner of the folder compares the file. The
// next owner does so, too, if no journal records the damage. A suspended store has no journal.
func (d *folder) flagCorrupt(w *index.WholeFile) {
	f, err := d.Open(w.Name(), false)
	if err != nil {
		return
	}
	if plain := f.OSFile(); plain != nil {
		_ = plain.Chmod(os.FileMode(0o600)) // on a read-only file system a later comparison finds the damage
	}
	_ = f.Close() // nothing was written
}

// verifyBytes is about the size of one read of Verify.
const verifyBytes = 1 << 20
