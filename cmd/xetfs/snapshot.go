package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// newSnapshot returns the command that keeps versions alive under a name.
func newSnapshot() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot create | list | delete",
		Short: "Keep versions of several symbols under a name",
		Long: `A snapshot holds one version of each of some symbols, and keeps their trees and data
whatever is deleted later. It never changes, unless it is replaced. SYMBOL@snap:NAME is the
version that it holds.`,
		Example: `  xetfs snapshot create ./store release-1
  xetfs mount --symbol org/model@snap:release-1 ./store /mnt/x`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSnapshotCreate(), newSnapshotList(), newSnapshotDelete())
	return cmd
}

func newSnapshotCreate() *cobra.Command {
	var (
		message         string
		replace, asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "create STORE NAME [SYMBOL[@AS_OF]…]",
		Short: "Make a snapshot of some symbols, or of all",
		Long: `Makes the snapshot NAME of the symbols that are named or, if none is, of the newest version of every
symbol. AS_OF selects a version of SYMBOL: a number, an age like -1, a time, a day or snap:NAME.

Symbols are read one after another. If another process publishes meanwhile, the snapshot is not one
moment of all of them. A snapshot of that name is refused, or replaced with --replace. The output
has the lines of xetfs snapshot list STORE NAME, and a last line that counts the symbols.`,
		Annotations: see("versions", "json"),
		Example: `  xetfs snapshot create ./store release-1
  xetfs snapshot create -m 'as shipped' ./store release-2 org/model@12`,
		Args:              arguments(2, 2+names.MaxSnapshotRows),
		ValidArgsFunction: completeAfterName,
		RunE: func(cmd *cobra.Command, args []string) error {
			symbols, err := parseTargets(args[2:])
			if err = cmp.Or(checkSnapshot(args[1]), err); err != nil {
				return err
			}
			return withPublisher(cmd, args[0], func(ctx context.Context, w *stack.CatalogWriter) error {
				if len(symbols) == 0 {
					if symbols, err = allSymbols(ctx, w); err != nil {
						return err
					}
				}
				s, err := w.Snapshot(ctx, args[1], message, symbols, replace)
				if errors.Is(err, iofs.ErrExist) {
					return fmt.Errorf("snapshot %s: there is one of that name; --replace makes it anew", args[1])
				}
				if err != nil {
					return err
				}
				if err := document.WriteSnapshot(cmd.OutOrStdout(), s, asJSON); err != nil || asJSON {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "created snapshot %s of %s\n", ui.Printable(s.Name), ui.Plural(int64(len(s.Rows)), "symbol"))
				return err
			})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "`TEXT` that says what it is for")
	singleWriterFlag(cmd)
	cmd.Flags().BoolVar(&replace, "replace", false, "replace a snapshot of that name")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// completeAfterName completes symbols behind the name of a snapshot that is new.
func completeAfterName(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeSymbols(len(args))(cmd, args, prefix)
}

// parseTargets parses SYMBOL[@AS_OF] arguments, each of which selects a version. Each symbol must
// occur once.
func parseTargets(args []string) (map[string]names.AsOf, error) {
	symbols := map[string]names.AsOf{}
	for _, arg := range args {
		t, err := parseTarget(arg)
		if err != nil {
			return nil, err
		}
		if _, twice := symbols[t.symbol]; twice {
			return nil, usageError{fmt.Errorf("%s: is named twice", t.symbol)}
		}
		if t.at.Form == names.ByIdentity {
			return nil, usageError{fmt.Errorf("%s: ver:HASH names a tree, and a snapshot holds versions: name its number", t.symbol)}
		}
		symbols[t.symbol] = t.at
	}
	return symbols, nil
}

// allSymbols are the newest versions of all symbols. The list of symbols may contain
// symbols that no longer exist; they are left out.
func allSymbols(ctx context.Context, w *stack.CatalogWriter) (map[string]names.AsOf, error) {
	symbols := map[string]names.AsOf{}
	for symbol, err := range w.Catalog().Symbols(ctx) {
		if err == nil {
			_, err = w.Catalog().Latest(ctx, symbol)
			if notLive(err) {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		symbols[symbol] = names.AsOf{}
	}
	if len(symbols) == 0 {
		return nil, errors.New("there is no symbol to make a snapshot of")
	}
	return symbols, nil
}

func newSnapshotList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list STORE [NAME]",
		Short: "List snapshots, or what one holds",
		Long: `Lists the snapshots of a catalog, sorted by name. A line is: name, time (UTC), symbols,
message. With NAME it lists what that snapshot holds; a line is: symbol, version, time of
the version (UTC), entries, bytes. On a terminal a heading precedes the lines, and sizes
have units.

With --json there is one object: {"snapshots": [{"snapshot", "time", "message", "symbols"}]}, in
which symbols is a number. With NAME it is {"snapshot", "time", "message", "symbols":
[{"symbol", "version", "time", "entries", "bytes", "tindex"}]}.`,
		Example: `  xetfs snapshot list ./store
  xetfs snapshot list --json ./store release-1 | jq '.symbols[].version'`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCatalog(cmd, args[0], func(ctx context.Context, c *stack.CatalogReader) error {
				if len(args) == 1 {
					return document.WriteSnapshots(cmd.OutOrStdout(), snapshotsOf(ctx, c), asJSON)
				}
				if err := checkSnapshot(args[1]); err != nil {
					return err
				}
				s, err := c.Snapshot(ctx, args[1])
				if err != nil {
					return err
				}
				return document.WriteSnapshot(cmd.OutOrStdout(), s, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// snapshotsOf yields the snapshots of a catalog. One that is deleted meanwhile is left out.
func snapshotsOf(ctx context.Context, c *stack.CatalogReader) iter.Seq2[*names.Snapshot, error] {
	return func(yield func(*names.Snapshot, error) bool) {
		for name, err := range c.Snapshots(ctx) {
			var s *names.Snapshot
			if err == nil {
				s, err = c.Snapshot(ctx, name)
				if notLive(err) {
					continue
				}
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

func newSnapshotDelete() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "delete STORE NAME…",
		Short: "Delete snapshots",
		Long: `Deletes snapshots. Data that only they retained is removed by a later xetfs catalog sweep.

With --json there is one object: {"deleted": [NAME]}.`,
		Example: `  xetfs snapshot delete ./store release-1`,
		Args:    arguments(2, 1<<20),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args[1:] {
				if err := checkSnapshot(name); err != nil {
					return err
				}
			}
			return withPublisher(cmd, args[0], func(ctx context.Context, w *stack.CatalogWriter) error {
				return deleteSnapshots(ctx, cmd, w, args[1:], asJSON)
			})
		},
	}
	singleWriterFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// deleteSnapshots deletes snapshots one by one, and prints the deleted ones even if a later one
// fails.
func deleteSnapshots(ctx context.Context, cmd *cobra.Command, w *stack.CatalogWriter, list []string, asJSON bool) error {
	deleted := []string{} // never null in JSON
	var err error
	for _, name := range list {
		if err = w.DeleteSnapshot(ctx, name); err != nil {
			break
		}
		deleted = append(deleted, name)
		if asJSON {
			continue
		}
		if _, err = fmt.Fprintf(cmd.OutOrStdout(), "deleted snapshot %s\n", ui.Printable(name)); err != nil {
			break
		}
	}
	if !asJSON {
		return err
	}
	doc := ui.NewDocument(cmd.OutOrStdout())
	doc.Field("deleted", deleted)
	return cmp.Or(err, doc.Close())
}
