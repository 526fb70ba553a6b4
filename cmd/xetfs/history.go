package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
)

// newHistory returns the command that lists the changes of a symbol.
func newHistory() *cobra.Command {
	var (
		limit  uint64
		signer signerFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:        "history STORE SYMBOL",
		SuggestFor: []string{"log", "versions"},
		Short:      "List the versions of a symbol",
		Long: `Lists every change of SYMBOL, newest first: each version that was published, and each deletion. A
line has the version, time (UTC), entries and bytes, then message, labels and writer if they were
given. A version that is not live has the word "deleted". The line of a deletion has - in place of
the version, and names the deleted versions.

A signed version has the fingerprint of the key, which is not checked. With --allowed-signers it has
the signer, or the reason why the signature is refused.`,
		Annotations: see("versions", "json"),
		Example: `  xetfs history ./store org/model
  xetfs history --limit 1 ./store org/model
  xetfs history --json ./store org/model | jq '.changes[].version'`,
		Args:              arguments(2, 2),
		ValidArgsFunction: completeSymbols(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSymbol(args[1]); err != nil {
				return err
			}
			return withCatalog(cmd, args[0], func(ctx context.Context, c *stack.CatalogReader) error {
				describe, err := signer.describe(c.StoreCatalog)
				if err != nil {
					return err
				}
				return document.WriteHistory(cmd.OutOrStdout(), args[1], c.History(ctx, args[1]), limit, describe, asJSON)
			})
		},
	}
	cmd.Flags().Uint64VarP(&limit, "limit", "n", 0, "show only the newest `NUMBER` changes")
	cmd.Flags().StringVar(&signer.allowed, allowedName, "", "check signatures with the keys in this `FILE`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}
