package main

import (
	"fmt"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A rowDoc is a version as JSON shows it, here and elsewhere. The names are a promise.
type rowDoc struct {
	Version uint64    `json:"version"`
	Time    time.Time `json:"time"`
	Entries int64     `json:"entries"`
	Bytes   int64     `json:"bytes"`
	TIndex  string    `json:"tindex"` // hash of the root page
}

func newRowDoc(r names.Row) rowDoc {
	return rowDoc{Version: r.Number, Time: r.Time.UTC(), Entries: r.Entries, Bytes: r.Bytes, TIndex: r.Root.String()}
}

// versionName is what people call a version. One that was opened by its root page has no
// number.
func versionName(r names.Row) string {
	if r.Time.IsZero() {
		return "tree " + r.Root.String()
	}
	return fmt.Sprintf("version %d", r.Number)
}

// versionFields adds the fields for the version of a tree. A tree that was opened by its root
// page, or without a catalog, has no number.
func versionFields(doc *ui.Document, row names.Row) {
	var (
		number *uint64
		root   *page.Hash
	)
	if !row.Root.IsZero() {
		root = &row.Root
	}
	if !row.Time.IsZero() {
		number = &row.Number
	}
	doc.Field("version", number)
	doc.Field("tindex", textOf(root))
}

// textOf is the text of a hash that may be absent.
func textOf(h *page.Hash) *string {
	if h == nil {
		return nil
	}
	text := h.String()
	return &text
}
