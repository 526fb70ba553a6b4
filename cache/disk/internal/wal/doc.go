// Package wal reads and writes the journal of the disk cache: the list of changes of the index.
// The journal begins with a snapshot and is replaced by a new one when it has grown.
//
// API in order of use:
//
//	Recover            reads the newest journal with a complete snapshot
//	Open, Create       continue that journal, or begin a new one under a temporary name
//	Log.Snapshot       writes the whole index
//	Log.Publish        syncs a new journal and gives it its name
//	Log.Append, Flush  write a change, and pass changes to the kernel
//	Log.IsGrown        reports whether a new journal is due
//	Log.Sync, Close    make changes durable
//
// The doc comment of package disk draws the records.
package wal
