package inspect

import (
	"io"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// The fields of an index page as inspect --json shows it are, beside its entries or links:
//
//	format         "page"
//	size, hash     of the page
//	level          0: a leaf
//	rows           in this page
//	entries_below  in the tree below it, and
//	bytes_below    the sum of the sizes of their files
//
// A leaf has entries, a higher page links. The names are a promise. An absent value is null.

// A pageEntryDoc is an entry with the fields of ls --json and those of the page.
type pageEntryDoc struct {
	EntryDoc
	Shard  *codec.Hash       `json:"shard"` // where the file is described
	Block  *int64            `json:"block"` // at which byte of the shard
	Inline []byte            `json:"inline"`
	Xattrs map[string][]byte `json:"xattrs"`
}

// A linkDoc is a link to a page below.
type linkDoc struct {
	LastPath string `json:"last_path"` // of the last entry below
	Bytes    []byte `json:"last_path_bytes"`
	Hash     string `json:"hash"`
	Identity string `json:"identity"`
	Size     int    `json:"size"`
	Entries  int64  `json:"entries_below"`
	Below    int64  `json:"bytes_below"`
}

// checkPage returns the first damage of an index page that is visible without other pages.
func checkPage(r io.ReaderAt, size int64) error {
	_, err := readPage(r, size)
	return err
}

func readPage(r io.ReaderAt, size int64) (*page.Page, error) {
	if size > page.MaxSize {
		return nil, codec.Corrupt("page", page.MaxSize, "a page of %d bytes, at most %d are allowed", size, page.MaxSize)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, size), b); err != nil {
		return nil, err
	}
	return page.Decode(b)
}

// pageJSON writes a page that is not damaged as one object.
func pageJSON(w io.Writer, r io.ReaderAt, size int64) error {
	p, err := readPage(r, size)
	if err != nil {
		return err
	}
	entries, bytes := p.Below()
	doc := ui.NewDocument(w)
	doc.Field("format", "page")
	doc.Field("size", size)
	doc.Field("hash", page.Sum(p.Encoded()).String())
	doc.Field("identity", p.Identity().String())
	doc.Field("level", p.Level())
	doc.Field("rows", p.Len())
	doc.Field("entries_below", entries)
	doc.Field("bytes_below", bytes)
	if p.Level() == 0 {
		doc.Begin("entries")
		for e := range p.EntriesFrom(0) {
			doc.Element(newPageEntryDoc(e))
		}
	} else {
		doc.Begin("links")
		for l := range p.LinksFrom(0) {
			doc.Element(newLinkDoc(l))
		}
	}
	doc.End()
	return doc.Close()
}

func newPageEntryDoc(e page.Entry) pageEntryDoc {
	doc := pageEntryDoc{EntryDoc: NewEntryDoc(e), Inline: e.Inline}
	if !e.ID.Shard.IsZero() {
		doc.Shard, doc.Block = &e.ID.Shard, &e.ID.Block
	}
	if len(e.Xattrs) > 0 {
		doc.Xattrs = map[string][]byte{}
		for name, value := range e.Xattrs {
			doc.Xattrs[name] = []byte(value)
		}
	}
	return doc
}

func newLinkDoc(l page.Link) linkDoc {
	path, err := page.PathOf(l.Last)
	if err != nil {
		path = l.Last // of a page that was checked it is a path
	}
	return linkDoc{LastPath: path, Bytes: ui.OddBytes(path), Hash: l.Page.String(), Identity: l.Identity.String(), Size: l.Size, Entries: l.Entries, Below: l.Bytes}
}
