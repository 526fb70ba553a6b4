// Package listing encodes and decodes the listing of a store, the object xetfs.list. It names
// the objects of the store for readers that cannot list the store. A plain web server, for
// example, serves files by name and lists no names.
//
// In order of use: Decode, Listing.Find, Listing.Parts, Listing.With, Listing.List; Object, Encode.
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
//
// # Parts
//
// The lines of a large store are in parts, one for each folder of shards or xorbs. A writer and a reader
// that comes again need only the parts that have changed. A listing of format 2 has one line for each part:
//
//	{"format":2,"prefixes":["sl/","tdata/shard/","tdata/xorb/","tref/","vref/"]}
//	sl/*sSt*__add__*1*1700000000000000000*af13…*org!2Fmodel*_v2_ 0 1700000000000000000
//	tdata/shard/07/ 43210 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03
//	…
//
// Behind the folder are the size of the part in bytes, and the BLAKE3 of the part, whose 64 digits
// are its name: xetfs.parts/5891…. A part has the lines of the folder and nothing else. All parts
// are durable before the listing. Those that a listing has lost stay for ten minutes.
package listing
