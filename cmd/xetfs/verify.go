package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/report"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/verify"
)

// newVerify returns the command that checks everything in a folder.
func newVerify() *cobra.Command {
	var (
		asJSON bool
		signed signerFlags
	)
	cmd := &cobra.Command{
		Use:        "verify SOURCE [SYMBOL[@AS_OF]]",
		SuggestFor: []string{"check", "fsck", "scrub"},
		Short:      "Check every shard, xorb and file, by every hash there is",
		Long: `With SYMBOL it reads every file of one tree of a catalog. It compares the chunks of each file, the
verification hash of every term, the Xet hash, the size and the SHA-256. It also compares the index
pages with their hashes. Content that several files share is read once.

AS_OF selects a version of SYMBOL: a number, an age like -1, a time, a day, snap:NAME or ver:HASH.

Without SYMBOL it reads every shard and xorb in SOURCE, with duplicates, and every file that the
shards describe. In a catalog it also checks the references, versions and index pages, which the
command xetfs catalog check does without reading the data. It checks the listing xetfs.list, too.

Verify continues after damage and prints one line for each place. A file with a missing xorb counts
as damage. A xorb that a shard only lists may be stored elsewhere: it is named and is no damage. The
exit status is 6 if there is damage, and 3 if there is nothing to verify.`,
		Annotations: see("promises", "exit-status", "versions"),
		Example: `  xetfs verify ./store
  xetfs verify ./store org/model@12
  xetfs verify --json ./store | jq '.faults[].path'`,
		Args:              arguments(1, 2),
		ValidArgsFunction: completeSymbols(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if isGiven(cmd.Flags().Lookup(allowedName)) || signed.acceptRollback {
					return usageError{errors.New("--allowed-signers and --accept-rollback are about one version: name its SYMBOL")}
				}
				if err := verifyStore(cmd, args[0], asJSON); !errors.Is(err, stack.ErrNoObjects) {
					return err
				}
			}
			return verifyTree(cmd, args[0], args[1:], &signed, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	signed.add(cmd)
	progressFlag(cmd)
	return cmd
}

// verifyStore checks a folder and prints what it finds.
func verifyStore(cmd *cobra.Command, folder string, asJSON bool) error {
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	copies, err := stack.OpenCopies(ctx, folder, remoteOptions(cmd, folder))
	if err != nil {
		return err
	}
	defer copies.Close()
	target, err := newTarget(copies)
	if err != nil {
		return err
	}
	target.Bar = newProgress(cmd, "verify")
	faults := report.NewFaults(cmd.OutOrStdout(), target.Bar, asJSON, stop)
	verify.Store(ctx, target, faults)
	symbols, catalogErr := verify.Catalog(ctx, copies.Catalog, faults)
	listingErr := verify.Listing(ctx, copies.Catalog, faults)
	target.Bar.Clear()
	unchecked := faults.MachineErr()
	if unchecked == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if unchecked = cmp.Or(unchecked, catalogErr, listingErr); unchecked != nil {
		unchecked = fmt.Errorf("%s: %w", folder, unchecked)
	}
	isEmpty := len(target.Objects) == 0 && symbols == 0
	err = faults.CloseStore(isEmpty, symbols > 0 && origin.Local(copies.Store), unchecked)
	if err == nil && isEmpty {
		err = notFoundError(stack.NoShard(folder) + ", no xorb and no version of a catalog, so nothing was checked")
	}
	return err
}

// newTarget returns the copies of a source as a target, with the layers above them.
func newTarget(c *stack.Copies) (t verify.Target, err error) {
	t.Store = c.Store
	if !origin.Local(c.Store) {
		t.Remote = verify.NewXorbCache(c.Store, stack.LimitMemory(verify.XorbCacheMemory, slog.New(slog.DiscardHandler)))
		t.Store = t.Remote
	}
	for _, f := range c.Files {
		t.Objects = append(t.Objects, verify.Object{Path: f.Path, Kind: f.Kind, Hash: f.Hash, Named: f.Named, Size: f.Size, Err: f.Err})
	}
	t.Open = func(ctx context.Context, o verify.Object) (verify.ReaderAtCloser, error) {
		return c.Open(ctx, o.Path, o.Size)
	}
	t.Reader, err = c.OpenReader(t.Store)
	return t, err
}

// verifyTree checks the files of one tree of a catalog and prints what it finds.
func verifyTree(cmd *cobra.Command, folder string, args []string, signed *signerFlags, asJSON bool) error {
	var t target
	if len(args) > 0 {
		var err error
		if t, err = parseTarget(args[0]); err != nil {
			return err
		}
	}
	signatures, err := signed.options(noticeLogger(cmd))
	if err != nil {
		return err
	}
	return withSource(cmd, folder, stack.Options{Signatures: signatures}, func(ctx context.Context, s *stack.Source) error {
		tree, _, err := openTree(ctx, s, args, 0)
		if err != nil {
			return err
		}
		bar := newProgress(cmd, "verify")
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		faults := report.NewFaults(cmd.OutOrStdout(), bar, asJSON, stop)
		result := report.CheckedTree{Symbol: cmp.Or(s.Symbol, t.symbol), Version: tree.Version()}
		result.Counts = verify.Tree(ctx, tree, s.Cache, s.Reader, faults, bar)
		bar.Clear()
		unchecked := faults.MachineErr()
		switch {
		case unchecked != nil:
			unchecked = fmt.Errorf("%s: %w", folder, unchecked)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if s.Cache.Local() {
			result.Repairable = s.Folder
		}
		return faults.CloseTree(result, unchecked)
	})
}
