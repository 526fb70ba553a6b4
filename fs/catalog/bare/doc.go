// Package bare shows a folder of shards and xorbs that has no catalog. It names each file by
// its hashes.
//
//	Open               read the shards of a store
//	Catalog.Damaged    the shards that could not be read
//	Catalog.Open       the tree, a catalog.Tree
package bare
