package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A recordPlace is where the record of a folder lies: a file of its own, named by what
// the record is of, that only its owner may look at.
type recordPlace struct {
	folder string // of all records
	path   string
	head   recordHead
}

// recordsName is the folder of all records in cacheDir.
const recordsName = "publish"

// cacheDir is where xetfs keeps what it can do without, by the rules of XDG.
func cacheDir() (string, error) {
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "xetfs"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", errors.New("neither XDG_CACHE_HOME nor HOME is an absolute path")
	}
	return filepath.Join(home, ".cache", "xetfs"), nil
}

// ownCacheDir is cacheDir if it belongs to this user.
func ownCacheDir() (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	return checkOwn(dir)
}

// newRecordPlace returns the place for the record of a folder, which is made if need be.
func newRecordPlace(catalog, symbol, folder string) (*recordPlace, error) {
	dir, err := ownCacheDir()
	if err != nil {
		return nil, err
	}
	p := &recordPlace{folder: filepath.Join(dir, recordsName), head: recordHead{recordFormat, catalog, symbol, strings.ToValidUTF8(folder, "\ufffd")}}
	sum := sha256.Sum256([]byte(strings.Join([]string{catalog, symbol, folder}, "\x00")))
	p.path = filepath.Join(p.folder, hex.EncodeToString(sum[:16]))
	return p, os.MkdirAll(p.folder, 0o700)
}

// A recordFile is an open record.
type recordFile struct {
	*recordReader
	f *os.File
}

// open opens the record, or returns nil if there is none that can be believed: whoever
// could write it could say what files contain.
func (p *recordPlace) open() *recordFile {
	f, err := os.OpenFile(p.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err == nil && int(st.Uid) == os.Geteuid() && st.Mode&(unix.S_IFMT|0o022) == unix.S_IFREG {
		if r, err := newRecordReader(f, p.head); err == nil {
			return &recordFile{r, f}
		}
	}
	f.Close()
	return nil
}

func (f *recordFile) close() {
	if f != nil {
		f.f.Close()
	}
}

// reader returns the files of the record; nil has none.
func (f *recordFile) reader() *recordReader {
	if f == nil {
		return nil
	}
	return f.recordReader
}

// A newRecord is a record that is being written.
type newRecord struct {
	*recordWriter
	place *recordPlace
	f     *os.File
	buf   *bufio.Writer
}

const recordTemp = "new-"

// create begins a record beside the old one.
func (p *recordPlace) create() (*newRecord, error) {
	f, err := os.CreateTemp(p.folder, recordTemp) // mode 0600
	if err != nil {
		return nil, err
	}
	buf := bufio.NewWriterSize(f, 256<<10)
	return &newRecord{newRecordWriter(buf, p.head), p, f, buf}, nil
}

// replace puts the record in the place of the old one. After a power loss it may be damaged or
// gone, which does no harm.
func (n *newRecord) replace() error {
	err := errors.Join(n.close(), n.buf.Flush(), n.f.Close())
	if err == nil {
		err = os.Rename(n.f.Name(), n.place.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(n.f.Name()))
	}
	n.place.removeOld()
	return nil
}

// drop forgets the record.
func (n *newRecord) drop() {
	n.f.Close()
	_ = os.Remove(n.f.Name()) // or it goes when it is old
}

// Records of folders that nobody publishes any more, and what killed runs left.
const (
	recordAge     = 180 * 24 * time.Hour
	recordTempAge = 7 * 24 * time.Hour
)

// removeOld removes records that nobody needs. What cannot be removed stays.
func (p *recordPlace) removeOld() {
	all, err := os.ReadDir(p.folder)
	if err != nil {
		return
	}
	for _, d := range all {
		age := recordAge
		if strings.HasPrefix(d.Name(), recordTemp) {
			age = recordTempAge
		} else if _, err := hex.DecodeString(d.Name()); err != nil || len(d.Name()) != 32 {
			continue // not a record
		}
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > age {
			_ = os.Remove(filepath.Join(p.folder, d.Name()))
		}
	}
}
