// Package verify compares the data of a store or a tree with every hash.
//
//	Target, Object         a store with the layers above it, opened by the caller
//	NewXorbCache           a remote store that fetches each xorb once
//	Store                  checks all shards, xorbs and files of a target
//	Catalog                checks the references, versions and index pages of a store
//	Listing                checks xetfs.list and its parts
//	Tree                   checks the files of one tree of a catalog
//	Report, Fault          receive the results while a check runs
//
// The files of a local store are checked first. The check of a xorb then leaves out the chunks
// that the files proved. A remote store is read in the order of its shards. Each xorb is then
// fetched once and stays in memory for the files that share it. The package prints nothing.
package verify
