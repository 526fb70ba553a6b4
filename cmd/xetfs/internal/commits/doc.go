// Package commits makes versions of symbols from the commits of the Hub API.
//
//	NewMaker               over a writer of a catalog and the uploads of clients
//	Maker.Commit           one version per commit, all of it or nothing
//	Maker.Create           a symbol without files
//	Maker.Delete, Move     all versions of a symbol
//	GitOID                 git's name of a regular file, from its entry
//
// A commit is read while it arrives. Contents of its files are stored before the version, which
// names them. The operations are then planned on the newest tree, again after each version that
// arrived first. The label LabelDigest identifies the commit in the history. A commit that is
// sent again after a lost answer is thus the same version, also after a restart and on another
// server.
package commits
