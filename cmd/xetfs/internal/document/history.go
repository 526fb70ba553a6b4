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

// WriteHistory prints the changes of a symbol, newest first, up to a limit; 0: all.
func WriteHistory(w io.Writer, symbol string, changes iter.Seq2[*names.Version, error], limit uint64, describe signers.Describe, asJSON bool) error {
	l := ui.NewList(w, asJSON, versionHeading+"  NOTES")
	if asJSON {
		l.Doc.Field("symbol", symbol)
		l.Doc.Begin("changes")
	}
	var (
		head *names.Version // the only version with a list of live versions
		n    uint64
		sigs = map[uint64]string{} // later signatures, by version
	)
	for v, err := range changes {
		if err != nil {
			return err
		}
		if head == nil {
			head = v
		}
		signature := describe(symbol, signedRow(v, sigs))
		if asJSON {
			err = l.Element(newChangeDoc(head, v, signature))
		} else {
			err = l.Line(changeLine(head, v, signature, l))
		}
		if err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	return l.Close()
}

// signedRow returns the row that a change has added or signed, with its newest signature. It adds
// the signature of a change to sigs. A deletion or a repack has no row.
func signedRow(v *names.Version, sigs map[uint64]string) (row names.Row) {
	switch v.Kind {
	case names.Write:
		row = v.Rows[0]
	case names.Sign:
		i := slices.IndexFunc(v.Rows, func(r names.Row) bool { return r.Number == v.Signs })
		row = v.Rows[i] // every decoded element has it
		if _, later := sigs[row.Number]; !later {
			sigs[row.Number] = row.Sig
		}
		return row
	}
	if sig, ok := sigs[row.Number]; ok && v.Kind == names.Write {
		row.Sig = sig
	}
	return row
}

// changeLine returns the line of a change.
func changeLine(head, v *names.Version, signature *signers.Signature, l *ui.List) string {
	var parts []string
	switch v.Kind {
	case names.Delete:
		parts = append(parts, fmt.Sprintf("%8s  %s  deletes %s", "-", v.Time.UTC().Format(time.DateTime), intervalText(deletedBy(v))))
	case names.Sign:
		parts = append(parts, fmt.Sprintf("%8s  %s  signs %d", "-", v.Time.UTC().Format(time.DateTime), v.Signs))
	case names.Repack:
		parts = append(parts, fmt.Sprintf("%8s  %s  repacks %s", "-", v.Time.UTC().Format(time.DateTime), ui.Plural(int64(len(v.Rows)), "version")))
	default:
		row := v.Rows[0]
		parts = append(parts, versionLine(row, l))
		if head.IsDeleted(row.Number) {
			parts = append(parts, "deleted")
		}
	}
	if text := signature.Text(); text != "" && (v.Kind == names.Write || v.Kind == names.Sign) {
		parts = append(parts, text)
	}
	if v.Message != "" {
		parts = append(parts, v.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Labels)) {
		parts = append(parts, name+"="+v.Labels[name])
	}
	if v.Writer != "" {
		parts = append(parts, "by "+v.Writer)
	}
	return ui.Printable(strings.Join(parts, "  "))
}

// A changeDoc is a change in JSON.
type changeDoc struct {
	Seq     uint64            `json:"seq"`
	Kind    string            `json:"kind"` // "write", "delete", "sign" or "repack"
	Version uint64            `json:"version"`
	Time    time.Time         `json:"time"`
	Entries *int64            `json:"entries"`
	Bytes   *int64            `json:"bytes"`
	TIndex  *string           `json:"tindex"`
	Live    *bool             `json:"live"`
	Deletes [][2]uint64       `json:"deletes"`
	Message string            `json:"message"`
	Labels  map[string]string `json:"labels"`
	Writer  string            `json:"writer"`

	Signs     *uint64            `json:"signs,omitempty"`
	Signature *signers.Signature `json:"signature,omitempty"`
}

func newChangeDoc(head, v *names.Version, signature *signers.Signature) changeDoc {
	doc := changeDoc{
		Seq: v.Seq, Kind: v.Kind.String(), Version: v.Number, Time: v.Time.UTC(),
		Message: v.Message, Labels: v.Labels, Writer: v.Writer,
	}
	switch v.Kind {
	case names.Sign:
		doc.Signs, doc.Signature = &v.Signs, signature
		return doc
	case names.Delete:
		doc.Deletes = [][2]uint64{}
		for _, d := range deletedBy(v) {
			doc.Deletes = append(doc.Deletes, [2]uint64{d.From, d.To})
		}
		return doc
	case names.Repack:
		return doc
	}
	doc.Signature = signature
	row, live := v.Rows[0], !head.IsDeleted(v.Number)
	doc.Entries, doc.Bytes, doc.TIndex, doc.Live = &row.Entries, &row.Bytes, hashText(&row.Identity), &live
	return doc
}

// deletedBy returns the versions that a deletion deleted.
func deletedBy(v *names.Version) []names.Interval {
	return slices.DeleteFunc(slices.Clone(v.Deleted), func(d names.Interval) bool { return d.Seq != v.Seq })
}

// intervalText returns intervals of versions as people read them: "3, 5-7".
func intervalText(list []names.Interval) string {
	var parts []string
	for _, d := range list {
		switch d.To - d.From {
		case 1:
			parts = append(parts, fmt.Sprint(d.From))
		case 2:
			parts = append(parts, fmt.Sprint(d.From), fmt.Sprint(d.From+1))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", d.From, d.To-1))
		}
	}
	return strings.Join(parts, ", ")
}
