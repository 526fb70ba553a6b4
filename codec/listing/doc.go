// Package listing encodes and decodes the listing of a store, the object xetfs.list. It names
// the objects of the store for readers that cannot list the store. A plain web server, for
// example, serves files by name and lists no names.
//
// In order of use: Decode, Listing.Find, Listing.List; Object, Encode.
//
// A writer of the store writes the listing again after everything else is durable. The listing
// may therefore be older than the store: objects may be missing in it, and listed objects may
// be deleted.
//
// # Format
//
//	{"format":1,"prefixes":["sl/","tdata/shard/","tdata/xorb/","tref/","vref/"]}
//	sl/*sSt*__add__*1*1700000000000000000*af13…*org!2Fmodel*_v2_ 0 1700000000000000000
//	tdata/shard/07/0706….shard 12345 1700000000000000000
//	tdata/xorb/3f/3fa1….xorb 67108864 1700000000000000000 old/models/b%20c.xorb
//	…
//	9f86d081…  64 hex digits, BLAKE3 of all before it but the last newline
//
// The first line has at most 64 KiB and names the listed prefixes. Readers treat an object
// under such a prefix as absent if no line names it. Each other line has the key of an object,
// its size in bytes, and its time of change in nanoseconds since 1970. The path follows if the
// key does not name the file of the object. It is escaped as in a URL. Lines are sorted by key.
package listing
