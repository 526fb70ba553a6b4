// Package index holds the index of the disk cache in memory: the segment and place of every
// chunk, and the whole files. Its eviction policy is pure: no disk, no lock and no clock.
//
// API in order of use:
//
//	NewBuilder, Builder.Done      make an Index from the records of a journal, or an empty one
//	Index.Find, Span.Check        find chunks in segments and compare them with checksums
//	Index.Missing, Has            report the chunks that are absent
//	Index.Enter, AddSegment       record new chunks and segments
//	Index.Drop, Remove            forget chunks and segments
//	Index.AcquireFile, AddFile    look up and record whole files
//	Index.Rows, Renumber          serve the content of a snapshot
//	Policy.QueueFor, Evict        decide the queue of new chunks, and the next victim
//
// The methods of Index are safe for concurrent use. Those of Policy and Builder are not.
package index
