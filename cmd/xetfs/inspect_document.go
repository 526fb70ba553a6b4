package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/journal"
	"github.com/xetfs/xetfs/codec/names"
)

// The fields of a document of a catalog as inspect --json shows it are
//
//	format    "document"
//	kind      "vref", "ver", "tref", "cref", "gc", "symbol list" or "sweep list"
//	size      of the file
//	document  its object; of a list instead
//	lines     of a symbol list arrays, of a sweep list keys
//
// The names are a promise; those in the object are in catalog.md, section 6.1.

// checkDocument returns what is wrong with a document or list.
func checkDocument(r io.ReaderAt, size int64) error {
	b, err := readDocument(r, size)
	if err == nil {
		_, err = names.Check(b)
	}
	return err
}

func readDocument(r io.ReaderAt, size int64) ([]byte, error) {
	if size > names.MaxLongDocument {
		return nil, codec.Corrupt("document", names.MaxLongDocument, "%d bytes, at most %d are allowed", size, names.MaxLongDocument)
	}
	b := make([]byte, size)
	_, err := io.ReadFull(io.NewSectionReader(r, 0, size), b)
	return b, err
}

// documentJSON writes a document that is not damaged as one object.
func documentJSON(w io.Writer, r io.ReaderAt, size int64) error {
	b, err := readDocument(r, size)
	if err != nil {
		return err
	}
	kind, err := names.Check(b)
	if err != nil {
		return err
	}
	doc := newDocument(w)
	doc.field("format", "document")
	doc.field("kind", kind)
	doc.field("size", size)
	lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
	lines = lines[:len(lines)-1] // the last is the checksum
	if len(lines) == 1 && lines[0][0] == '{' {
		doc.field("document", json.RawMessage(lines[0]))
		return doc.close()
	}
	doc.begin("lines")
	for _, line := range lines {
		if json.Valid(line) {
			doc.element(json.RawMessage(line))
		} else {
			doc.element(string(line))
		}
	}
	doc.end()
	return doc.close()
}

// The fields of a journal as inspect --json shows it are
//
//	format   "log"
//	size     of the file
//	records  {"offset" (of the first header), "size"} of each
//	end      of the last record
//
// The names are a promise.

// A recordDoc is a record of a journal.
type recordDoc struct {
	Offset int64 `json:"offset"`
	Size   int   `json:"size"`
}

// checkLog says what recovery finds behind the last good record of a journal.
func checkLog(r io.ReaderAt, size int64) error {
	_, err := readLog(r, size, func(recordDoc) {})
	return err
}

// readLog calls do for every record up to the end, which it returns.
func readLog(r io.ReaderAt, size int64, do func(recordDoc)) (end int64, err error) {
	log := journal.NewReader(io.NewSectionReader(r, 0, size), journal.Options{})
	for {
		record, off, err := log.Next()
		if err == nil {
			do(recordDoc{off, len(record)})
			continue
		}
		end, tail := log.Tail()
		switch {
		case !errors.Is(err, io.EOF):
			return end, err
		case tail != journal.Clean:
			return end, codec.Corrupt("journal", end, "what is behind the last good record is %v", tail)
		}
		return end, nil
	}
}

// logJSON writes a journal with a clean end as one object.
func logJSON(w io.Writer, r io.ReaderAt, size int64) error {
	doc := newDocument(w)
	doc.field("format", "log")
	doc.field("size", size)
	doc.begin("records")
	end, err := readLog(r, size, func(record recordDoc) { doc.element(record) })
	if err != nil {
		return err
	}
	doc.end()
	doc.field("end", end)
	return doc.close()
}
