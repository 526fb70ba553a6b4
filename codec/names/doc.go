// Package names spells and reads the keys under which a store keeps its objects, and
// the small documents of a catalog: which symbols there are, which versions they have,
// and where the index of each version is.
//
// # Keys
//
//	vref/*sUt*{symbol}                                     Ref: symbol → newest version
//	ver/*sTt*{symbol}*{version}*{ts}*{hash}*{seq}*0        Version: the list of versions
//	tindex/{h2}/{hash}                                     index page (package page)
//	tdata/shard/{x2}/{xet hash}.shard                      File Info and CAS Info blocks
//	tdata/xorb/{x2}/{xet hash}.xorb                        packed chunks
//	tref/*sUt*{snapshot}                                   Snapshot
//	sl/*sSt*__add__*{seq}*{ts}*{hash}*{symbol}*_v2_        Symbol, there is one
//	sl/*sSt*__delete__*{seq}*{ts}*{hash}*{symbol}*_v2_     Symbol, it is gone
//	sl/*sSt*__symbols__*0*{ts}*{hash}*0*0                  many of them, compacted
//	cref/*sUt*catalog                                      Settings
//	gc/*sUt*sweep                                          Sweep: a sweep under way
//	gcl/{h2}/{hash}                                        what it is about to delete
//
// {hash} is the BLAKE3 of the value in 64 lower-case hex digits; {xet hash} is the text
// form of a codec.Hash, whose digits come in another order. {h2} and {x2} are their
// first two digits, so that no folder of a local store grows large. Numbers are decimal
// without leading zeros; {ts} is in nanoseconds since 1970. In a name every byte but
// A-Z a-z 0-9 . _ - is written as ! and two upper-case hex digits: org!2Fmodel. A key
// has one spelling, and no other package puts one together.
//
// vref, tref, cref and gc are refs: they are replaced. All others are atoms: they never
// change.
//
// # Documents
//
// A document is a line of JSON and a line of 64 hex digits, the BLAKE3 of the first one
// without its newline. Nothing follows.
//
//	{"format":1,"symbol":"org/model","seq":"17","head":"ver/…","latest":{…}}
//	4f0c0d…
//
// Numbers that may pass 2^53 are strings. Fields that a reader does not know are
// skipped; a format that it does not know is ErrNewer.
package names
