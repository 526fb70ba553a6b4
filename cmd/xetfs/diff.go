package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/delta"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/picture"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
)

// newDiff returns the command that compares two trees.
func newDiff() *cobra.Command {
	var d diffOptions
	cmd := &cobra.Command{
		Use:   "diff STORE SYMBOL[@A] SYMBOL[@B]",
		Short: "Compare two versions of a symbol, or of two",
		Long: `Lists the differences between the trees A and B, folder by folder. The last line has the totals. The
exit status is 0 with and without differences.

  A PATH          only in B (added)
  D PATH          only in A (removed)
  M PATH (WHAT…)  different: type, content, target (of a link), mode, mtime,
                  owner or xattrs

A and B select versions: a number, an age like -1, a time, a day, snap:NAME or ver:HASH.

The last line also has the packed size of the chunks that a reader of B must fetch if it
has all of A. Two chunks are the same at the same place of the same xorb. Tiny files, which are in the
index, count nothing, and neither do index pages.`,
		Annotations: see("versions", "json"),
		Example: `  xetfs diff ./store org/model@-2 org/model
  xetfs diff --stat ./store org/model@1 org/model@7
  xetfs diff --html changes.html ./store org/model@-2 org/model
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
			if d.html != "" && d.quick || d.html == "-" && d.asJSON {
				return usageError{errors.New("--html needs the chunks that --quick omits; --html - excludes --json")}
			}
			return withCatalog(cmd, args[0], func(ctx context.Context, c *stack.CatalogReader) error {
				d.quick = d.quick || c.NoShards
				if d.quick && d.html != "" {
					return errors.New("--html: a repository of the Hub does not list its chunks")
				}
				return d.run(ctx, cmd, c, from, to)
			})
		},
	}
	d.signers.add(cmd)
	cmd.Flags().BoolVar(&d.stat, "stat", false, "only sum up")
	cmd.Flags().BoolVar(&d.quick, "quick", false, "do not work out what must be fetched")
	cmd.Flags().BoolVar(&d.asJSON, "json", false, "print JSON instead of text")
	cmd.Flags().StringVar(&d.html, "html", "", "also write a page with a cell for each chunk to `FILE`; - is stdout, without text")
	return cmd
}

type diffOptions struct {
	stat, quick, asJSON bool
	html                string
	signers             signerFlags
}

func (o diffOptions) run(ctx context.Context, cmd *cobra.Command, c *stack.CatalogReader, a, b target) error {
	versions, err := o.signers.versionsOf(c.StoreCatalog, noticeLogger(cmd))
	if err != nil {
		return err
	}
	from, err := versions.Resolve(ctx, a.symbol, a.at)
	if err != nil {
		return err
	}
	to, err := versions.Resolve(ctx, b.symbol, b.at)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	set := delta.NewSet(c.Store, objects.New(c.Store, objects.Options{}))
	var drawing *picture.File
	if o.html != "" {
		if drawing, err = picture.Create(o.html, out); err != nil {
			return err
		}
		defer drawing.Discard()
		set.Keep(picture.MaxFiles)
	}
	if o.html == "-" {
		out = io.Discard
	}
	d := document.NewDiff(out, document.Side{Symbol: a.symbol, Version: from}, document.Side{Symbol: b.symbol, Version: to}, o.stat, o.asJSON)
	for change, err := range versions.Changes(ctx, from, to) {
		if err == nil {
			err = o.add(ctx, change, d, set)
		}
		if err != nil {
			return err
		}
	}
	if o.quick {
		return d.Close(nil)
	}
	oldTree, err := versions.OpenRow(ctx, a.symbol, from)
	if err != nil {
		return err
	}
	line := ui.NewStatus(cmd.ErrOrStderr())
	seen := func(files int64) { line.Show(fmt.Sprintf("looking for existing chunks: %s", ui.Plural(files, "file"))) }
	defer line.Clear()
	if drawing == nil {
		fetch, err := set.Cost(ctx, oldTree, seen)
		if err != nil {
			return err
		}
		line.Clear()
		return d.Close(fetch)
	}
	newTree, err := versions.OpenRow(ctx, b.symbol, to)
	if err != nil {
		return err
	}
	compared, err := set.Compare(ctx, oldTree, newTree, seen)
	if err != nil {
		return err
	}
	line.Clear()
	if err := picture.Diff(ctx, drawing, a.String(), b.String(), compared); err != nil {
		return err
	}
	if err := drawing.Commit(); err != nil {
		return err
	}
	return d.Close(&compared.Fetch)
}

// add prints one change and adds its chunks to a set.
func (o diffOptions) add(ctx context.Context, c page.Change, d *document.Diff, set *delta.Set) error {
	what := document.Differences(c.Old, c.New)
	if c.Old != nil && c.New != nil && len(what) == 0 {
		return nil // the same content, described elsewhere
	}
	if !o.quick {
		content := c.Old == nil || c.New == nil || !document.SameContent(c.Old, c.New)
		if err := set.Add(ctx, c, content); err != nil {
			return err
		}
	}
	return d.Add(c, what)
}
