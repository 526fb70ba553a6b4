// Package hint finds the next step for a name that does not exist, or an argument in the wrong
// place. A hint is the end of an error message and begins with "; ".
//
//	Closest      names that are similar to a typed one
//	Absent       adds a hint to an error about a symbol, version or snapshot
//	Path         adds a hint to an error about a path in a tree
//	Missing      the first local path of a command line that does not exist
//	Order        arguments in the wrong order; MountOrder for mount
//
// A hint never causes an error of its own: an unreadable folder or catalog has no similar
// names.
package hint
