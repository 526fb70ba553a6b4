package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// warmOptions are the flags of warm.
type warmOptions struct {
	cache  cacheFlags
	chunks bool
	bare   bool
	asJSON bool
}

// newWarm is the command that fetches files before they are needed.
func newWarm() *cobra.Command {
	var o warmOptions
	cmd := &cobra.Command{
		Use:   "warm SOURCE [SYMBOL[@AS_OF]] [PATH…]",
		Short: "Fetch files into the disk cache before they are needed",
		Long: `Lays the files at each PATH down whole in the disk cache, those of a folder with all that is
below it, and the whole tree where no PATH is given. Each is compared with its hash; after
that a mount of SOURCE reads it without asking SOURCE, and lets the kernel read it by itself
where the kernel can. What several files have in common is kept once. Links are not followed.

Where SOURCE is a catalog, PATH is in the tree of SYMBOL; any other folder has no symbols.

` + asOfHelp + `

With --chunks only what the files are made of is kept, packed as it comes: that takes less
room, and the mount unpacks it whenever it is read. Of a local folder no chunks are kept.

What is there already is not fetched again, so after an interruption the same command goes on
where it was. What would not fit into --cache-size is refused at once.

` + ui.UnitsHelp + `

` + cachePlaceHelp + ` While a mount writes to it, warm cannot: read
the files through that mount, or warm them before.

With --json there is one object: {"files", "bytes" (of these), "already" (files that were there
before), "fetched" (bytes that came from SOURCE, packed), "failed" (files), "seconds"}. The
exit status is 6 if a file is damaged, or a shard that may have described one; the others are
fetched all the same.`,
		Example: `  xetfs warm https://example.org/store org/model
  xetfs warm https://example.org/store org/model@12 config.json weights
  xetfs warm --cache-size 100GiB --json https://example.org/store org/model | jq .fetched`,
		Args:              arguments(1, 1<<20),
		ValidArgsFunction: completeSymbols(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0], args[1:])
		},
	}
	o.cache.addFlags(cmd, cacheUsage)
	cmd.Flags().BoolVar(&o.chunks, "chunks", false, "keep the packed chunks of the files, instead of whole files")
	bareFlag(cmd, &o.bare)
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print the summary as JSON")
	return cmd
}

// run opens everything and warms what the arguments behind SOURCE name.
func (o *warmOptions) run(cmd *cobra.Command, folder string, args []string) error {
	if err := checkSource(folder); err != nil {
		return err
	}
	kept, err := o.folder(folder)
	if err != nil {
		return err
	}
	return withSourceAs(cmd, folder, sourceOptions{bare: o.bare, disk: kept, count: true}, func(ctx context.Context, s *source) error {
		if err := findsShard(ctx, s); err != nil {
			return err
		}
		tree, paths, err := s.open(ctx, args, 1<<20)
		if err != nil {
			return err
		}
		w := &warming{s: s, tree: tree, chunks: o.chunks, errOut: cmd.ErrOrStderr(), command: cmd.CommandPath()}
		if err := w.setPaths(ctx, paths); err != nil {
			return err
		}
		w.bar = ui.NewProgress(cmd.ErrOrStderr(), "warm")
		err = w.run(ctx, kept)
		w.bar.Clear()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
		return w.finish(cmd.OutOrStdout(), o.asJSON)
	})
}

// findsShard says whether there is anything to look for files in, be it damaged.
func findsShard(ctx context.Context, s *source) error {
	empty, err := s.holdsNothing(ctx)
	if err == nil && empty && len(s.bare.Damaged()) == 0 {
		err = nothingThere(noShard(s.folder) + ", so there is nothing to fetch")
	}
	return err
}

// folder returns where the files are to be kept, which must be possible.
func (o *warmOptions) folder(source string) (*cacheFolder, error) {
	switch {
	case o.cache.dir.off:
		return nil, usageError{errors.New("--cache-dir=off: there is nowhere to keep the files")}
	case o.chunks && !isWeb(source):
		return nil, usageError{fmt.Errorf("--chunks: those of a local folder, as %s, are not kept", source)}
	}
	f := o.cache.folder()
	if f.err != nil {
		return nil, f.err
	}
	f.ifBusy = "read the files through its mount, or name another folder with --cache-dir"
	return f, cmp.Or(cmp.Or(f.checkApart(source, ""), f.limit(&o.cache)), f.err)
}
