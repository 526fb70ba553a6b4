// Package disk keeps what was fetched once on a local disk: runs of packed chunks as
// they came, index pages, and whole files that the kernel can read by itself.
//
// It is a cache. Every method may forget, none may return wrong bytes, and none makes a
// reader wait for longer than Options.ReadLimit, whatever the disk does. When the disk
// is full nothing is written for a while; when it fails again and again the Store
// suspends itself, answers "not here" at once, and tries every now and then whether the
// disk is back.
//
// # Folder
//
//	FORMAT              text: what this is, its version, the id of this cache
//	LOCK                held with flock by the process that writes
//	index-000007.log    what is where, a list of records (package journal)
//	index.damaged       the last journal that was damaged in its middle, if one was
//	seg/0000002a        segment: packed chunks and pages, back to back, nothing between
//	whole/{hash}        a whole file
//
// A folder with other names in seg or whole is refused, and so is one with other names
// beside them but no FORMAT of a cache: only files with names of this form are ever deleted.
//
// All of it is as secret as the data: the folder has mode 0700, the files 0600. Whoever
// must keep the data of several identities apart gives each a folder of its own.
//
// One process writes. Others may read what was there when they opened the folder, and one
// of them goes on to write when the first has gone (Options.Share, Options.Succeed).
//
// # Segments
//
// A segment is written from its beginning to its end and never again, and its number is
// never used for another. So a record of the index that was lost, or one that is there
// while the bytes are not, can only lead to a file that is missing, too short, or holds
// bytes that do not match: never to bytes that match and are others.
//
// Every chunk and page has a checksum in the index: the CRC-32C of its bytes, header
// included, that does not begin with nothing but with the CRC-32C of what it is (kind, hash
// of the xorb or page) plus 0x9e3779b9 times the index of the chunk. So the bytes of
// another chunk do not match. It is compared on every read, unless the caller knows the
// hash of the chunk and compares that instead: then Check finds out which chunks differ.
//
// # Whole files
//
// A whole file was compared with its hash before it got its name. After that its length and
// time of change are compared, when it is opened and whenever it is read through this
// package; its bytes are not, because to read them all would take what the file is there to
// save. So who writes to it is noticed, unless the kernel reads it by itself, through a
// handle that was opened before.
//
// Who writes may set the time of change back, but not the time when the file was touched
// (ctime), which is compared, too. That also changes where nothing else does, when a file is
// restored from a copy or its mode is changed. So a file that was touched is in doubt: it is
// not given out until its bytes were compared with its checksum, in the background or by
// PutFile.
//
// What a disk that goes bad changes touches nothing. So the bytes of each file are compared,
// slowly and in the background, when it is opened for the first time after Open, and again
// when it is opened a week after that; and of all files by Verify. What is damaged is given
// out no more; who has it open goes on with what the kernel gives. Where another process
// finds the damage, it touches the file, so that the owner looks for itself.
//
// # Index
//
// In memory an index entry takes 13 bytes a chunk where 16 came together, and 39
// where each came alone. On disk it is a journal: a snapshot, and behind it the changes.
// When the changes have become longer than the snapshot, a new journal with a new
// snapshot takes its place. The first byte of a record is its kind; numbers are unsigned
// varints in their shortest form, checksums are little-endian:
//
//	1 header    version, id of the cache (16 bytes), number of the journal, Unix time
//	2 name      kind (1 byte: chunks 0, page 1), hash (32): the next reference: 0, 1, 2 …
//	3 segment   number, queue: there is one more, or it goes to the end of that queue
//	4 add       segment, offset, then rows back to back in the segment:
//	            reference, first chunk, n, n × (size·4 + uses, CRC-32C (4))
//	5 drop      kind (1), hash (32), first chunk, n
//	6 evict     segment
//	7 whole     hash (32), size, time of change in ns, CRC-32C (4), time in ns when it was
//	            touched, if that is known: there, or to the end
//	8 forget    hash (32): a whole file that is gone
//	9 end       of the snapshot
//	10 close    the cache was closed in peace
//
// Where the segment with the highest number has gone, a snapshot names and evicts it, so that
// the number is never used again.
//
// # What survives
//
// A record goes to the kernel after the bytes that it is about: kill -9 loses at most
// what was still in the queue, some milliseconds. Segments first and the journal after
// them are synced when Options.SyncBytes have been written or Options.SyncEvery has
// passed, by Sync, and by Close. After a power loss what was synced is there; of the
// rest, what the journal names and the disk does not hold fails its checksum on the
// first read and is dropped. A chunk that eviction moved is synced in its new place
// before the old one goes. Whole files are synced before they get their name.
//
// # Eviction
//
// Two queues of segments: what is new goes to the first, probation, and stays there
// until that holds a tenth of all. Then its oldest segment goes. Chunks that were read
// again meanwhile move to the second queue; of the others only a trace is kept, and who
// comes back while it is there goes to the second queue at once. The oldest of the
// second queue get another round for every time they were used, three at most. So one
// scan over everything passes through a tenth of the cache and leaves the rest alone.
// Whole files stand in the second queue beside the segments. There is no clock in it.
//
// Before anything else go the chunks that are kept in a whole file, too (Spare): the oldest
// segment of which they are the most part goes, and what else is in it moves.
package disk
