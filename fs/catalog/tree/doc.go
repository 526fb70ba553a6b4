// Package tree reads and changes the index of a version: a tree of pages that is a
// function of its sorted entries.
//
// Every page is held against the link that led to it: its level, its size, its keys and
// its counts. So a tree that somebody made up can be wrong, but it cannot lead in
// circles, show a name twice or hide one that its root counts.
//
// A page that is missing or damaged is that error, with the hash of the page in it. It
// is never io/fs.ErrNotExist, which means that the tree says so, and a listing that
// meets it ends with it instead of leaving names out.
package tree
