package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strconv"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// hinted adds to the error of a command what to type if a symbol, version or snapshot does
// not exist.
func hinted(ctx context.Context, c *catalog.StoreCatalog, store string, err error) error {
	var absent *catalog.AbsentError
	if c == nil || !errors.As(err, &absent) {
		return err
	}
	hint, store := "", ui.ShellWord(store)
	switch absent.Kind {
	case catalog.AbsentSymbol:
		hint = symbolHint(ctx, c, store, absent.Name)
	case catalog.AbsentVersion:
		hint = fmt.Sprintf("; xetfs history %s %s lists its versions", store, ui.ShellWord(absent.Name))
	case catalog.AbsentSnapshot:
		if hint = didYouMean(absent.Name, readable(c.Snapshots(ctx))); hint == "" {
			hint = fmt.Sprintf("; xetfs snapshot list %s shows all", store)
		}
	}
	return fmt.Errorf("%w%s", err, hint)
}

func symbolHint(ctx context.Context, c *catalog.StoreCatalog, store, typed string) string {
	if _, err := strconv.ParseInt(typed, 10, 64); err == nil {
		return "; a version follows its symbol and an @: SYMBOL@" + typed
	}
	empty := true
	for symbol := range readable(c.Symbols(ctx)) {
		empty = false
		if rest, ok := strings.CutPrefix(typed, symbol+"/"); ok {
			return fmt.Sprintf("; %s is a symbol: type it and the path in it as two words: %s %s", symbol, ui.ShellWord(symbol), ui.ShellWord(rest))
		}
	}
	if empty {
		return "; there is no symbol in " + store + " yet, xetfs publish makes one"
	}
	if hint := didYouMean(typed, readable(c.Symbols(ctx))); hint != "" {
		return hint
	}
	return fmt.Sprintf("; xetfs ls %s shows the symbols", store)
}

// readable yields names up to the first error: a hint is no reason for another error.
func readable(all iter.Seq2[string, error]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, err := range all {
			if err != nil || !yield(name) {
				return
			}
		}
	}
}

// findPath returns the path of a file or folder of a tree that a user typed as ls prints it. It
// also accepts quotes like $'…', which a shell removes, but xargs and read do not.
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

// absentPath is the error of a path that the tree does not have. It names the path that may
// have been meant.
func absentPath(ctx context.Context, tree catalog.Tree, missing string, err error) error {
	if !notLive(err) {
		return fmt.Errorf("%s: %w", missing, err)
	}
	hint := "; xetfs ls lists the paths"
	if meant := similarPath(ctx, tree, missing); meant != "" {
		hint = meant
	} else if _, bare := tree.(catalog.Claimer); bare && !strings.HasPrefix(missing, "by-") && !strings.HasPrefix(missing, "shards") {
		hint = "; SOURCE is no catalog and has no symbols, only by-hash, by-sha256 and shards: xetfs ls shows them"
	}
	return fmt.Errorf("%s: %w%s", missing, ui.Reason(err), hint)
}

// similarPath looks for the names that are similar to the first part of a path which does
// not exist.
func similarPath(ctx context.Context, tree catalog.Tree, missing string) string {
	dir, rest := "", missing
	for {
		name, below, more := strings.Cut(rest, "/")
		e, err := tree.Lookup(ctx, path.Join(dir, name))
		switch {
		case notLive(err):
			return didYouMean(path.Join(dir, name), pathsIn(ctx, tree, dir))
		case err != nil || !more:
			return ""
		case e.Type == page.Symlink:
			return fmt.Sprintf("; %s is a link to %s, and links are not followed", ui.QuoteName(e.Path), ui.QuoteName(e.Target))
		case e.Type != page.Dir:
			return fmt.Sprintf("; %s is a file", ui.QuoteName(e.Path))
		}
		dir, rest = e.Path, below
	}
}

// pathsIn yields the paths of what is in a folder.
func pathsIn(ctx context.Context, tree catalog.Tree, dir string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for e, err := range tree.List(ctx, dir, "") {
			if err != nil || !yield(e.Path) {
				return
			}
		}
	}
}
