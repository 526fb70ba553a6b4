package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// asOfHelp is the part of a command's help that says how to pick a version.
const asOfHelp = `AS_OF picks a version of SYMBOL. It is one of these:

  latest                 the newest version; the default
  12, -1, -2             version 12, the newest live version, the one before it
  2026-03-01T12:00:00Z   the newest version at that time
  2026-03-01             the newest version at the last moment of that day, in UTC
  snap:NAME              the version that a snapshot holds
  ver:HASH               exactly the tree with this root page`

// A target is SYMBOL[@AS_OF] on a command line.
type target struct {
	symbol string
	at     names.AsOf
}

// String is the inverse of parseTarget.
func (t target) String() string {
	if t.at == (names.AsOf{}) && !strings.Contains(t.symbol, "@") {
		return t.symbol
	}
	return t.symbol + "@" + t.at.String()
}

// parseTarget reads SYMBOL[@AS_OF]. A symbol or snapshot may have an @ in its name: the
// first one with a version behind it counts. The error is a usageError.
func parseTarget(text string) (target, error) {
	var first error
	for i := range len(text) {
		if text[i] != '@' {
			continue
		}
		at, err := names.ParseAsOf(text[i+1:])
		if err != nil {
			first = cmp.Or(first, fmt.Errorf("%s: %w", text, err))
			continue
		}
		return target{text[:i], at}, checkSymbol(text[:i])
	}
	if first != nil {
		return target{}, usageError{first}
	}
	return target{symbol: text}, checkSymbol(text)
}

// checkSymbol is names.CheckSymbol for the command line.
func checkSymbol(symbol string) error {
	err := names.CheckSymbol(symbol)
	if err == nil {
		return nil
	}
	if clean := cleanPath(symbol); clean != symbol && names.CheckSymbol(clean) == nil && !strings.Contains("/"+symbol+"/", "/../") {
		err = fmt.Errorf("%w; type %s", err, ui.ShellWord(clean))
	}
	return usageError{err}
}

// openTree returns the tree that the arguments behind SOURCE name. A catalog has a first
// argument SYMBOL[@AS_OF]; any other folder has none. It also returns the other arguments, at
// most most of them.
func openTree(ctx context.Context, s *stack.Source, args []string, most int) (catalog.Tree, []string, error) {
	if s.Bare != nil {
		if len(args) > most {
			return nil, nil, usageError{fmt.Errorf("%q is one argument too many: %s is no catalog, so it has no symbols", args[most], s.Folder)}
		}
		tree, err := s.Bare.Open(ctx, "", names.AsOf{})
		return tree, args, err
	}
	if len(args) == 0 {
		return nil, nil, usageError{fmt.Errorf("%s is a catalog: name one of its symbols, which xetfs ls shows", s.Folder)}
	}
	t, err := parseTarget(args[0])
	if err != nil {
		return nil, nil, err
	}
	tree, err := s.Stored.Open(ctx, t.symbol, t.at)
	return tree, args[1:], err
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

// completeSymbols lets the shell complete the symbols of a catalog. The first argument names
// the catalog, and the arguments behind it up to last are symbols.
func completeSymbols(last int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		if len(args) > last || strings.Contains(begun, "@") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return symbolsOf(cmd.Context(), args[0], begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// mostCompleted is how many symbols are offered at once.
const mostCompleted = 1000

// symbolsOf returns the symbols of a catalog that begin with begun. An unreadable catalog has
// none.
func symbolsOf(ctx context.Context, folder, begun string) []string {
	c, err := stack.OpenCatalog(ctx, folder, remoteEnvironment())
	if err != nil {
		return nil
	}
	defer c.Close()
	var found []string
	for symbol, err := range c.Symbols(ctx) {
		if err != nil || len(found) == mostCompleted {
			break
		}
		if strings.HasPrefix(symbol, begun) {
			found = append(found, symbol)
		}
	}
	return found
}

// notLive reports whether an error means that a symbol has no live version.
func notLive(err error) bool { return errors.Is(err, iofs.ErrNotExist) }

// checkSnapshot is names.CheckSnapshot for the command line.
func checkSnapshot(name string) error {
	if err := names.CheckSnapshot(name); err != nil {
		return usageError{err}
	}
	return nil
}
