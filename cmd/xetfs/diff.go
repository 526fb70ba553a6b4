package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/delta"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// newDiff is the command that compares two trees.
func newDiff() *cobra.Command {
	var d diffOptions
	cmd := &cobra.Command{
		Use:   "diff STORE SYMBOL[@A] SYMBOL[@B]",
		Short: "Compare two versions of a symbol, or of two",
		Long: `Lists the differences between the trees A and B, folder by folder. The last line has the
totals. The exit status is 0 with and without differences.

  A PATH          only in B (added)
  D PATH          only in A (removed)
  M PATH (WHAT…)  different; WHAT is type, content, target (of a link), mode, mtime, owner or xattrs

` + asOfHelp + `

The last line also has the size of the chunks that a reader with all of A must fetch to read
all of B. These are the chunks of added and changed files of B, less the chunks of any file of
A. The size is that of packed chunks with headers. Two chunks are the same at the same place of
the same xorb. Tiny files, which are in the index, count nothing, and neither do index pages.
With --quick the size is not computed.

With --json there is one object; an absent value is null:

  from, to     {"symbol", "version", "tindex"}
  changes      [{"path", "path_bytes", "change", "what": [WHAT], "from", "to"}]
               change: added, removed or changed; path_bytes: base64 of a path that is no UTF-8;
               from, to: {"type", "mode", "size", "modified", "hash", "target"}
  added, removed, changed
  fetch        {"xorbs", "chunks", "bytes"}`,
		Example: `  xetfs diff ./store org/model@-2 org/model
  xetfs diff --stat ./store org/model@1 org/model@7
  xetfs diff --json ./store org/model@1 org/model | jq .fetch.bytes`,
		Args:              arguments(3, 3),
		ValidArgsFunction: completeSymbols(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := parseTarget(args[1])
			if err != nil {
				return err
			}
			to, err := parseTarget(args[2])
			if err != nil {
				return err
			}
			return withCatalog(cmd, args[0], func(ctx context.Context, c *stack.CatalogReader) error {
				return d.run(ctx, cmd, c, from, to)
			})
		},
	}
	cmd.Flags().BoolVar(&d.stat, "stat", false, "only sum up")
	cmd.Flags().BoolVar(&d.quick, "quick", false, "do not work out what must be fetched")
	cmd.Flags().BoolVar(&d.asJSON, "json", false, "print JSON instead of text")
	return cmd
}

type diffOptions struct{ stat, quick, asJSON bool }

// A comparison is one call of diff.
type comparison struct {
	o                       diffOptions
	c                       *stack.CatalogReader
	from, to                side
	out                     *bufio.Writer
	doc                     *ui.Document // of --json; nil: text
	line                    *ui.Status
	added, removed, changed int64
}

// A side is one of two trees.
type side struct {
	target
	row names.Row
}

// A sideDoc is a tree as diff --json names it. The names are a promise.
type sideDoc struct {
	Symbol  string  `json:"symbol"`
	Version *uint64 `json:"version"`
	TIndex  *string `json:"tindex"`
}

func (s *side) doc() sideDoc {
	doc := sideDoc{Symbol: s.symbol, TIndex: textOf(&s.row.Root)}
	if !s.row.Time.IsZero() {
		doc.Version = &s.row.Number
	}
	return doc
}

func (o diffOptions) run(ctx context.Context, cmd *cobra.Command, c *stack.CatalogReader, from, to target) error {
	d := &comparison{o: o, c: c, line: ui.NewStatus(cmd.ErrOrStderr()), out: bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)}
	var err error
	if d.from, err = d.side(ctx, from); err != nil {
		return err
	}
	if d.to, err = d.side(ctx, to); err != nil {
		return err
	}
	defer d.line.Clear()
	return d.print(ctx)
}

func (d *comparison) side(ctx context.Context, t target) (side, error) {
	row, err := d.c.Resolve(ctx, t.symbol, t.at)
	return side{t, row}, err
}

func (d *comparison) print(ctx context.Context) error {
	if d.o.asJSON {
		d.doc = ui.NewDocument(d.out)
		d.doc.Field("from", d.from.doc())
		d.doc.Field("to", d.to.doc())
		d.doc.Begin("changes")
	}
	set := delta.NewSet(d.c.Store, objects.New(d.c.Store, objects.Options{}))
	for change, err := range d.c.Changes(ctx, d.from.row, d.to.row) {
		if err == nil {
			err = d.change(ctx, change, set)
		}
		if err != nil {
			return err
		}
	}
	var fetch *delta.Cost
	if !d.o.quick {
		tree, err := d.c.OpenRow(ctx, d.from.symbol, d.from.row)
		if err == nil {
			fetch, err = set.Cost(ctx, tree, func(files int64) {
				d.line.Show(fmt.Sprintf("looking for chunks that are there: %s", ui.Plural(files, "file")))
			})
		}
		if err != nil {
			return err
		}
	}
	d.line.Clear()
	return d.finish(fetch)
}

// change prints one change, and notes what must be fetched for it.
func (d *comparison) change(ctx context.Context, c page.Change, set *delta.Set) error {
	what := differences(c.Old, c.New)
	switch {
	case c.Old == nil:
		d.added++
	case c.New == nil:
		d.removed++
	case len(what) == 0:
		return nil // the same content, described elsewhere
	default:
		d.changed++
	}
	if !d.o.quick && c.New != nil && (c.Old == nil || !sameContent(c.Old, c.New)) {
		if err := set.Add(ctx, c.New); err != nil {
			return fmt.Errorf("%s: %w", c.New.Path, err)
		}
	}
	if !d.o.quick && c.Old != nil {
		if err := set.AddBase(ctx, c.Old); err != nil {
			return fmt.Errorf("%s: %w", c.Old.Path, err)
		}
	}
	switch {
	case d.doc != nil && !d.o.stat:
		d.doc.Element(newDiffDoc(c, what))
		return d.doc.Err
	case d.doc == nil && !d.o.stat:
		_, err := fmt.Fprintln(d.out, diffLine(c, what))
		return err
	}
	return nil
}

// finish sums up.
func (d *comparison) finish(fetch *delta.Cost) error {
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
