package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// newDelete is the command that deletes versions.
func newDelete() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "delete STORE SYMBOL@VERSION…",
		SuggestFor: []string{"rm", "remove", "del"},
		Short:      "Delete versions of a symbol",
		Long: `Deletes versions, which are named by their numbers as xetfs history shows them. All versions
of one symbol are deleted in one change. A symbol without versions is no longer listed; a later
version continues its numbers.

A version that a snapshot holds can still be read through the snapshot. The data of the others
stays for the time of grace (7 days unless the catalog says otherwise). Then xetfs catalog
sweep removes it. Within that time xetfs publish restores a tree as a new version.

With --json there is one object: {"deleted": [{"symbol", "versions": [NUMBER]}]}.`,
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
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// A victimDoc is one symbol in the JSON of delete. Its names are stable.
type victimDoc struct {
	Symbol   string   `json:"symbol"`
	Versions []uint64 `json:"versions"`
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
	deleted := []victimDoc{}
	var err error
	for _, symbol := range symbols {
		if err = w.Delete(ctx, symbol, victims[symbol]...); err != nil {
			break
		}
		deleted = append(deleted, victimDoc{symbol, victims[symbol]})
	}
	return cmp.Or(err, printVictims(cmd.OutOrStdout(), deleted, asJSON))
}

func printVictims(w io.Writer, deleted []victimDoc, asJSON bool) error {
	if asJSON {
		doc := ui.NewDocument(w)
		doc.Field("deleted", deleted)
		return doc.Close()
	}
	for _, d := range deleted {
		for _, n := range d.Versions {
			if _, err := fmt.Fprintf(w, "deleted %s@%d\n", ui.Printable(d.Symbol), n); err != nil {
				return err
			}
		}
	}
	return nil
}
