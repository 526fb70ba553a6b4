package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A symbolDoc is a symbol as ls --json shows it: its newest live version. The names are a
// promise.
type symbolDoc struct {
	Symbol   string `json:"symbol"`
	HiddenBy string `json:"hidden_by,omitempty"` // symbol whose tree hides this one in a mount
	rowDoc
}

// symbols lists the symbols that have a live version. Only where more than their names is
// wanted, the newest version of each is read.
func (l *listing) symbols(ctx context.Context, w io.Writer, c *catalog.StoreCatalog) error {
	lines := ui.NewLineList(w, "")
	if l.long {
		lines.Heading = fmt.Sprintf("%8s %-19s %10s %14s %s", "VERSION", "TIME (UTC)", "ENTRIES", "SIZE", "SYMBOL")
	}
	var doc *ui.Document
	if l.asJSON {
		doc = ui.NewDocument(lines.Out)
		doc.Begin("symbols")
	}
	l.listed = map[string]bool{}
	for symbol, err := range c.Symbols(ctx) {
		if err == nil {
			l.listed[symbol] = true // before all symbols that it may hide
			err = l.symbolLine(ctx, lines, doc, c, symbol)
		}
		if err != nil {
			return err
		}
	}
	if doc != nil {
		doc.End()
		if err := doc.Close(); err != nil {
			return err
		}
	}
	return lines.Flush()
}

func (l *listing) symbolLine(ctx context.Context, lines *ui.LineList, doc *ui.Document, c *catalog.StoreCatalog, symbol string) error {
	by, err := c.HiddenBy(ctx, symbol, func(other string) bool { return l.listed[other] })
	if err != nil {
		return err
	}
	name := ui.QuoteName(symbol)
	if by != "" {
		name += " (hidden in mounts by " + ui.QuoteName(by) + ")"
	}
	if !l.long && doc == nil {
		return lines.Line(name)
	}
	row, err := c.Latest(ctx, symbol)
	switch {
	case notLive(err):
		return nil // the list of symbols may know more than there are
	case err != nil:
		return err
	case doc != nil:
		doc.Element(symbolDoc{symbol, by, newRowDoc(row)})
		return doc.Err
	}
	return lines.Line(fmt.Sprintf("%8d %s %10d %14s %s", row.Number, row.Time.UTC().Format(time.DateTime), row.Entries, lines.Size(row.Bytes), name))
}
