package inspect

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"regexp"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/journal"
)

// The fields of a journal as inspect --json shows it, damaged or not, are
//
//	format  "leveldb-log"
//	size    of the file
//	events  in order, all that can be read past any damage:
//	        {"record": {"offset" (of the first header), "len", "sha256"}} or
//	        {"drop": {"bytes", "why"}}, with a journal.Why
//	prefix  what recovery takes: {"records" (how many), "valid_end" (of the last),
//	        "tail" (what is behind it, a journal.Tail)}
//
// The names are a promise.

// An eventDoc is a record of a journal, or a gap.
type eventDoc struct {
	Record *recordDoc `json:"record,omitempty"`
	Drop   *dropDoc   `json:"drop,omitempty"`
}

type recordDoc struct {
	Offset int64  `json:"offset"`
	Len    int    `json:"len"`
	SHA256 string `json:"sha256"`
}

type dropDoc struct {
	Bytes int64       `json:"bytes"`
	Why   journal.Why `json:"why"`
}

// A prefixDoc is the result of a recovery of a journal.
type prefixDoc struct {
	Records  int    `json:"records"`
	ValidEnd int64  `json:"valid_end"`
	Tail     string `json:"tail"`
}

// logNames are the names of journals of a LevelDB.
var logNames = regexp.MustCompile(`^([0-9]{6,}\.log|MANIFEST-[0-9]{6,})$`)

// checkLog returns the damage that recovery meets behind the last good record, or nil.
func checkLog(r io.ReaderAt, size int64) error {
	prefix, err := logPrefix(r, size)
	if err == nil && prefix.Tail != journal.Clean.String() {
		err = codec.Corrupt("journal", prefix.ValidEnd, "what is behind the last good record is %s", prefix.Tail)
	}
	return err
}

// logJSON writes a journal as one object.
func logJSON(w io.Writer, r io.ReaderAt, size int64) error {
	prefix, err := logPrefix(r, size)
	if err != nil {
		return err
	}
	doc := ui.NewDocument(w)
	doc.Field("format", "leveldb-log")
	doc.Field("size", size)
	doc.Begin("events")
	if err := logEvents(r, size, func(e eventDoc) { doc.Element(e) }); err != nil {
		return err
	}
	doc.End()
	doc.Field("prefix", prefix)
	return doc.Close()
}

// logPrefix reads a journal like a recovery.
func logPrefix(r io.ReaderAt, size int64) (prefixDoc, error) {
	log := newLog(r, size, journal.Options{})
	for n := 0; ; n++ {
		_, _, err := log.Next()
		if errors.Is(err, io.EOF) {
			end, tail := log.Tail()
			return prefixDoc{n, end, tail.String()}, nil
		}
		if err != nil {
			return prefixDoc{}, err
		}
	}
}

// logEvents calls do for each readable record and each gap of a journal.
func logEvents(r io.ReaderAt, size int64, do func(eventDoc)) error {
	log := newLog(r, size, journal.Options{
		Mode:   journal.Resync,
		OnDrop: func(_, bytes int64, why journal.Why) { do(eventDoc{Drop: &dropDoc{bytes, why}}) },
	})
	for {
		record, off, err := log.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		sum := sha256.Sum256(record)
		do(eventDoc{Record: &recordDoc{off, len(record), hex.EncodeToString(sum[:])}})
	}
}

// newLog returns a reader for records of any length. A database may write a batch of gigabytes,
// and the size of the file bounds the allocation.
func newLog(r io.ReaderAt, size int64, o journal.Options) *journal.Reader {
	o.MaxRecord = int(min(max(size, 1), math.MaxInt))
	return journal.NewReader(io.NewSectionReader(r, 0, size), o)
}
