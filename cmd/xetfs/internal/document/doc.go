// Package document prints what a catalog has: lines of text, or one JSON object.
//
//	WriteSymbols, Symbol        the symbols of a catalog
//	WriteEntries, EntryOptions  the entries of a tree
//	WriteHistory                the changes of a symbol
//	WriteSnapshots              the snapshots of a catalog
//	WriteSnapshot               the versions of one snapshot
//	WritePruned, WriteDeleted   the versions that a command deleted
//	WriteRef                    the reference of a symbol
//	WriteSigned                 the version that a command has signed
//	Diff, Differences           the differences between two trees
//	VersionName, VersionFields  one version, as a part of other results
//
// The names of all JSON fields are a promise. A result may have millions of elements, so a
// caller passes an iterator, and the elements are printed as they arrive.
package document
