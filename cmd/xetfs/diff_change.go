package main

import (
	"cmp"
	"maps"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// differences returns the properties in which two entries of one path differ. An absent entry
// has no differences.
func differences(a, b *page.Entry) []string {
	if a == nil || b == nil {
		return nil
	}
	if a.Type != b.Type {
		return []string{"type"}
	}
	var what []string
	for _, respect := range []struct {
		name string
		same bool
	}{
		{"content", a.Type != page.File || sameContent(a, b)},
		{"target", a.Target == b.Target},
		{"mode", a.Mode == b.Mode},
		{"mtime", a.ModTime.Equal(b.ModTime)},
		{"owner", a.Owner == b.Owner || a.Owner != nil && b.Owner != nil && *a.Owner == *b.Owner},
		{"xattrs", maps.Equal(a.Xattrs, b.Xattrs)},
	} {
		if !respect.same {
			what = append(what, respect.name)
		}
	}
	return what
}

// sameContent reports whether two entries are files with the same bytes.
func sameContent(a, b *page.Entry) bool {
	return a.Type == page.File && b.Type == page.File && a.Size == b.Size && inspect.ContentHash(a) == inspect.ContentHash(b)
}

// diffLine is a change as people read it.
func diffLine(c page.Change, what []string) string {
	switch {
	case c.Old == nil:
		return "A " + ui.QuoteName(cmp.Or(c.New.Path, "."))
	case c.New == nil:
		return "D " + ui.QuoteName(cmp.Or(c.Old.Path, "."))
	}
	return "M " + ui.QuoteName(cmp.Or(c.New.Path, ".")) + " (" + strings.Join(what, ", ") + ")"
}

// A diffDoc is a change as diff --json shows it, and a diffEntryDoc one of its sides. The
// names are a promise.
type diffDoc struct {
	Path   string        `json:"path"`
	Bytes  []byte        `json:"path_bytes"` // base64 of a path that is no UTF-8; else null
	Change string        `json:"change"`     // "added", "removed" or "changed"
	What   []string      `json:"what"`
	From   *diffEntryDoc `json:"from"`
	To     *diffEntryDoc `json:"to"`
}

type diffEntryDoc struct {
	Type     string      `json:"type"`
	Mode     string      `json:"mode"`
	Size     *int64      `json:"size"`
	Modified ui.FileTime `json:"modified"`
	Hash     *codec.Hash `json:"hash"`
	Target   *string     `json:"target"`
}

func newDiffDoc(c page.Change, what []string) diffDoc {
	doc := diffDoc{Change: "changed", What: append([]string{}, what...), From: newDiffEntry(c.Old), To: newDiffEntry(c.New)}
	switch e := c.New; {
	case c.Old == nil:
		doc.Change, doc.Path = "added", e.Path
	case e == nil:
		doc.Change, doc.Path = "removed", c.Old.Path
	default:
		doc.Path = e.Path
	}
	doc.Bytes = inspect.OddBytes(doc.Path)
	return doc
}

func newDiffEntry(e *page.Entry) *diffEntryDoc {
	if e == nil {
		return nil
	}
	d := inspect.NewEntryDoc(*e)
	return &diffEntryDoc{Type: d.Type, Mode: d.Mode, Size: d.Size, Modified: d.Modified, Hash: d.Hash, Target: d.Target}
}
