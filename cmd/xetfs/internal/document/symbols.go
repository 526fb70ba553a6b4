package document

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/signers"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// A Symbol is a symbol with its newest live version.
type Symbol struct {
	Name     string
	HiddenBy string    // symbol whose tree hides this one in a mount, or ""
	Version  names.Row // unused in short lines of text
}

// A symbolDoc is a symbol in JSON.
type symbolDoc struct {
	Symbol   string `json:"symbol"`
	HiddenBy string `json:"hidden_by,omitempty"`
	versionDoc
	Signature *signers.Signature `json:"signature,omitempty"`
}

// WriteSymbols prints symbols. A long line has the newest version.
func WriteSymbols(w io.Writer, symbols iter.Seq2[Symbol, error], describe signers.Describe, long, asJSON bool) error {
	heading := ""
	if long {
		heading = fmt.Sprintf("%8s %-19s %10s %14s %s", "VERSION", "TIME (UTC)", "ENTRIES", "SIZE", "SYMBOL")
	}
	l := ui.NewList(w, asJSON, heading)
	if asJSON {
		l.Doc.Begin("symbols")
	}
	for s, err := range symbols {
		switch {
		case err != nil:
			return err
		case asJSON:
			err = l.Element(symbolDoc{s.Name, s.HiddenBy, newVersionDoc(s.Version), describe(s.Name, s.Version)})
		default:
			err = l.Line(symbolLine(s, describe, l, long))
		}
		if err != nil {
			return err
		}
	}
	return l.Close()
}

func symbolLine(s Symbol, describe signers.Describe, l *ui.List, long bool) string {
	name := ui.QuoteName(s.Name)
	if s.HiddenBy != "" {
		name += " (hidden in mounts by " + ui.QuoteName(s.HiddenBy) + ")"
	}
	if !long {
		return name
	}
	v := s.Version
	if text := describe(s.Name, v).Text(); text != "" {
		name += "  " + ui.Printable(text)
	}
	return fmt.Sprintf("%8d %s %10d %14s %s", v.Number, v.Time.UTC().Format(time.DateTime), v.Entries, l.Size(v.Bytes), name)
}

// A snapshotDoc is a snapshot in JSON.
type snapshotDoc struct {
	Snapshot string    `json:"snapshot"`
	Time     time.Time `json:"time"`
	Message  string    `json:"message"`
	Symbols  int       `json:"symbols"`
}

// WriteSnapshots prints snapshots without their versions.
func WriteSnapshots(w io.Writer, snapshots iter.Seq2[*names.Snapshot, error], asJSON bool) error {
	l := ui.NewList(w, asJSON, fmt.Sprintf("%-24s  %-19s  %-10s  %s", "SNAPSHOT", "TIME (UTC)", "SYMBOLS", "MESSAGE"))
	format := "%s  %s  %s  %s"
	if l.Terminal {
		format = "%-24s  %s  %-10s  %s"
	}
	if asJSON {
		l.Doc.Begin("snapshots")
	}
	for s, err := range snapshots {
		switch {
		case err != nil:
			return err
		case asJSON:
			err = l.Element(snapshotDoc{s.Name, s.Time.UTC(), s.Message, len(s.Rows)})
		default:
			line := fmt.Sprintf(format, s.Name, s.Time.UTC().Format(time.DateTime), ui.Plural(int64(len(s.Rows)), "symbol"), s.Message)
			err = l.Line(ui.Printable(strings.TrimRight(line, " ")))
		}
		if err != nil {
			return err
		}
	}
	return l.Close()
}

// WriteSnapshot prints the versions of a snapshot.
func WriteSnapshot(w io.Writer, s *names.Snapshot, asJSON bool) error {
	l := ui.NewList(w, asJSON, fmt.Sprintf("%-32s  %8s  %-19s  %10s  %14s", "SYMBOL", "VERSION", "TIME (UTC)", "ENTRIES", "SIZE"))
	format := "%s  %d  %s  %d  %s"
	if l.Terminal {
		format = "%-32s  %8d  %s  %10d  %14s"
	}
	if asJSON {
		l.Doc.Field("snapshot", s.Name)
		l.Doc.Field("time", s.Time.UTC())
		l.Doc.Field("message", s.Message)
		l.Doc.Begin("symbols")
	}
	for _, symbol := range slices.Sorted(maps.Keys(s.Rows)) {
		row := s.Rows[symbol]
		if asJSON {
			l.Doc.Element(symbolDoc{Symbol: symbol, versionDoc: newVersionDoc(row)})
			continue
		}
		line := fmt.Sprintf(format, ui.Printable(symbol), row.Number, row.Time.UTC().Format(time.DateTime), row.Entries, l.Size(row.Bytes))
		if err := l.Line(line); err != nil {
			return err
		}
	}
	return l.Close()
}
