// Package hubimport makes the listing of a Hub repository a version in a private catalog. A mount
// of the repository is then a mount of that catalog, with its versions, bounded memory and start
// without a network.
//
// In order of use:
//
//	Open               the catalog of one address, below the cache folder
//	Importer.Update    make the current commit of the Hub the newest version
//	Importer.Start     the same for a mount, which need not wait for a long listing
//	Importer.Catalog   the catalog of such a mount
//	Importer.Follow    do so in each period
//	Importer.Doubt     list the commit again, which a file contradicts
//	Importer.Locate    find a file outside Xet (hub.Locator)
//
// The catalog has two symbols. The first one is the tree of the repository. The second one, plain,
// is an index of the files outside Xet. Its names are those of hub.PlainFile.Hash in hex, and its
// links lead to "git|lfs HASH SIZE PATH".
package hubimport
