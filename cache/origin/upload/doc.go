// Package upload checks and stores what a Xet client sends: xorbs, shards and small files. It
// trusts no claim of a client. Every hash, size and range is compared with values computed from
// the stored bytes. The package has no HTTP, and no names of files.
//
//	Open                     an upload Store over a store
//	Store.Dedup              a shard that locates a chunk and its neighbours
//	Store.PutXorb            check and store a xorb
//	Store.PutShard           check a shard against the stored xorbs, and store it in our form
//	Store.PutContents        chunk, pack and store files
//	Store.FileBySHA256       a file that a session uploaded or may read
//	Store.Recall             remember what a session uploaded to other servers of the store
//	Store.Commit             check, under the guard of a publish, that all data of files exists
//	NewClientBody            a body that must not arrive too slowly
//
// A session is one client. A SHA-256 names content across repositories, so a hash alone grants no
// access. A session finds the files that it uploaded, and those that Options.Readable returns. A
// receipt in the store names each shard that a session uploaded, for other servers of the store. A
// sweep deletes it after its grace period.
//
// Data stays from the answer of Dedup to the commit: Options.Leases protects it from a sweep. The
// lease ends some time after the last use. It only makes the commit succeed. Commit proves that
// the data exists, by the guard of the publish itself.
package upload
