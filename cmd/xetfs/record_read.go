package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/journal"
	"github.com/xetfs/xetfs/codec/page"
)

// A recordReader finds files in a record. Who asks for them in the order of their keys
// finds all of them, with one part of the record in memory.
type recordReader struct {
	r      *journal.Reader
	part   []byte // what is left of the part
	key    []byte // of next, and of the file before
	next   *recorded
	shards []codec.Hash
}

// newRecordReader returns a reader of a record, if it is the one that want describes.
func newRecordReader(r io.Reader, want recordHead) (*recordReader, error) {
	rr := &recordReader{r: journal.NewReader(r, journal.Options{MaxRecord: recordPart + maxRecordRow})}
	line, _, err := rr.r.Next()
	if err != nil {
		return nil, err
	}
	var head recordHead
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, err
	}
	if head != want {
		return nil, errors.New("the record of another folder")
	}
	return rr, nil
}

// find returns the file with a key, or nil if the record does not have it. Keys must be
// asked for in their order.
func (rr *recordReader) find(key []byte) *recorded {
	if rr == nil {
		return nil
	}
	for {
		if rr.next == nil && !rr.advance() {
			return nil
		}
		switch c := bytes.Compare(rr.next.key, key); {
		case c > 0:
			return nil
		case c == 0:
			return rr.next
		}
		rr.next = nil
	}
}

// advance reads the next file. What is damaged ends the record.
func (rr *recordReader) advance() bool {
	if rr.r == nil {
		return false
	}
	if len(rr.part) == 0 {
		part, _, err := rr.r.Next()
		if err != nil || len(part) == 0 {
			rr.r = nil
			return false
		}
		rr.part, rr.key = part, rr.key[:0]
	}
	if !rr.decode() {
		rr.r = nil
		return false
	}
	return true
}

// decode reads one file from the part.
func (rr *recordReader) decode() bool {
	f := recordFields{b: rr.part}
	shared, rest := f.uvarint(), f.uvarint()
	if shared > uint64(len(rr.key)) || rest > page.MaxPath+1 {
		return false
	}
	key := append(rr.key[:shared:shared], f.bytes(int(rest))...)
	r := &recorded{key: key}
	r.stamp.size = int64(f.uvarint())
	r.stamp.mtime = f.svarint()
	r.stamp.ctime = r.stamp.mtime + f.svarint()
	r.stamp.inode = f.uvarint()
	r.stamp.dev = f.uvarint()
	flags := f.uvarint()
	switch {
	case r.stamp.size < 1 || flags&^(recordInline|recordSHA256) != 0:
		return false
	case flags&recordInline == 0:
		r.id = rr.id(&f)
	case r.stamp.size > page.MaxInline:
		return false
	default:
		r.inline = bytes.Clone(f.bytes(int(r.stamp.size)))
	}
	if flags&recordSHA256 != 0 {
		sum := [32]byte(f.hash())
		r.sha256 = &sum
	}
	if f.bad {
		return false
	}
	rr.next, rr.key, rr.part = r, key, f.b
	return true
}

// id reads where a file is described.
func (rr *recordReader) id(f *recordFields) codec.FileID {
	id := codec.FileID{File: f.hash()}
	switch n := f.uvarint(); {
	case n < uint64(len(rr.shards)):
		id.Shard = rr.shards[n]
	case n == uint64(len(rr.shards)):
		id.Shard = f.hash()
		rr.shards = append(rr.shards, id.Shard)
	default:
		f.bad = true
	}
	block := f.uvarint()
	f.bad = f.bad || block > math.MaxInt64/recordBlock
	id.Block = int64(block) * recordBlock
	return id
}

// recordFields takes fields from the front of b. After one that is not whole it is bad,
// and gives zeros.
type recordFields struct {
	b   []byte
	bad bool
}

func (f *recordFields) uvarint() uint64 { return recordNumber(f, binary.Uvarint) }
func (f *recordFields) svarint() int64  { return recordNumber(f, binary.Varint) }

func recordNumber[V uint64 | int64](f *recordFields, decode func([]byte) (V, int)) V {
	v, n := decode(f.b)
	if n <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[n:]
	return v
}

// bytes returns n bytes, or none if there are fewer.
func (f *recordFields) bytes(n int) []byte {
	if n > len(f.b) {
		f.bad, f.b = true, nil
		return nil
	}
	b := f.b[:n]
	f.b = f.b[n:]
	return b
}

func (f *recordFields) hash() (h codec.Hash) {
	copy(h[:], f.bytes(len(h)))
	return h
}
