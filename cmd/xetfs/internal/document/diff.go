package document

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/delta"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/inspect"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A Diff prints the differences between two trees and counts them.
type Diff struct {
	out                     *bufio.Writer
	doc                     *ui.Document // of --json; nil: text
	short                   bool
	added, removed, changed int64
}

// A Side is one of two trees.
type Side struct {
	Symbol  string
	Version names.Row
}

// NewDiff returns a Diff without differences. A short one prints only the counts.
func NewDiff(w io.Writer, from, to Side, short, asJSON bool) *Diff {
	d := &Diff{out: bufio.NewWriterSize(w, 64<<10), short: short}
	if asJSON {
		d.doc = ui.NewDocument(d.out)
		d.doc.Field("from", newSideDoc(from))
		d.doc.Field("to", newSideDoc(to))
		d.doc.Begin("changes")
	}
	return d
}

// A sideDoc is a tree in JSON.
type sideDoc struct {
	Symbol  string  `json:"symbol"`
	Version *uint64 `json:"version"`
	TIndex  *string `json:"tindex"`
}

func newSideDoc(s Side) sideDoc {
	doc := sideDoc{Symbol: s.Symbol, TIndex: hashText(&s.Version.Identity)}
	if !s.Version.Time.IsZero() {
		doc.Version = &s.Version.Number
	}
	return doc
}

// Add prints a change with the properties that Differences returns.
func (d *Diff) Add(c page.Change, what []string) error {
	switch {
	case c.Old == nil:
		d.added++
	case c.New == nil:
		d.removed++
	default:
		d.changed++
	}
	switch {
	case d.short:
		return nil
	case d.doc != nil:
		d.doc.Element(newDiffDoc(c, what))
		return d.doc.Err
	}
	_, err := fmt.Fprintln(d.out, diffLine(c, what))
	return err
}

// Close prints the counts, and the data that has to be fetched; nil: unknown.
func (d *Diff) Close(fetch *delta.Cost) error {
	if d.doc != nil {
		d.doc.End()
		d.doc.Field("added", d.added)
		d.doc.Field("removed", d.removed)
		d.doc.Field("changed", d.changed)
		d.doc.Field("fetch", fetch)
		if err := d.doc.Close(); err != nil {
			return err
		}
		return d.out.Flush()
	}
	fmt.Fprintf(d.out, "%d added, %d removed, %d changed", d.added, d.removed, d.changed)
	if fetch != nil {
		fmt.Fprintf(d.out, "; to fetch: %s in %s", ui.HumanSize(fetch.Bytes), ui.Plural(fetch.Chunks, "chunk"))
	}
	fmt.Fprintln(d.out)
	return d.out.Flush()
}

// Differences returns the properties in which two entries of one path differ. An absent entry
// has no differences.
func Differences(a, b *page.Entry) []string {
	if a == nil || b == nil {
		return nil
	}
	if a.Type != b.Type {
		return []string{"type"}
	}
	var what []string
	for _, property := range []struct {
		name string
		same bool
	}{
		{"content", a.Type != page.File || SameContent(a, b)},
		{"target", a.Target == b.Target},
		{"mode", a.Mode == b.Mode},
		{"mtime", a.ModTime.Equal(b.ModTime)},
		{"owner", a.Owner == b.Owner || a.Owner != nil && b.Owner != nil && *a.Owner == *b.Owner},
		{"xattrs", maps.Equal(a.Xattrs, b.Xattrs)},
	} {
		if !property.same {
			what = append(what, property.name)
		}
	}
	return what
}

// SameContent reports whether two entries are files with the same bytes.
func SameContent(a, b *page.Entry) bool {
	return a.Type == page.File && b.Type == page.File && a.Size == b.Size && a.Hash() == b.Hash()
}

// diffLine returns the line of a change.
func diffLine(c page.Change, what []string) string {
	switch {
	case c.Old == nil:
		return "A " + ui.QuoteName(cmp.Or(c.New.Path, "."))
	case c.New == nil:
		return "D " + ui.QuoteName(cmp.Or(c.Old.Path, "."))
	}
	return "M " + ui.QuoteName(cmp.Or(c.New.Path, ".")) + " (" + strings.Join(what, ", ") + ")"
}

// A diffDoc is a change in JSON, and a diffEntryDoc one of its sides.
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
	doc := diffDoc{Change: "changed", What: append([]string{}, what...), From: newDiffEntryDoc(c.Old), To: newDiffEntryDoc(c.New)}
	switch e := c.New; {
	case c.Old == nil:
		doc.Change, doc.Path = "added", e.Path
	case e == nil:
		doc.Change, doc.Path = "removed", c.Old.Path
	default:
		doc.Path = e.Path
	}
	doc.Bytes = ui.OddBytes(doc.Path)
	return doc
}

func newDiffEntryDoc(e *page.Entry) *diffEntryDoc {
	if e == nil {
		return nil
	}
	d := inspect.NewEntryDoc(*e)
	return &diffEntryDoc{Type: d.Type, Mode: d.Mode, Size: d.Size, Modified: d.Modified, Hash: d.Hash, Target: d.Target}
}
