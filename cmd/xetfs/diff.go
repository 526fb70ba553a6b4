package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/delta"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
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
				d.quick = d.quick || c.IsHub // its chunks are only described by the server
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

func (o diffOptions) run(ctx context.Context, cmd *cobra.Command, c *stack.CatalogReader, a, b target) error {
	from, err := c.Resolve(ctx, a.symbol, a.at)
	if err != nil {
		return err
	}
	to, err := c.Resolve(ctx, b.symbol, b.at)
	if err != nil {
		return err
	}
	d := document.NewDiff(cmd.OutOrStdout(), document.Side{Symbol: a.symbol, Version: from}, document.Side{Symbol: b.symbol, Version: to}, o.stat, o.asJSON)
	set := delta.NewSet(c.Store, objects.New(c.Store, objects.Options{}))
	for change, err := range c.Changes(ctx, from, to) {
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
	tree, err := c.OpenRow(ctx, a.symbol, from)
	if err != nil {
		return err
	}
	line := ui.NewStatus(cmd.ErrOrStderr())
	fetch, err := set.Cost(ctx, tree, func(files int64) {
		line.Show(fmt.Sprintf("looking for existing chunks: %s", ui.Plural(files, "file")))
	})
	line.Clear()
	if err != nil {
		return err
	}
	return d.Close(fetch)
}

// add prints one change and adds its chunks to a set.
func (o diffOptions) add(ctx context.Context, c page.Change, d *document.Diff, set *delta.Set) error {
	what := document.Differences(c.Old, c.New)
	if c.Old != nil && c.New != nil && len(what) == 0 {
		return nil // the same content, described elsewhere
	}
	if !o.quick && c.New != nil && (c.Old == nil || !document.SameContent(c.Old, c.New)) {
		if err := set.Add(ctx, c.New); err != nil {
			return fmt.Errorf("%s: %w", c.New.Path, err)
		}
	}
	if !o.quick && c.Old != nil {
		if err := set.AddBase(ctx, c.Old); err != nil {
			return fmt.Errorf("%s: %w", c.Old.Path, err)
		}
	}
	return d.Add(c, what)
}
