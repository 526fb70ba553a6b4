package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// newCatalog is the command that looks after a catalog.
func newCatalog() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "catalog check | sweep | rebuild-symbols | repair-ref",
		Short: "Check, clean and repair a catalog",
		Long: `Manages the names and versions in a store: checks them, removes unused data, and rebuilds
lost references.`,
		Example: `  xetfs catalog check ./store
  xetfs catalog sweep --dry-run ./store`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCheck(), newSweep(), newRebuildSymbols(), newRepairRef())
	return cmd
}

func newRebuildSymbols() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rebuild-symbols STORE",
		Short: "Make the list of symbols anew",
		Long: `Rebuilds the list of symbols from the references of all symbols. The list is a cache.
A rebuild repairs a damaged list, or a listed name that cannot be opened.

With --json there is one object: {"symbols": how many are live}.`,
		Example: `  xetfs catalog rebuild-symbols ./store`,
		Args:    arguments(1, 1),
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
		Short: "Make the lost or damaged reference of a symbol anew",
		Long: `Rebuilds the reference of SYMBOL, which names its newest version, from the versions in the
store. The newest version is the highest one with a complete chain of parents.

If two versions are the newest, one of them lost a race when it was published, and no reader
ever saw it. The store does not record which one: the command names both, and --pick decides.

With --json there is one object: {"symbol", "seq", "head" (key of the newest change),
"latest": {"version", "time", "entries", "bytes", "tindex"} or null}.`,
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
