// Package catalog maps paths to files. It reads names, sizes and hashes, and never the bytes of
// files.
//
//	Exists, Open                     the catalog in a store
//	StoreCatalog.Symbols             the names of its trees
//	StoreCatalog.Latest, Resolve     the row of a version
//	StoreCatalog.OpenRow             a Tree
//	StoreCatalog.History, Changes    what changed
//	Walk, RecentPages                whole trees
//
// Every layer of a store points downwards, and nothing below the ref ever changes:
//
//	ref      symbol → newest version; replaced, which is how a change happens
//	version  list of the changes of a symbol, each with the trees that live
//	index    pages of a tree (package page): path → file; shared by versions
//	data     shards and xorbs
//
// The symbol list beside the refs is only a cache of them. fs/catalog/writer changes a
// catalog. fs/catalog/bare shows folders without one.
package catalog
