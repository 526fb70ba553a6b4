// Package journal reads and writes lists of records that survive a writer that dies
// at any byte. The format is the log format of LevelDB, byte for byte: each can read
// what the other wrote.
//
// # Format
//
// A journal is a row of 32 KiB blocks, counted from its first byte; only the last
// block may be shorter. A block is a row of fragments without gaps ("chunk" or
// "physical record" elsewhere, but a chunk is something else here):
//
//	offset  size  field
//	     0     4  masked CRC-32C of type and payload, little-endian
//	     4     2  n, length of the payload, little-endian
//	     6     1  type: full 1, first 2, middle 3, last 4
//	     7     n  payload
//
// A record that fits in what is left of its block is one full fragment. Any other is
// cut at the block ends into first, middle …, last:
//
//	block 0                          block 1            block 2
//	┌────────┬────────┬─────────────┬──────────────────┬───────────┬───
//	│ full a │ full b │ first c     │ middle c         │ last c    │ full d …
//	└────────┴────────┴─────────────┴──────────────────┴───────────┴───
//
// A header needs 7 bytes. Where 6 or fewer are left in a block they are its trailer:
// zeros, written together with the next record, so a file may also end without them.
// Where exactly 7 are left, a header without payload goes there: full for an empty
// record, first for any other.
//
// A checksum is masked by rotating it right by 15 bits and adding 0xa282ead8, so that a
// journal inside a record does not take part in the checksum of its own checksums. The
// length is not covered. So a fragment that does not match its checksum may have any
// length, and a reader goes on behind it at the next block, where one must begin.
//
// # Recovery
//
// A journal is a sequence of changes: the ninth is worth nothing without the eighth. In
// Prefix mode a Reader returns the records before the first thing that is wrong, then
// ends, and tells what lies behind as one of five classes (Tail). What may be done with
// the file depends on that class alone. A Writer must never be put behind a tail that
// is not Clean: the torn fragment would swallow what follows it.
//
// In Resync mode a Reader returns every record that is still whole and reports what it
// passed over. That is for people with a broken file, never for recovery.
package journal
