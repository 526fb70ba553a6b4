package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/repack"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// newCatalog returns the command that manages a catalog, with some commands of other files.
func newCatalog(others ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "catalog check | sweep | repack | sign | rebuild-symbols | repair-ref",
		Short: "Check, clean, sign and repair a catalog",
		Long: `Manages the names and versions in a store: checks them, removes and repacks data, signs versions,
and rebuilds lost references.`,
		Example: `  xetfs catalog check ./store
  xetfs catalog sweep --dry-run ./store`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCheck(), newSweep(), newRepack(), newRebuildSymbols(), newRepairRef())
	cmd.AddCommand(others...)
	return cmd
}

func newRebuildSymbols() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rebuild-symbols STORE",
		Short: "Rebuild the list of symbols",
		Long: `Rebuilds the list of symbols from the references of all symbols. The list is a cache. A rebuild
repairs a damaged list, or a listed name that cannot be opened.`,
		Annotations: see("json"),
		Example:     `  xetfs catalog rebuild-symbols ./store`,
		Args:        arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withPublisher(cmd, args[0], func(ctx context.Context, w *stack.CatalogWriter) error {
				n, err := w.RebuildSymbols(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					doc := ui.NewDocument(cmd.OutOrStdout())
					doc.Field("symbols", n)
					return doc.Close()
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", ui.Plural(int64(n), "symbol"))
				return err
			})
		},
	}
	singleWriterFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

func newRepairRef() *cobra.Command {
	var (
		pick   string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "repair-ref STORE SYMBOL",
		Short: "Rebuild the lost or damaged reference of a symbol",
		Long: `Rebuilds the reference of SYMBOL, which names its newest version, from the versions in the store.
The newest version is the highest one with a complete chain of parents.

If two versions are the newest, one of them lost a race when it was published, and no reader ever
saw it. The store does not record which one: the command names both, and --pick decides.`,
		Annotations: see("json"),
		Example: `  xetfs catalog repair-ref ./store org/model
  xetfs catalog repair-ref --pick 'ver/*sTt*…' ./store org/model`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := checkSymbol(args[1])
			if err == nil && pick != "" {
				err = checkPick(pick, args[1])
			}
			if err != nil {
				return err
			}
			return withPublisher(cmd, args[0], func(ctx context.Context, w *stack.CatalogWriter) error {
				ref, err := w.RepairRef(ctx, args[1], names.Key(pick))
				if err != nil {
					return err
				}
				return document.WriteRef(cmd.OutOrStdout(), ref, asJSON)
			})
		},
	}
	singleWriterFlag(cmd)
	cmd.Flags().StringVar(&pick, "pick", "", "take the version with this `KEY` for the newest")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// checkPick refuses what is no version of a symbol.
func checkPick(pick, symbol string) error {
	p, err := names.ParseKey(names.Key(pick))
	if err != nil || p.Kind != names.VersionKind || p.Symbol != symbol {
		return usageError{fmt.Errorf("--pick %q: is not the key of a version of %s, as ver/*sTt*…", pick, symbol)}
	}
	return nil
}

func newCheck() *cobra.Command {
	var data, asJSON bool
	cmd := &cobra.Command{
		Use:   "check STORE",
		Short: "Check everything that names and versions lead to",
		Long: `Walks everything that can be reached from the references and snapshots of a catalog, and checks
hashes, structure, order, folders, shards and sizes. Xorbs must exist; with --data they are read and
unpacked, too. After damage the check continues, and prints one line for each place: the key of the
object, what needs it, and what is wrong. Nothing is written. A symbol whose name continues that of
another, which hides it in mounts, is named, too, and no damage.

The exit status is 0 if all is well, and 6 if something is damaged. It is 4 if nothing is damaged
but something is missing or cannot be read. A line before the last one says how much of the xorbs is
live, and whether a repack (xetfs catalog repack) is worth while.`,
		Annotations: see("exit-status", "json"),
		Example: `  xetfs catalog check ./store
  xetfs catalog check --data --json ./store | jq '.findings[].key'`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return check(cmd, args[0], data, asJSON)
		},
	}
	cmd.Flags().BoolVar(&data, "data", false, "read every xorb, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

// check checks the catalog in a folder, which need not be sound enough to be opened.
func check(cmd *cobra.Command, folder string, data, asJSON bool) error {
	store, err := stack.OpenKeys(folder, remoteEnvironment())
	if err != nil {
		return err
	}
	defer store.Close()
	ctx := cmd.Context()
	if err := stack.CheckCatalog(ctx, folder, store); err != nil {
		return err
	}
	progress := report.NewSweepProgress(cmd.CommandPath(), cmd.ErrOrStderr())
	findings := report.NewFindings(cmd.OutOrStdout(), progress, asJSON)
	result, err := sweep.Check(ctx, store, origin.Pages(store), sweep.CheckOptions{
		Data: data, Progress: progress.Show, Found: findings.Add,
	})
	progress.Clear()
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	return findings.Close(result)
}

func newSweep() *cobra.Command {
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "sweep STORE",
		Short: "Delete objects that nothing points to",
		Long: `Deletes versions, index pages, shards and xorbs that no version and no snapshot leads to. Deleted
versions and interrupted publishes leave such objects. Only objects older than the time of grace are
deleted (7 days unless the catalog says otherwise). If something that is needed cannot be read, the
sweep stops and deletes nothing.

Publishers and readers may continue during a sweep. A sweep first announces the objects that it will
delete, and waits for two windows of the catalog, two hours by default. It may be interrupted at any
time; the next sweep continues from there. With nothing to delete it does not wait.

Shards and xorbs that xetfs pack has stored, and that no version uses, are garbage to a sweep. The
output has a line for each kind of object: live (needed), young (not needed, but within the time of
grace), garbage, deleted. A last line counts the objects that only the time of grace protects, and
names its end. With --dry-run another line says how much of the xorbs is live, and whether a repack
(xetfs catalog repack) is worth while.`,
		Annotations: see("versions", "json"),
		Example: `  xetfs catalog sweep --dry-run ./store
  xetfs catalog sweep ./store`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withDryPublisher(cmd, args[0], dryRun, func(ctx context.Context, w *stack.CatalogWriter) error {
				return runSweep(ctx, cmd, w, dryRun, asJSON)
			})
		},
	}
	singleWriterFlag(cmd)
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only say what would be deleted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

func runSweep(ctx context.Context, cmd *cobra.Command, w *stack.CatalogWriter, dryRun, asJSON bool) error {
	progress := report.NewSweepProgress(cmd.CommandPath(), cmd.ErrOrStderr())
	result, err := sweep.Sweep(ctx, w.Store, w.Pages, sweep.Options{
		DryRun: dryRun, Progress: progress.Show, Logger: noticeLogger(cmd),
	})
	progress.Clear()
	if err != nil {
		return err
	}
	return report.WriteSweep(cmd.OutOrStdout(), result, dryRun, asJSON)
}

// repackOptions are the flags of catalog repack.
type repackOptions struct {
	maxUnused      optional[ui.Share]
	memory         optional[ui.ByteSize]
	symbol         string
	dryRun, asJSON bool
}

// newRepack returns the command that copies live data together.
func newRepack() *cobra.Command {
	var o repackOptions
	cmd := &cobra.Command{
		Use:   "repack STORE",
		Short: "Copy live data together, so that sweeps free more",
		Long: `Copies the live chunks of xorbs that are partly unused into new xorbs, and joins small xorbs and
shards. All versions and snapshots then use the new objects. Their numbers, times and contents stay.
The old objects are garbage for the next sweep after the time of grace. Mounts read on: when an old
object is gone, they look up the new one. Disk caches stay useful: chunks are found by hash, not by
xorb. xetfs catalog sweep --dry-run says when a repack is worth while.

The output says first what is replaced and what a sweep will free. Publishers, sweeps and readers
may continue. A repack may be interrupted at any time: every version stays readable, and the next
run uses what was copied. A damaged xorb, and a file that cannot be proven, stay where they are. The
exit status is then 6, or 4 if nothing is damaged but something is missing.

With --symbol, only data that versions of S use is replaced. Other symbols that share it move, too.`,
		Annotations: see("versions", "json"),
		Example: `  xetfs catalog repack --dry-run ./store
  xetfs catalog repack ./store && xetfs catalog sweep ./store`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.symbol != "" {
				if err := checkSymbol(o.symbol); err != nil {
					return err
				}
			}
			return withDryPublisher(cmd, args[0], o.dryRun, func(ctx context.Context, w *stack.CatalogWriter) error {
				return o.run(ctx, cmd, w)
			})
		},
	}
	singleWriterFlag(cmd)
	f := cmd.Flags()
	o.maxUnused = newOptional("SHARE", "", ui.ParseShare)
	f.Var(&o.maxUnused, "max-unused", "keep a xorb with at most this share unused (default 5%)")
	f.StringVar(&o.symbol, "symbol", "", "replace only data of symbol `S`")
	o.memory = newOptional("SIZE", ui.ByteSize(stack.DefaultMemory).String(), ui.ParseSize)
	f.Var(&o.memory, "memory", "limit of memory, at least 160 MiB")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "only say what would be replaced")
	f.BoolVar(&o.asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// share returns the value of --max-unused.
func (o *repackOptions) share() float64 {
	if !o.maxUnused.given() {
		return repack.DefaultMaxUnused
	}
	return float64(o.maxUnused.value)
}

func (o *repackOptions) run(ctx context.Context, cmd *cobra.Command, w *stack.CatalogWriter) error {
	log := noticeLogger(cmd)
	progress := report.NewRepackProgress(cmd.ErrOrStderr())
	var outErr error
	planned := func(u *sweep.Usage, p *repack.Plan) {
		progress.Clear()
		if !o.asJSON {
			_, err := fmt.Fprint(cmd.OutOrStdout(), report.RepackPlan(u, p))
			outErr = cmp.Or(outErr, err)
		}
	}
	result, err := repack.Run(ctx, w.Store, w.Writer, repack.Options{
		MaxUnused: o.share(), Symbol: o.symbol, DryRun: o.dryRun,
		Memory: stack.LimitMemory(int64(o.memory.value), log), Planned: planned, Progress: progress.Show, Logger: log,
	})
	progress.Clear()
	switch {
	case err != nil:
		return err
	case outErr != nil:
		return outErr
	case o.asJSON:
		err = report.WriteRepack(cmd.OutOrStdout(), result, o.dryRun)
	case !o.dryRun:
		_, err = fmt.Fprint(cmd.OutOrStdout(), report.RepackResult(result))
	}
	return cmp.Or(err, repackDamage(result))
}

// repackDamage returns the result of a repack that has left out xorbs or files. The log names them.
func repackDamage(r *repack.Report) (result error) {
	if r.Left > 0 {
		result = ui.ErrDamage
	}
	for _, h := range r.Usage.Unusable() {
		if errors.Is(r.Usage.Xorbs[h].Err, codec.ErrCorrupt) {
			return ui.ErrDamage
		}
		result = ui.ErrAbsent
	}
	return result
}
