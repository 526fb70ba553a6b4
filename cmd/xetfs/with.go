package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/hint"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// withCached is withSource for a command with flags of the disk cache. It uses a cache only if
// the flags name one. The cache of a mount does not serve every command in passing.
func withCached(cmd *cobra.Command, folder string, o stack.Options, flags *cacheFlags, do func(context.Context, *stack.Source) error) error {
	if err := flags.checkNamed(); err != nil {
		return err
	}
	if flags.dir.value.path != "" {
		var err error
		if o.Disk, err = flags.forSource(folder, ""); err != nil {
			return err
		}
	}
	o.Disk = o.Disk.Sharing()
	return withSource(cmd, folder, o, do)
}

// withSigned is withCached for a command with signerFlags.
func withSigned(cmd *cobra.Command, folder string, o stack.Options, flags *cacheFlags, signed *signerFlags, do func(context.Context, *stack.Source) error) (err error) {
	if o.Signatures, err = signed.options(noticeLogger(cmd)); err != nil {
		return err
	}
	return withCached(cmd, folder, o, flags, do)
}

// withSource opens SOURCE for a command that runs to its end. Damage on the way is noted on
// stderr.
func withSource(cmd *cobra.Command, folder string, o stack.Options, do func(context.Context, *stack.Source) error) error {
	o.Budget = stack.DivideMemory(stack.DefaultMemory)
	o.Log = noticeLogger(cmd)
	o.Remote = remoteOptions(cmd, folder)
	s, err := stack.OpenSource(cmd.Context(), folder, o)
	if err != nil {
		return err
	}
	defer s.Close()
	return hint.Absent(cmd.Context(), s.Stored, folder, do(cmd.Context(), s))
}

// remoteEnvironment returns what the environment sets for remote stores.
func remoteEnvironment() stack.Remote {
	dir, _ := ownCacheDir() // "" costs a probe for each run
	return stack.Remote{Getenv: os.Getenv, CacheDir: dir}
}

// remoteOptions returns the options of a remote SOURCE or STORE, without a log.
func remoteOptions(cmd *cobra.Command, source string) stack.Remote {
	r := remoteEnvironment()
	r.Limits.Waiting, r.Note = waitNotice(cmd, source), noticesOf(cmd)
	return r
}

// writerOptions returns the options of a remote STORE for a command that changes it.
func writerOptions(cmd *cobra.Command, store string) stack.Remote {
	r := remoteOptions(cmd, store)
	r.SingleWriter, _ = cmd.Flags().GetBool(singleWriterName) // false without the flag
	r.Log = noticeLogger(cmd)
	return r
}

// writeError returns the error of a command that writes to STORE. An error of the store itself
// has its path. A local store that cannot be written is not unreachable.
func writeError(store string, err error) error {
	switch {
	case errors.As(err, new(*origin.LocalError)):
		return fmt.Errorf("%s: %w", store, err)
	case errors.Is(err, origin.ErrUnavailable) && !stack.IsAddress(store):
		return fmt.Errorf("%s: %v", store, err) //nolint:errorlint // see above
	}
	return err
}

// withCatalog opens the catalog in STORE for a command that reads it.
func withCatalog(cmd *cobra.Command, folder string, do func(context.Context, *stack.CatalogReader) error) error {
	r := remoteOptions(cmd, folder)
	r.Log = noticeLogger(cmd)
	c, err := stack.OpenCatalog(cmd.Context(), folder, r)
	if err != nil {
		return err
	}
	defer c.Close()
	return hint.Absent(cmd.Context(), c.StoreCatalog, folder, do(cmd.Context(), c))
}

// withPublisher opens the catalog in STORE for a command that changes it.
func withPublisher(cmd *cobra.Command, folder string, do func(context.Context, *stack.CatalogWriter) error) error {
	return withDryPublisher(cmd, folder, false, do)
}

// withDryPublisher is withPublisher. A dry run leaves the listing of the store as it is.
func withDryPublisher(cmd *cobra.Command, folder string, dryRun bool, do func(context.Context, *stack.CatalogWriter) error) error {
	w, err := stack.OpenWriter(cmd.Context(), folder, writerOptions(cmd, folder))
	if err != nil {
		return err
	}
	defer w.Close()
	if err := do(cmd.Context(), w); err != nil {
		return hint.Absent(cmd.Context(), w.Catalog(), folder, err)
	}
	if !dryRun {
		stack.RenewListing(cmd.Context(), w.Store, noticesOf(cmd))
	}
	return nil
}

// waitNotice returns a function that names the server that a command waits for. It returns nil if
// standard error is no terminal.
func waitNotice(cmd *cobra.Command, source string) func(reason string) {
	if ui.NewScreen(cmd.ErrOrStderr()) == nil {
		return nil
	}
	return func(reason string) { noticesOf(cmd)(stack.WaitingFor(source, reason)) }
}

// openTree returns the tree that the arguments behind SOURCE name. A catalog has a first
// argument SYMBOL[@AS_OF]; any other folder, and a repository of the Hub, has none. It also returns the other arguments, at
// most most of them.
func openTree(ctx context.Context, s *stack.Source, args []string, most int) (catalog.Tree, []string, error) {
	if s.Bare != nil {
		if len(args) > most {
			return nil, nil, usageError{fmt.Errorf("%q is one argument too many: %s is no catalog, so it has no symbols", args[most], s.Folder)}
		}
		tree, err := s.Bare.Open(ctx, "", names.AsOf{})
		return tree, args, err
	}
	if s.Symbol != "" {
		if len(args) > most {
			return nil, nil, usageError{fmt.Errorf("%q is one argument too many: a repository has no symbols, and the part after @ in its address names the revision", args[most])}
		}
		tree, err := s.Versions().Open(ctx, s.Symbol, names.AsOf{})
		return tree, args, err
	}
	if len(args) == 0 {
		return nil, nil, usageError{fmt.Errorf("%s is a catalog: name one of its symbols, which xetfs ls shows", s.Folder)}
	}
	t, err := parseTarget(args[0])
	if err != nil {
		return nil, nil, err
	}
	tree, err := s.Versions().Open(ctx, t.symbol, t.at)
	return tree, args[1:], err
}

// A lostError reports an object of a tree that the store lacks.
type lostError struct{ error }

func (e lostError) Unwrap() error { return e.error }

// Is makes it codec.ErrCorrupt.
func (lostError) Is(target error) bool { return target == codec.ErrCorrupt } //nolint:errorlint // required by package errors

// damageIfLost makes the error of a missing object one of damage. The catalog was opened, so its
// store can be reached. A symbol or version that does not exist has another error.
func damageIfLost(err error) error {
	if errors.Is(err, origin.ErrNotFound) {
		return lostError{err}
	}
	return err
}

// findPath returns the path in tree that a user typed as ls prints it. It also accepts quotes
// like $'…', which a shell removes, but xargs and read do not.
func findPath(ctx context.Context, tree catalog.Tree, typed string) (string, error) {
	p, err := treePath(typed)
	if err != nil {
		return "", err
	}
	if plain, ok := ui.UnquoteName(typed); ok {
		if _, err := tree.Lookup(ctx, p); notLive(err) {
			return treePath(plain)
		}
	}
	return p, nil
}

// selectPaths returns the paths of a tree that arguments name: all, if there are none. No path is
// below another one. leftOut is the number of damaged shards of a bare folder, if all of it is named.
func selectPaths(ctx context.Context, s *stack.Source, tree catalog.Tree, args []string) (paths []string, leftOut int64, err error) {
	for _, p := range args {
		p, err := findPath(ctx, tree, p)
		if err != nil {
			return nil, 0, err
		}
		if _, err := tree.Lookup(ctx, p); err != nil {
			return nil, 0, hint.Path(ctx, tree, p, err)
		}
		paths = append(paths, p)
	}
	switch {
	case len(paths) > 0:
	case s.Bare != nil:
		paths = []string{"shards"} // the other folders have the same files, but not side by side
		leftOut = int64(len(s.Bare.Damaged()))
	default:
		paths = []string{""}
	}
	return catalog.Outermost(paths), leftOut, nil
}

// checkHasShard returns an error if SOURCE has no shard at all. A damaged shard counts as one.
func checkHasShard(ctx context.Context, s *stack.Source) error {
	empty, err := s.IsEmpty(ctx)
	if err == nil && empty && len(s.Bare.Damaged()) == 0 {
		err = notFoundError(stack.NoShard(s.Folder) + ", so there is nothing to fetch")
	}
	return err
}

// completeSymbols lets the shell complete the symbols of a catalog. The first argument names
// the catalog, and the arguments behind it up to last are symbols.
func completeSymbols(last int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		if len(args) > last || strings.Contains(prefix, "@") || stack.NamesSymbol(args[0]) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return symbolsOf(cmd.Context(), args[0], prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// maxCompleted bounds the symbols that the shell offers.
const maxCompleted = 1000

// hasSymbols reports whether a SYMBOL is an argument behind SOURCE.
func hasSymbols(s *stack.Source) bool { return s.Stored != nil && s.Symbol == "" }

// symbolsOf returns the symbols of a catalog that begin with prefix. An unreadable catalog has
// none.
func symbolsOf(ctx context.Context, folder, prefix string) []string {
	c, err := stack.OpenCatalog(ctx, folder, remoteEnvironment())
	if err != nil {
		return nil
	}
	defer c.Close()
	var found []string
	for symbol, err := range c.Symbols(ctx) {
		if err != nil || len(found) == maxCompleted {
			break
		}
		if strings.HasPrefix(symbol, prefix) {
			found = append(found, symbol)
		}
	}
	return found
}
