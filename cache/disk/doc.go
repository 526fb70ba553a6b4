// Package disk caches runs of packed chunks, index pages and whole files on a local disk. A
// method may forget entries. It never returns wrong bytes, and never blocks a reader longer than
// Options.ReadLimit. A full disk stops writes for a while. Repeated failures suspend the store,
// which then probes the disk from time to time.
//
// API in order of use:
//
//	Open                       opens a folder, as its owner or as a reader
//	Store.RunIn, Check         read chunks
//	Store.PutRunNoCopy         queues chunks; PutRunWait waits for room
//	Store.Page, PutPage        read and store index pages
//	Store.OpenFile, PutFile    read and store whole files
//	Store.MarkRedundant        marks chunks that a whole file has, too
//	Store.Drop, DropPage       forget corrupt entries
//	Store.ForgetPage           forgets a page of no use
//	Store.Entries, Verify      list and compare all entries
//	Store.Trim, Clear          evict entries
//	Store.Flush, Sync, Close   wait for the kernel, or for the disk
//
// One process owns a folder. Other processes may read it; with Options.TakeOver one of them becomes
// the owner after the former one has exited. The folder has mode 0700, its files 0600.
//
// # Folder
//
//	FORMAT              text, 4 lines: kind of the folder, version, id of this cache, CRC-32C of these
//	LOCK                locked with flock by the owner
//	index-000007.log    index, a list of records (package journal)
//	index.damaged       the last journal that was damaged, as it was found
//	seg/0000002a        segment: packed chunks and pages, back to back
//	whole/{hash}        whole file
//
//	Other names in seg or whole, or beside names of a cache without FORMAT: the folder is refused.
//
//	A segment is written from start to end, and its number is never reused. A lost or outdated
//	record can therefore lead to missing or wrong bytes, but never to bytes that match.
//
// # Checksums
//
//	chunk       CRC-32C of the bytes with header, compared on every read
//	            start value: CRC-32C of kind and hash + 0x9e3779b9 * index of the chunk
//	whole file  length, mtime and ctime, compared at open and at each read through File
//	            CRC-32C of the bytes, compared in the background: after a new ctime before
//	            the next open, after the first open, and after an open 7 days later
//
// # Index
//
//	memory: 13 bytes per chunk in runs of 16, 39 bytes per single chunk
//	disk:   a snapshot and the changes; a new journal when the changes are longer
//	record: kind (1 byte), then unsigned varints in shortest form; checksums little-endian
//
//	1 header    version, id of the cache (16 bytes), number of the journal, Unix time
//	2 name      kind (1 byte: chunks 0, page 1), hash (32): the next reference: 0, 1, 2 …
//	3 segment   number, queue: a new segment, or moved to the end of that queue
//	4 add       segment, offset, then rows back to back in the segment:
//	            reference, first chunk, n, n × (size·4 + uses, CRC-32C (4))
//	5 drop      kind (1), hash (32), first chunk, n
//	6 evict     segment; a snapshot names and evicts the highest number if it is gone
//	7 whole     hash (32), size, mtime in ns, CRC-32C (4), ctime in ns if known:
//	            a new file, or moved to the end of its queue
//	8 forget    hash (32) of a whole file
//	9 end       of the snapshot
//	10 close    clean close
//
// # Durability
//
//	kill -9      loses the queue: some milliseconds
//	power loss   loses what is newer than the last sync: Options.SyncBytes or SyncEvery.
//	             The journal is synced after the segments, copies before their originals are
//	             deleted, whole files before they are renamed.
//
// # Damage
//
//	FORMAT       damaged, unreadable or absent: written again with the id in the newest journal
//	journal      damaged or unreadable: the records before the damage count. A journal gets its
//	             name after the sync of its snapshot, so a named one with a part of the snapshot
//	             is damaged, too. It counts if no journal has a complete snapshot.
//
//	A shorter journal leads to fewer entries, or to forgotten ones that are still on disk. Both
//	have the checksum of the bytes that were stored under their name.
//
// # Eviction
//
//	probation    new segments, up to a tenth of the cache. The oldest is evicted. Chunks with
//	             a use move to protected; the ghost remembers the others for a while.
//	protected    used chunks, chunks of the ghost that return, and whole files. The oldest gets
//	             another round per use, at most three.
//	redundant    chunks that a whole file has, too: evicted first.
package disk
