// Package dir stores objects as files below one directory.
//
// In order of use:
//
//	Open, Store          objects under their keys
//	Store.WriteListing   the list of all objects, for plain web servers
//	OpenReadOnly         the same objects without the methods that write
//	OpenBare, Bare       shards and xorbs under any path, found by content
package dir
