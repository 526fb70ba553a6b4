package inspect

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
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
// The names are a promise. catalog.md, section 6.1, has those of the object.

// checkDocument returns the damage of a document or list, or nil.
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
	doc := ui.NewDocument(w)
	doc.Field("format", "document")
	doc.Field("kind", kind)
	doc.Field("size", size)
	lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
	lines = lines[:len(lines)-1] // the last is the checksum
	if len(lines) == 1 && lines[0][0] == '{' {
		doc.Field("document", json.RawMessage(lines[0]))
		return doc.Close()
	}
	doc.Begin("lines")
	for _, line := range lines {
		if json.Valid(line) {
			doc.Element(json.RawMessage(line))
		} else {
			doc.Element(string(line))
		}
	}
	doc.End()
	return doc.Close()
}
