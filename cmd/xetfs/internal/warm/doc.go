// Package warm fetches the files of a tree into the disk cache.
//
//	New, Options       a run over some paths of a tree
//	Run.Plan           adds up the files: what has to be fetched and stored
//	Run.Do             fetches them
//	Selection, Result  the sums before and after
//
// A local source is copied file by file. Small files of a remote source share requests
// (batch.go). The package prints nothing: Options.Failed reports damaged files.
package warm
