package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

func newCheck() *cobra.Command {
	var data, asJSON bool
	cmd := &cobra.Command{
		Use:   "check STORE",
		Short: "Check everything that names and versions lead to",
		Long: `Walks everything that can be reached from the references and snapshots of a catalog, and checks
hashes, structure, order, folders, shards and sizes. Xorbs must exist; with --data they are
read and unpacked, too. After damage the check continues, and prints one line for each place:
the key of the object, what needs it, and what is wrong. Nothing is written. A symbol whose
name continues that of another, which hides it in mounts, is named, too, and no damage.

The exit status is 0 if all is well, and 6 if something is damaged. It is 4 if nothing is
damaged but something is missing or cannot be read.

With --json there is one object; an unknown value is null:

  findings     [{"key", "symbol", "version", "path", "offset", "reason", "missing"}]
  ignored      keys that are none of a catalog
  symbols, versions, snapshots, pages, entries, shards, xorbs
  damaged, missing, hidden, sound`,
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
