package statcache

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/journal"
	"github.com/xetfs/xetfs/codec/page"
)

// A File has the entries of the last publish. A nil File has none.
type File struct {
	*reader
	f *os.File
}

// Open opens the file of the last publish, or returns nil. A file that another user could have
// written is ignored: its writer could forge the content of a tree.
func Open(p *Path) *File {
	f, err := os.OpenFile(p.file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err == nil && int(st.Uid) == os.Geteuid() && st.Mode&(unix.S_IFMT|0o022) == unix.S_IFREG {
		if r, err := newReader(f, p.head); err == nil {
			return &File{r, f}
		}
	}
	f.Close()
	return nil
}

// Find returns the entry with a key, or nil. Calls must be in the order of keys, because File
// has one record in memory.
func (f *File) Find(key []byte) *Entry {
	if f == nil {
		return nil
	}
	return f.find(key)
}

// Close closes the file.
func (f *File) Close() {
	if f != nil {
		f.f.Close()
	}
}

// A reader decodes a file.
type reader struct {
	r      *journal.Reader // nil: at the end, or damaged
	part   []byte          // rest of the record
	key    []byte          // of next, and of the entry before
	next   *Entry
	shards []codec.Hash
}

// newReader returns a reader of a file with head want.
func newReader(r io.Reader, want head) (*reader, error) {
	rr := &reader{r: journal.NewReader(r, journal.Options{MaxRecord: maxRecord})}
	line, _, err := rr.r.Next()
	if err != nil {
		return nil, err
	}
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, err
	}
	if h != want {
		return nil, errors.New("stat cache of another folder")
	}
	return rr, nil
}

func (r *reader) find(key []byte) *Entry {
	for {
		if r.next == nil && !r.advance() {
			return nil
		}
		switch c := bytes.Compare(r.next.Key, key); {
		case c > 0:
			return nil
		case c == 0:
			return r.next
		}
		r.next = nil
	}
}

// advance reads the next entry. The first defect ends the file.
func (r *reader) advance() bool {
	if r.r == nil {
		return false
	}
	if len(r.part) == 0 {
		part, _, err := r.r.Next()
		if err != nil || len(part) == 0 {
			r.r = nil
			return false
		}
		r.part, r.key = part, r.key[:0]
	}
	if !r.decode() {
		r.r = nil
		return false
	}
	return true
}

// decode reads one entry of the record.
func (r *reader) decode() bool {
	f := fields{b: r.part}
	shared, rest := f.uvarint(), f.uvarint()
	if shared > uint64(len(r.key)) || rest > page.MaxPath+1 {
		return false
	}
	key := append(r.key[:shared:shared], f.bytes(int(rest))...)
	e := &Entry{Key: key}
	e.Stat.Size = int64(f.uvarint())
	e.Stat.MTime = f.svarint()
	e.Stat.CTime = e.Stat.MTime + f.svarint()
	e.Stat.Inode = f.uvarint()
	e.Stat.Dev = f.uvarint()
	flags := f.uvarint()
	switch {
	case e.Stat.Size < 1 || flags&^(hasInline|hasSHA256) != 0:
		return false
	case flags&hasInline == 0:
		e.ID = r.id(&f)
	case e.Stat.Size > page.MaxInline:
		return false
	default:
		e.Inline = bytes.Clone(f.bytes(int(e.Stat.Size)))
	}
	if flags&hasSHA256 != 0 {
		sum := [32]byte(f.hash())
		e.SHA256 = &sum
	}
	if f.bad {
		return false
	}
	r.next, r.key, r.part = e, key, f.b
	return true
}

// id reads the place of a File Info block.
func (r *reader) id(f *fields) codec.FileID {
	id := codec.FileID{File: f.hash()}
	switch n := f.uvarint(); {
	case n < uint64(len(r.shards)):
		id.Shard = r.shards[n]
	case n == uint64(len(r.shards)):
		id.Shard = f.hash()
		r.shards = append(r.shards, id.Shard)
	default:
		f.bad = true
	}
	block := f.uvarint()
	f.bad = f.bad || block > math.MaxInt64/blockUnit
	id.Block = int64(block) * blockUnit
	return id
}

// fields decodes fields from the front of b. After a truncated field it is bad and returns
// zeros.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) uvarint() uint64 { return number(f, binary.Uvarint) }
func (f *fields) svarint() int64  { return number(f, binary.Varint) }

func number[V uint64 | int64](f *fields, decode func([]byte) (V, int)) V {
	v, n := decode(f.b)
	if n <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

// bytes returns n bytes, or none if the record is shorter.
func (f *fields) bytes(n int) []byte {
	if n > len(f.b) {
		f.bad, f.b = true, nil
		return nil
	}
	b := f.b[:n]
	f.b = f.b[n:]
	return b
}

func (f *fields) hash() (h codec.Hash) {
	copy(h[:], f.bytes(len(h)))
	return h
}
