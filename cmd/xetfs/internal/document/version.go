package document

import (
	"fmt"
	"io"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A versionDoc is a version in JSON.
type versionDoc struct {
	Version uint64    `json:"version"`
	Time    time.Time `json:"time"`
	Entries int64     `json:"entries"`
	Bytes   int64     `json:"bytes"`
	TIndex  string    `json:"tindex"` // hash of the root page
}

func newVersionDoc(r names.Row) versionDoc {
	return versionDoc{Version: r.Number, Time: r.Time.UTC(), Entries: r.Entries, Bytes: r.Bytes, TIndex: r.Identity.String()}
}

// VersionName returns the name of a version for people. A version that was opened by its
// identity has no number.
func VersionName(r names.Row) string {
	if r.Time.IsZero() {
		return "tree " + r.Identity.String()
	}
	return fmt.Sprintf("version %d", r.Number)
}

// VersionFields adds the fields for the version of a tree. A tree that was opened by its root
// page, or without a catalog, has no number.
func VersionFields(doc *ui.Document, r names.Row) {
	var (
		number *uint64
		root   *page.Identity
	)
	if !r.Identity.IsZero() {
		root = &r.Identity
	}
	if !r.Time.IsZero() {
		number = &r.Number
	}
	doc.Field("version", number)
	doc.Field("tindex", hashText(root))
}

// hashText returns the text of a hash that may be absent.
func hashText(h *page.Identity) *string {
	if h == nil {
		return nil
	}
	text := h.String()
	return &text
}

// versionHeading is the heading of the columns of versionLine.
const versionHeading = " VERSION  TIME (UTC)              ENTRIES            SIZE"

// versionLine returns the line of a version in a history.
func versionLine(r names.Row, l *ui.List) string {
	return fmt.Sprintf("%8d  %s  %10d  %14s", r.Number, r.Time.UTC().Format(time.DateTime), r.Entries, l.Size(r.Bytes))
}

// WritePruned prints the versions of a symbol that a command deleted. In a dry run it would
// delete them.
func WritePruned(w io.Writer, symbol string, rows []names.Row, dryRun, asJSON bool) error {
	l := ui.NewList(w, asJSON, versionHeading)
	if asJSON {
		l.Doc.Field("symbol", symbol)
		l.Doc.Field("dry_run", dryRun)
		l.Doc.Begin("deleted")
	}
	for _, r := range rows {
		if asJSON {
			l.Doc.Element(newVersionDoc(r))
		} else if err := l.Line(versionLine(r, l)); err != nil {
			return err
		}
	}
	if !asJSON {
		done := "deleted"
		if dryRun {
			done = "would delete"
		}
		fmt.Fprintf(l.Out, "%s %s of %s\n", done, ui.Plural(int64(len(rows)), "version"), ui.Printable(symbol))
	}
	return l.Close()
}

// A Deletion is the numbers of deleted versions of one symbol.
type Deletion struct {
	Symbol   string   `json:"symbol"`
	Versions []uint64 `json:"versions"`
}

// WriteDeleted prints deletions.
func WriteDeleted(w io.Writer, deleted []Deletion, asJSON bool) error {
	if asJSON {
		doc := ui.NewDocument(w)
		doc.Field("deleted", append([]Deletion{}, deleted...)) // never null
		return doc.Close()
	}
	for _, d := range deleted {
		for _, n := range d.Versions {
			if _, err := fmt.Fprintf(w, "deleted %s@%d\n", ui.Printable(d.Symbol), n); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteRef prints the reference of a symbol.
func WriteRef(w io.Writer, ref *names.Ref, asJSON bool) error {
	if asJSON {
		var latest *versionDoc
		if ref.Latest != nil {
			version := newVersionDoc(*ref.Latest)
			latest = &version
		}
		doc := ui.NewDocument(w)
		doc.Field("symbol", ref.Symbol)
		doc.Field("seq", ref.Seq)
		doc.Field("head", ref.Head)
		doc.Field("latest", latest)
		return doc.Close()
	}
	latest := "no live version"
	if ref.Latest != nil {
		latest = VersionName(*ref.Latest)
	}
	_, err := fmt.Fprintf(w, "%s: %s, after %s\n", ui.Printable(ref.Symbol), latest, ui.Plural(int64(ref.Seq), "change"))
	return err
}
