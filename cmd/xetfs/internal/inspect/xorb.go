package inspect

import (
	"io"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// The fields of a xorb as inspect --json shows it are, beside its chunks:
//
//	format  "xorb"
//	size    of the file
//	hash    of the xorb: the footer's or, without one, that of the chunks
//	footer  "none", "v0" or "v1"
//
// The names are a promise.

// A chunkDoc is one chunk of a xorb.
type chunkDoc struct {
	Index    int        `json:"index"`
	Offset   int64      `json:"offset"` // of its header in the xorb
	Scheme   string     `json:"scheme"` // "none", "lz4" or "bg4-lz4"
	Packed   int        `json:"packed"`
	Unpacked int        `json:"unpacked"`
	Hash     codec.Hash `json:"hash"`
}

// checkXorb returns the first damage of a xorb.
func checkXorb(r io.ReaderAt, size int64) error {
	_, err := soundXorb(r, size)
	return err
}

// soundXorb returns the info of a xorb, hashes included, if nothing in it is damaged.
func soundXorb(r io.ReaderAt, size int64) (*xorb.Info, error) {
	var first error
	in, err := xorb.Check(r, size, func(fault error) {
		if first == nil {
			first = fault
		}
	})
	if first != nil {
		return nil, first
	}
	return in, err
}

// xorbJSON writes a xorb that is not damaged as one object.
func xorbJSON(w io.Writer, r io.ReaderAt, size int64) error {
	in, err := soundXorb(r, size)
	if err != nil {
		return err
	}
	doc := ui.NewDocument(w)
	doc.Field("format", "xorb")
	doc.Field("size", size)
	doc.Field("hash", in.Root())
	doc.Field("footer", in.Footer.String())
	doc.Begin("chunks")
	for c, err := range xorb.Chunks(r, size) {
		if err != nil {
			return err
		}
		doc.Element(chunkDoc{
			Index:    c.Index,
			Offset:   c.Off,
			Scheme:   c.Header.Scheme.String(),
			Packed:   c.Header.Packed,
			Unpacked: c.Header.Unpacked,
			Hash:     in.Chunks[c.Index],
		})
	}
	doc.End()
	return doc.Close()
}
