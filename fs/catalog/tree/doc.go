// Package tree reads and changes the index of a version: a tree of pages that is a function of
// its sorted entries.
//
//	Open                          a Tree, by the hash of its root page
//	Tree.Lookup, List, All        one entry; one directory; a directory and all below it
//	Build, Update                 the pages of a new tree; of a changed tree
//
// Every page is compared with the link that led to it: level, size, keys and counts. A forged
// tree can be wrong. It cannot lead in circles, show a name twice or hide a counted name.
//
// The error of a missing or damaged page contains the hash of the page. It is never
// io/fs.ErrNotExist, which only a sound tree returns. A listing ends with such an error
// instead of omitting names.
package tree
