package main

import (
	"encoding/json"
	"io"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/journal"
)

// A recordWriter writes a record. The first error is kept for close: what is published
// does not depend on it.
type recordWriter struct {
	w      *journal.Writer
	part   []byte
	before []byte // key of the last file in part
	shards map[codec.Hash]uint64
	err    error
}

func newRecordWriter(w io.Writer, head recordHead) *recordWriter {
	rw := &recordWriter{w: journal.NewWriter(w, 0), shards: map[codec.Hash]uint64{}}
	line, err := json.Marshal(head)
	if err == nil {
		_, _, err = rw.w.Append(line)
	}
	rw.err = err
	return rw
}

// add adds a file. Its key must be above all before.
func (rw *recordWriter) add(r *recorded) {
	if rw.err != nil {
		return
	}
	rw.part = appendRecorded(rw.part, r, rw.before, rw.shards)
	rw.before = append(rw.before[:0], r.key...)
	if len(rw.part) >= recordPart {
		rw.end()
	}
}

// end writes the open part.
func (rw *recordWriter) end() {
	if len(rw.part) > 0 && rw.err == nil {
		_, _, rw.err = rw.w.Append(rw.part)
	}
	rw.part, rw.before = rw.part[:0], rw.before[:0]
}

// close writes what is left and returns the first error there was.
func (rw *recordWriter) close() error {
	rw.end()
	return rw.err
}
