// Package names encodes and decodes the keys of a store and the documents of a catalog. The
// documents list the symbols, their versions, and the index of each version.
//
// In order of use: XorbKey to ParseKey; Ref, Version, Row, Snapshot, Symbol, Settings; Encode,
// Decode; ParseAsOf.
//
// # Keys
//
//	vref/*sUt*{symbol}                                     Ref: symbol → newest version
//	ver/*sTt*{symbol}*{version}*{ts}*{hash}*{seq}*0        Version: the list of versions
//	tindex/{h2}/{hash}                                     index page (package page)
//	tdata/shard/{x2}/{xet hash}.shard                      File Info and CAS Info blocks
//	tdata/xorb/{x2}/{xet hash}.xorb                        packed chunks
//	tref/*sUt*{snapshot}                                   Snapshot
//	sl/*sSt*__add__*{seq}*{ts}*{hash}*{symbol}*_v2_        Symbol, added
//	sl/*sSt*__delete__*{seq}*{ts}*{hash}*{symbol}*_v2_     Symbol, deleted
//	sl/*sSt*__symbols__*0*{ts}*{hash}*0*0                  many of them, compacted
//	cref/*sUt*catalog                                      Settings
//	gc/*sUt*sweep                                          Sweep: a sweep under way
//	gcl/{h2}/{hash}                                        the keys it will delete
//
// {hash} is the BLAKE3 of the value in 64 lower-case hex digits. {xet hash} is the text form
// of a codec.Hash, with its digits in another order. {h2} and {x2} are their first two digits,
// so that no folder of a local store becomes large. Numbers are decimal without leading zeros;
// {ts} is in nanoseconds since 1970. In a name every byte but A-Z a-z 0-9 . _ - is written as !
// and two upper-case hex digits: org!2Fmodel. A key has one spelling, and no other package
// builds one.
//
// vref, tref, cref and gc are refs: they are replaced. All others are atoms: they never
// change.
//
// # Documents
//
// A document is a line of JSON and a line of 64 hex digits, the BLAKE3 of the first one
// without its newline. Nothing follows.
//
//	{"format":2,"symbol":"org/model","seq":"17","head":"ver/…","latest":{…}}
//	4f0c0d…
//
// Numbers that may pass 2^53 are strings. Fields that a reader does not know are
// skipped; a format that it does not know is ErrNewer or ErrOlder.
package names
