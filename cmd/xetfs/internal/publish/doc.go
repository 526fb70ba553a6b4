// Package publish makes the next version of a symbol: from a folder, from changes of the newest
// tree, or from another version.
//
//	Run      one publish, or a dry run; the caller opens the store
//	Options  the version, the folder and the store
//	Report   receives skipped paths and notes
//	Result   the version, its changes and what was packed
//
// Errors that a command maps to an exit status are ErrRemoveConflict, AbsentError and
// MissingError, those of writer (ErrVersion, ErrBusy, ErrSlow, ErrSwept) and catalog.NestedError.
package publish
