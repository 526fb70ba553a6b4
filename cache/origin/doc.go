// Package origin defines where bytes are read from. Each layer that can be swapped implements
// one of two interfaces.
//
//	Store, WriteStore                         objects under keys: a directory, a bucket, a web server
//	PartReader, ProgressReader, WholeReader   optional methods of a Store that save requests or time
//	TryReader, Matcher, CostReporter          optional methods of local stores
//	KeyRejecter, Watcher, Relocator           optional: replicas, changes, a new store at the path
//	StrayRemover, AllSyncer                   optional: unfinished files and names of killed writers
//	Source                                    terms of a file, chunks of a term, bytes of chunks
//	Pages, Sink                               index pages of a Store; output of a packer into one
//	ReaderAt, ReadPart, ReadWhole, ReadShard  reads of any Store
//	MaxObject, Short, Long                    bounds of objects, and their errors
//	ConcernsOneObject, IsShortage             the scope of an error
//
// Data and catalog use the same Store. Package objects makes a Source of a Store, and package
// wrap decorates Sources.
//
// A new kind of store implements Store and passes origintest.TestStore. Package
// cmd/xetfs/internal/stack opens it.
package origin
