package hint

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"path"
	"strconv"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// Absent adds the next step to an error about a symbol, version or snapshot of store that does
// not exist. Without a catalog, and for any other error, it returns err.
func Absent(ctx context.Context, c *catalog.StoreCatalog, store string, err error) error {
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
		if hint = didYouMean(absent.Name, untilError(c.Snapshots(ctx))); hint == "" {
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
	for symbol := range untilError(c.Symbols(ctx)) {
		empty = false
		if rest, ok := strings.CutPrefix(typed, symbol+"/"); ok {
			return fmt.Sprintf("; %s is a symbol: type it and the path in it as two words: %s %s", symbol, ui.ShellWord(symbol), ui.ShellWord(rest))
		}
	}
	if empty {
		return "; there is no symbol in " + store + " yet, xetfs publish makes one"
	}
	if hint := didYouMean(typed, untilError(c.Symbols(ctx))); hint != "" {
		return hint
	}
	return fmt.Sprintf("; xetfs ls %s shows the symbols", store)
}

// untilError yields names up to the first error: a hint is no reason for another error.
func untilError(all iter.Seq2[string, error]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, err := range all {
			if err != nil || !yield(name) {
				return
			}
		}
	}
}

// Path adds missing to the error of a lookup in tree. If the path does not exist, Path adds
// similar paths, too.
func Path(ctx context.Context, tree catalog.Tree, missing string, err error) error {
	if !errors.Is(err, iofs.ErrNotExist) {
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

// similarPath returns the end of a message about the first part of a path that does not exist.
// It names similar paths, or the file or link above that part.
func similarPath(ctx context.Context, tree catalog.Tree, missing string) string {
	dir, rest := "", missing
	for {
		name, below, more := strings.Cut(rest, "/")
		e, err := tree.Lookup(ctx, path.Join(dir, name))
		switch {
		case errors.Is(err, iofs.ErrNotExist):
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

// pathsIn yields the paths of the entries of a folder.
func pathsIn(ctx context.Context, tree catalog.Tree, dir string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for e, err := range tree.List(ctx, dir, "") {
			if err != nil || !yield(e.Path) {
				return
			}
		}
	}
}
