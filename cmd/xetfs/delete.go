package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/codec/names"
)

// newDelete returns the command that deletes versions.
func newDelete() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "delete STORE SYMBOL@VERSION…",
		SuggestFor: []string{"rm", "remove", "del"},
		Short:      "Delete versions of a symbol",
		Long: `Deletes versions, which are named by their numbers as xetfs history shows them. All versions of one
symbol are deleted in one change. A symbol without versions is no longer listed; a later version
continues its numbers.

A version that a snapshot holds can still be read through the snapshot. The data of the others stays
for the time of grace (7 days unless the catalog says otherwise). Then xetfs catalog sweep removes
it. Within that time xetfs publish restores a tree as a new version.`,
		Annotations: see("versions", "json"),
		Example: `  xetfs delete ./store org/model@3
  xetfs delete ./store org/model@3 org/model@4 org/data@0`,
		Args:              arguments(2, 1<<20),
		ValidArgsFunction: completeSymbols(1 << 20),
		RunE: func(cmd *cobra.Command, args []string) error {
			victims, err := parseVictims(args[1:])
			if err != nil {
				return err
			}
			return withPublisher(cmd, args[0], func(ctx context.Context, w *stack.CatalogWriter) error {
				return deleteVersions(ctx, cmd, w, victims, asJSON)
			})
		},
	}
	singleWriterFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// parseVictims reads SYMBOL@NUMBER of each version. Other ways to pick a version may mean
// another one a moment later, and are refused.
func parseVictims(args []string) (map[string][]uint64, error) {
	victims := map[string][]uint64{}
	for _, arg := range args {
		t, err := parseTarget(arg)
		if err != nil {
			return nil, err
		}
		if t.at.Form != names.ByNumber {
			return nil, usageError{fmt.Errorf("%s: say which version by its number, as %s@3; xetfs history shows the numbers", arg, t.symbol)}
		}
		victims[t.symbol] = append(victims[t.symbol], t.at.Number)
	}
	for symbol, list := range victims {
		slices.Sort(list)
		victims[symbol] = slices.Compact(list)
	}
	return victims, nil
}

// deleteVersions deletes versions symbol by symbol, and prints the deleted ones even if a later
// symbol fails. All versions must exist before the first is deleted.
func deleteVersions(ctx context.Context, cmd *cobra.Command, w *stack.CatalogWriter, victims map[string][]uint64, asJSON bool) error {
	symbols := slices.Sorted(maps.Keys(victims))
	for _, symbol := range symbols {
		for _, n := range victims[symbol] {
			if _, err := w.Catalog().Resolve(ctx, symbol, names.AsOf{Form: names.ByNumber, Number: n}); err != nil {
				return err
			}
		}
	}
	var deleted []document.Deletion
	var err error
	for _, symbol := range symbols {
		if err = w.Delete(ctx, symbol, victims[symbol]...); err != nil {
			break
		}
		deleted = append(deleted, document.Deletion{Symbol: symbol, Versions: victims[symbol]})
	}
	return cmp.Or(err, document.WriteDeleted(cmd.OutOrStdout(), deleted, asJSON))
}
