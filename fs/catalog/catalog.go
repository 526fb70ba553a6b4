// Package catalog says which file a path is. It knows names, sizes and hashes, and
// never the bytes of files.
//
// A Catalog has symbols, each a tree that changes over time; a Tree is one unchanging
// state of it. Stored is the catalog in a store, and a Publisher adds versions to it. Bare
// is the catalog of a folder that has none: its files are named by their hashes.
//
// # What is stored
//
// Every layer points downwards, and what is below the ref never changes:
//
//	ref      symbol → newest version; replaced, which is how a change happens
//	version  list of the changes of a symbol, each with the trees that live
//	index    pages of a tree (package page): path → file; shared by versions
//	data     shards and xorbs
//
// The symbol list stands beside it, and is only a cache of the refs. Whoever dies while
// publishing leaves the old state or the new one, and at worst something that nothing
// points to.
package catalog

import (
	"context"
	"iter"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A Catalog gives trees by symbol and version. It is safe for concurrent use.
type Catalog interface {
	// Symbols yields the symbols that have a live version, sorted. A catalog of one
	// tree that needs no name yields the empty symbol.
	Symbols(ctx context.Context) iter.Seq2[string, error]

	// Open returns one version of a symbol, or io/fs.ErrNotExist.
	Open(ctx context.Context, symbol string, at names.AsOf) (Tree, error)
}

// A Tree is one unchanging tree of files. It is safe for concurrent use.
type Tree interface {
	// Version says which version this is; the zero Row where there are none.
	Version() names.Row

	// Lookup returns the entry at a slash path, or io/fs.ErrNotExist. The root is "".
	Lookup(ctx context.Context, path string) (page.Entry, error)

	// List yields the entries directly in dir whose names sort after a given one
	// ("" for all), in order. The root is "". It yields io/fs.ErrNotExist if there is
	// no such directory.
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

// A Claimer is a Tree with paths that claim the SHA-256 of a file, where nothing proves the
// claim. Commands and mounts compare it when they read the whole file.
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
