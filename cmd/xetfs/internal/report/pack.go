package report

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/pack"
)

// A Pack prints the list and the summary of pack. It is an ingest.Report.
type Pack struct {
	*Folder
	bar  *ui.Progress
	list bool // print each file

	out *bufio.Writer
	doc *ui.Document // of --json; nil: text
	err error        // of out
}

// NewPack returns a report that prints each file only if list is set.
func NewPack(o Output, list bool) *Pack {
	p := &Pack{Folder: newFolder(o), bar: o.Bar, list: list, out: bufio.NewWriterSize(o.Out, 64<<10)}
	if o.JSON {
		p.doc = ui.NewDocument(p.out)
		if list {
			p.doc.Begin("list")
		}
	}
	return p
}

// A packedDoc is a file in JSON.
type packedDoc struct {
	Path   string     `json:"path"`
	Bytes  []byte     `json:"path_bytes"` // base64 of a path that is no UTF-8; else null
	Size   int64      `json:"size"`
	Hash   codec.Hash `json:"hash"`
	SHA256 *string    `json:"sha256"`
}

// File prints a packed file.
func (p *Pack) File(e *ingest.Entry) {
	if !p.list {
		return
	}
	doc := packedDoc{Path: e.FullPath(), Bytes: ui.OddBytes(e.FullPath()), Size: e.Size, Hash: e.ID.File}
	sum := "-"
	if e.SHA256 != nil {
		doc.SHA256 = inspect.PlainHex(*e.SHA256)
		sum = *doc.SHA256
	}
	if p.doc != nil {
		p.doc.Element(doc)
		return
	}
	p.bar.Clear()
	_, err := fmt.Fprintf(p.out, "%12d  %s  %s  %s\n", doc.Size, doc.Hash, sum, ui.QuoteName(doc.Path))
	p.err = cmp.Or(p.err, err)
}

// Close prints the summary.
func (p *Pack) Close(s pack.Stats, took time.Duration) error {
	if p.doc != nil {
		if err := p.closeJSON(s, took); err != nil {
			return err
		}
	} else {
		_, err := p.out.Write(p.summary(s, took))
		if err := cmp.Or(p.err, err); err != nil {
			return err
		}
	}
	return cmp.Or(p.out.Flush(), p.incomplete())
}

// closeJSON writes the fields that the help of pack promises.
func (p *Pack) closeJSON(s pack.Stats, took time.Duration) error {
	d := p.doc
	if p.list {
		d.End()
	}
	p.skippedFields(d)
	d.Field("files", s.Files)
	d.Field("bytes", s.Bytes)
	d.Field("seconds", took.Seconds())
	packFields(d, s, took)
	return d.Close()
}

func (p *Pack) summary(s pack.Stats, took time.Duration) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "packed   %s, %s in %.1f s: %s/s\n", ui.Plural(s.Files, "file"), ui.HumanSize(s.Bytes), took.Seconds(), ui.HumanSize(perSecond(s.Bytes, took)))
	fmt.Fprintf(&b, "chunks   %s\n", chunksText(s))
	fmt.Fprintf(&b, "stored   %s\n", storedText(s))
	if s.Again > 0 {
		fmt.Fprintf(&b, "again    %s in %s were stored once more, so that no file is in crumbs\n", ui.HumanSize(s.AgainBytes), ui.Plural(s.Again, "chunk"))
	}
	p.skippedText(&b, "%-9s")
	return b.Bytes()
}
