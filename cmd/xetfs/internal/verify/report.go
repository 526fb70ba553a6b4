package verify

import "github.com/xetfs/xetfs/codec"

// A Fault is one place of a store or tree where data is damaged or missing.
type Fault struct {
	Path string     // below the store, of the shard or xorb; in the tree, of the file
	Kind string     // "shard", "xorb" or "file"; "" if the kind is unknown
	Hash codec.Hash // of the object of that kind
	Err  error
}

// A Report receives the results of a check while it runs. Its methods are called by several
// goroutines.
type Report interface {
	Fault(f Fault)
	Shard()                   // one copy of a shard was read
	Xorb(chunks int)          // one copy of a xorb was read
	File(bytes int64)         // one file was read
	Absent(xorb codec.Hash)   // a shard lists a xorb that the store does not have
	Unverifiable(path string) // a xorb has neither footer, name nor shard to compare it with
}
