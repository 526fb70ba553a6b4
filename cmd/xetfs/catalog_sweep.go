package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

func newSweep() *cobra.Command {
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "sweep STORE",
		Short: "Delete what nothing points to any more",
		Long: `Deletes versions, index pages, shards and xorbs that no version and no snapshot leads to.
Deleted versions and interrupted publishes leave such objects. Only objects older than the time
of grace are deleted (7 days unless the catalog says otherwise). If something that is needed
cannot be read, the sweep stops and deletes nothing.

Publishers and readers may continue during a sweep. A sweep first announces the objects that it
will delete, and waits for two windows of the catalog, two hours by default. It may be
interrupted at any time; the next sweep continues from there. With nothing to delete it does
not wait.

With --dry-run it only reports what it would delete. Shards and xorbs that xetfs pack has
stored, and that no version uses, are garbage to a sweep.

The output has a line for each kind of object: live (needed), young (not needed, but within the
time of grace), garbage, deleted. A last line counts the objects that only the time of grace
protects, also those of deleted versions, and names its end.

With --json there is one object; a KIND is version, index page, shard, xorb or sweep list:

  dry_run
  kinds           {KIND: {"live", "young", "garbage", "deleted"}}, each {"objects", "bytes"}
  waiting         {"objects", "bytes"}
  waiting_until   null if nothing waits
  strays          number of unfinished files that were removed`,
		Example: `  xetfs catalog sweep --dry-run ./store
  xetfs catalog sweep ./store`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withPublisher(cmd, args[0], func(ctx context.Context, w *stack.CatalogWriter) error {
				return runSweep(ctx, cmd, w, dryRun, asJSON)
			})
		},
	}
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only say what would be deleted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

func runSweep(ctx context.Context, cmd *cobra.Command, w *stack.CatalogWriter, dryRun, asJSON bool) error {
	progress := report.NewSweepProgress(cmd.CommandPath(), cmd.ErrOrStderr())
	result, err := sweep.Sweep(ctx, w.Store, w.Pages, sweep.Options{
		DryRun: dryRun, Progress: progress.Show, Logger: newNotes(cmd.ErrOrStderr(), cmd.CommandPath()),
	})
	progress.Clear()
	if err != nil {
		return err
	}
	return report.WriteSweep(cmd.OutOrStdout(), result, dryRun, asJSON)
}
