package catalog

import (
	"context"
	"iter"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A Catalog opens trees by symbol and version. It is safe for concurrent use.
type Catalog interface {
	// Symbols yields the symbols that have a live version, sorted. A catalog of one
	// nameless tree yields the empty symbol.
	Symbols(ctx context.Context) iter.Seq2[string, error]

	// Open returns one version of a symbol, or io/fs.ErrNotExist.
	Open(ctx context.Context, symbol string, at names.AsOf) (Tree, error)
}

// A Tree is one immutable tree of files. It is safe for concurrent use.
type Tree interface {
	// Version returns the row of the version; the zero Row in a catalog without versions.
	Version() names.Row

	// Lookup returns the entry at a slash path, or io/fs.ErrNotExist. The root is "".
	Lookup(ctx context.Context, path string) (page.Entry, error)

	// List yields the entries directly in dir whose names sort after a given one
	// ("" for all), in order. The root is "". It yields io/fs.ErrNotExist if dir does not
	// exist or is no directory.
	List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error]

	// All yields the entry of dir and every entry below it, in the order of their keys.
	// It yields io/fs.ErrNotExist if dir does not exist.
	All(ctx context.Context, dir string) iter.Seq2[page.Entry, error]

	// Totals returns the number of entries and the sum of the file sizes; zero: unknown.
	Totals() (entries, bytes int64)

	// OneInode reports whether entries with equal FileIDs differ in nothing but the path,
	// so that a mount may show them as one inode.
	OneInode() bool
}

// A Claimer is a Tree with paths that claim an unproven SHA-256 of a file. Commands and
// mounts compare it when they read the whole file.
type Claimer interface {
	ClaimedSHA256(path string) (sum [32]byte, ok bool)
}

// ExpectedSHA256 returns the SHA-256 that the content of a file must have: the one of its entry
// or the one that its path claims. Nil means unknown.
func ExpectedSHA256(t Tree, e *page.Entry) *[32]byte {
	if c, ok := t.(Claimer); ok && e.SHA256 == nil {
		if sum, ok := c.ClaimedSHA256(e.Path); ok {
			return &sum
		}
	}
	return e.SHA256
}
