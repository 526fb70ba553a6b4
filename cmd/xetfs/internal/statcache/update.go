package statcache

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/journal"
)

// An Update is a new file that may replace the old one. A nil Update discards all entries.
type Update struct {
	writer
	path *Path
	f    *os.File // nil: replaced or closed
	buf  *bufio.Writer
}

// Create creates a file beside the old one. Replace or Close ends it.
func Create(p *Path) (*Update, error) {
	f, err := os.CreateTemp(p.dir, tempPrefix) // mode 0600
	if err != nil {
		return nil, err
	}
	buf := bufio.NewWriterSize(f, 256<<10)
	return &Update{writer: newWriter(buf, p.head), path: p, f: f, buf: buf}, nil
}

// Add adds an entry. Its key must be above those before. The first error is returned by
// Replace, because a publish does not depend on the stat cache.
func (u *Update) Add(e *Entry) {
	if u != nil {
		u.add(e)
	}
}

// Replace replaces the old file. A power loss may damage or remove the file.
func (u *Update) Replace() error {
	if u == nil {
		return nil
	}
	f := u.f
	u.f = nil
	err := errors.Join(u.close(), u.buf.Flush(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), u.path.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	u.path.removeOld()
	return nil
}

// Close deletes the new file, unless Replace was called.
func (u *Update) Close() {
	if u == nil || u.f == nil {
		return
	}
	u.f.Close()
	_ = os.Remove(u.f.Name()) // removeOld deletes it later
	u.f = nil
}

// A writer writes the records of a file.
type writer struct {
	w      *journal.Writer
	part   []byte
	before []byte // key of the last entry in part
	shards map[codec.Hash]uint64
	err    error // the first error
}

func newWriter(w io.Writer, h head) writer {
	jw := journal.NewWriter(w, 0)
	line, err := json.Marshal(h)
	if err == nil {
		_, _, err = jw.Append(line)
	}
	return writer{w: jw, shards: map[codec.Hash]uint64{}, err: err}
}

func (w *writer) add(e *Entry) {
	if w.err != nil {
		return
	}
	w.part = appendEntry(w.part, e, w.before, w.shards)
	w.before = append(w.before[:0], e.Key...)
	if len(w.part) >= partSize {
		w.flush()
	}
}

// flush writes the open record.
func (w *writer) flush() {
	if len(w.part) > 0 && w.err == nil {
		_, _, w.err = w.w.Append(w.part)
	}
	w.part, w.before = w.part[:0], w.before[:0]
}

// close writes the rest and returns the first error of all calls.
func (w *writer) close() error {
	w.flush()
	return w.err
}
