package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// Findings is the report of catalog check. It prints each finding at once, and the counts at the
// end.
type Findings struct {
	w        io.Writer
	progress *SweepProgress // may be on the same screen
	doc      *ui.Document   // of --json; nil: text
	err      error          // of w
}

// NewFindings returns a report that clears the progress before each line.
func NewFindings(w io.Writer, progress *SweepProgress, asJSON bool) *Findings {
	f := &Findings{w: w, progress: progress}
	if asJSON {
		f.doc = ui.NewDocument(w)
		f.doc.Begin("findings")
	}
	return f
}

// Add prints a finding.
func (f *Findings) Add(finding sweep.Finding) {
	f.progress.Clear()
	if f.doc != nil {
		f.doc.Element(newFindingDoc(finding))
		return
	}
	_, err := fmt.Fprintln(f.w, findingLine(finding))
	f.err = cmp.Or(f.err, err)
}

// findingLine names the object, what needs it, and what is wrong.
func findingLine(f sweep.Finding) string {
	if f.Hidden {
		return ui.Printable(fmt.Sprintf("%s: hidden: %v", f.Symbol, f.Err))
	}
	var parts []string
	reason := f.Err.Error()
	if f.Key != "" {
		parts = append(parts, string(f.Key))
		for _, spelled := range []string{string(f.Key), strconv.Quote(string(f.Key))} {
			reason = strings.TrimPrefix(reason, spelled+": ")
		}
	}
	if f.Symbol != "" {
		parts = append(parts, fmt.Sprintf("%s@%d", f.Symbol, f.Version))
	}
	if f.Path != "" {
		parts = append(parts, f.Path)
	}
	return ui.Printable(strings.Join(append(parts, reason), ": "))
}

// A findingDoc is a finding in JSON.
type findingDoc struct {
	Key     *string `json:"key"`
	Symbol  *string `json:"symbol"`
	Version *uint64 `json:"version"`
	Path    *string `json:"path"`
	Bytes   []byte  `json:"path_bytes"` // base64 of a path that is no UTF-8; else null
	Offset  *int64  `json:"offset"`     // in the object
	Reason  string  `json:"reason"`
	Missing bool    `json:"missing"`
	Hidden  bool    `json:"hidden,omitempty"`
}

func newFindingDoc(f sweep.Finding) findingDoc {
	doc := findingDoc{Reason: f.Err.Error(), Missing: f.Missing, Hidden: f.Hidden}
	if f.Key != "" {
		key := string(f.Key)
		doc.Key = &key
	}
	if f.Symbol != "" {
		doc.Symbol, doc.Version = &f.Symbol, &f.Version
	}
	if f.Path != "" {
		doc.Path, doc.Bytes = &f.Path, ui.OddBytes(f.Path)
	}
	var corrupt *codec.CorruptError
	if errors.As(f.Err, &corrupt) {
		doc.Offset = &corrupt.Offset
	}
	return doc
}

// Close prints the counts. It returns ui.ErrDamage after damage, and ui.ErrAbsent if something is
// only missing or unreadable.
func (f *Findings) Close(c sweep.CheckReport) error {
	if c.Damaged+c.Missing > 0 {
		c.Usage = nil // data of damaged objects would count as unused
	}
	if f.doc != nil {
		f.doc.End()
		for _, field := range []struct {
			name string
			n    int64
		}{
			{"symbols", c.Symbols}, {"versions", c.Versions}, {"snapshots", c.Snapshots}, {"pages", c.Pages},
			{"entries", c.Entries}, {"shards", c.Shards}, {"xorbs", c.Xorbs}, {"ignored", c.Ignored},
			{"damaged", c.Damaged}, {"missing", c.Missing}, {"hidden", c.Hidden},
		} {
			f.doc.Field(field.name, field.n)
		}
		f.doc.Field("usage", usageField(c.Usage))
		f.doc.Field("sound", c.Damaged+c.Missing == 0)
		f.err = cmp.Or(f.err, f.doc.Close())
	} else {
		if c.Usage != nil {
			_, err := fmt.Fprintln(f.w, usageLine(c.Usage))
			f.err = cmp.Or(f.err, err)
		}
		_, err := fmt.Fprintln(f.w, checkSummary(c))
		f.err = cmp.Or(f.err, err)
	}
	switch {
	case f.err != nil:
		return f.err
	case c.Damaged > 0:
		return ui.ErrDamage
	case c.Missing > 0:
		return ui.ErrAbsent
	}
	return nil
}

func checkSummary(c sweep.CheckReport) string {
	verdict := "all sound"
	if c.Damaged+c.Missing > 0 {
		verdict = fmt.Sprintf("%d damaged, %d missing or unreadable", c.Damaged, c.Missing)
	}
	if c.Hidden > 0 {
		verdict += fmt.Sprintf(", %s hidden in mounts", ui.Plural(c.Hidden, "symbol"))
	}
	ignored := ""
	if c.Ignored > 0 {
		ignored = fmt.Sprintf(" (%s of something else)", ui.Plural(c.Ignored, "key"))
	}
	return fmt.Sprintf("%s, %s, %s, %s with %s, %s, %s%s: %s", ui.Plural(c.Symbols, "symbol"), ui.Plural(c.Versions, "version"),
		ui.Plural(c.Snapshots, "snapshot"), ui.Plural(c.Pages, "page"), ui.Plural(c.Entries, "entry"), ui.Plural(c.Shards, "shard"),
		ui.Plural(c.Xorbs, "xorb"), ignored, verdict)
}
