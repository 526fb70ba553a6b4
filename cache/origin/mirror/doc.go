// Package mirror has local copies of the shards of a remote store, so that deduplication reads
// each shard from the store once.
//
//	OpenFolder     a bounded folder for copies and for files derived from them
//	New, NewLocal  the Mirror of one store: Copies or Local
//	Mirror.Fetch   downloads the missing shards of a listing
//	Mirror.ReadAt  reads a copy
//	Mirror.Put     adds a shard that was just stored
//
// A copy is named by the hash of its bytes, so all processes and stores share one folder
// without locks:
//
//	shard/HASH   all bytes of a shard
//	run/HASH     a sorted run of package dedup
//	run/S/HASH   a sorted run of the local store S
//	state/S-*    what an earlier session saw of the local store S (Mirror.SaveState)
//	tmp-*        a file that is being written
//
// A local store needs no copies. A Local has the sorted runs alone, and compares each shard of
// the store with its name before its first use in a process.
//
// A copy is compared with its name before its first use in a process. A damaged copy is removed
// and fetched again. Without a copy, because the disk is full, reads go to the store.
package mirror
