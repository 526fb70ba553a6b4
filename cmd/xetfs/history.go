package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// newHistory is the command that lists the changes of a symbol.
func newHistory() *cobra.Command {
	var h history
	cmd := &cobra.Command{
		Use:        "history STORE SYMBOL",
		SuggestFor: []string{"log", "versions"},
		Short:      "List the versions of a symbol",
		Long: `Lists every change of SYMBOL, newest first: each version that was published, and each deletion.
A line has the version, time (UTC), entries and bytes, then message, labels and writer if they
were given. A version that is not live has the word "deleted". The line of a deletion has - in
place of the version, and names the deleted versions. On a terminal a heading precedes the
lines, and sizes have units.

With --json there is one object {"symbol", "changes": […]}. An absent value of a change is null:

  seq                           counts changes
  kind                          write or delete
  version                       the highest number so far
  time
  entries, bytes, tindex, live  of a write; tindex is the hash of the root page
  deletes                       of a deletion: [[FROM, TO]…], numbers from FROM on and below TO
  message, labels, writer`,
		Example: `  xetfs history ./store org/model
  xetfs history --limit 1 ./store org/model
  xetfs history --json ./store org/model | jq '.changes[] | select(.live) | .version'`,
		Args:              arguments(2, 2),
		ValidArgsFunction: completeSymbols(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSymbol(args[1]); err != nil {
				return err
			}
			return withCatalog(cmd, args[0], func(ctx context.Context, c *stack.CatalogReader) error {
				return h.print(ctx, cmd.OutOrStdout(), c, args[1])
			})
		},
	}
	cmd.Flags().Uint64VarP(&h.limit, "limit", "n", 0, "show only the newest `NUMBER` changes")
	cmd.Flags().BoolVar(&h.asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// A history is one call of history.
type history struct {
	limit  uint64 // 0: all
	asJSON bool
}

// A changeDoc is a change as history --json shows it. The names are a promise.
type changeDoc struct {
	Seq     uint64            `json:"seq"`
	Kind    string            `json:"kind"` // "write" or "delete"
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
}

func (h *history) print(ctx context.Context, w io.Writer, c *stack.CatalogReader, symbol string) error {
	lines := ui.NewLineList(w, versionHeading+"  NOTES")
	var doc *ui.Document
	if h.asJSON {
		doc = ui.NewDocument(lines.Out)
		doc.Field("symbol", symbol)
		doc.Begin("changes")
	}
	var (
		head *names.Version
		n    uint64
	)
	for v, err := range c.History(ctx, symbol) {
		if err != nil {
			return err
		}
		if head == nil {
			head = v // it alone knows what is live
		}
		if doc != nil {
			doc.Element(newChangeDoc(head, v))
			err = doc.Err
		} else {
			err = lines.Line(changeLine(head, v, lines))
		}
		if err != nil {
			return err
		}
		if n++; n == h.limit {
			break
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

// versionHeading is the heading of the columns of versionLine.
const versionHeading = " VERSION  TIME (UTC)              ENTRIES            SIZE"

// versionLine is a version as history and prune list it.
func versionLine(row names.Row, lines *ui.LineList) string {
	return fmt.Sprintf("%8d  %s  %10d  %14s", row.Number, row.Time.UTC().Format(time.DateTime), row.Entries, lines.Size(row.Bytes))
}

// changeLine is a change as people read it.
func changeLine(head, v *names.Version, lines *ui.LineList) string {
	var parts []string
	if v.Delete {
		parts = append(parts, fmt.Sprintf("%8s  %s  deletes %s", "-", v.Time.UTC().Format(time.DateTime), numbers(deletedBy(v))))
	} else {
		row := v.Rows[0]
		parts = append(parts, versionLine(row, lines))
		if head.IsDeleted(row.Number) {
			parts = append(parts, "deleted")
		}
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

func newChangeDoc(head, v *names.Version) changeDoc {
	doc := changeDoc{
		Seq: v.Seq, Kind: "write", Version: v.Number, Time: v.Time.UTC(),
		Message: v.Message, Labels: v.Labels, Writer: v.Writer,
	}
	if v.Delete {
		doc.Kind, doc.Deletes = "delete", [][2]uint64{}
		for _, d := range deletedBy(v) {
			doc.Deletes = append(doc.Deletes, [2]uint64{d.From, d.To})
		}
		return doc
	}
	row, live := v.Rows[0], !head.IsDeleted(v.Number)
	doc.Entries, doc.Bytes, doc.TIndex, doc.Live = &row.Entries, &row.Bytes, textOf(&row.Root), &live
	return doc
}

// deletedBy returns what a deletion deleted.
func deletedBy(v *names.Version) []names.Interval {
	return slices.DeleteFunc(slices.Clone(v.Deleted), func(d names.Interval) bool { return d.Seq != v.Seq })
}

// numbers are intervals of versions as people read them: "3, 5-7".
func numbers(list []names.Interval) string {
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
