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
// A header needs 7 bytes. Six or fewer remaining bytes of a block are its trailer: zeros that are
// written with the next record. A file may also end without them. A header without payload fills exactly
// seven remaining bytes: full for an empty record, first for any other.
//
// A checksum is masked: rotated right by 15 bits, plus 0xa282ead8. So a journal inside a record does
// not take part in the checksum of its own checksums. The checksum does not cover the length. A
// fragment with a wrong checksum may have any length, so a reader continues at the next block.
//
// # Recovery
//
// A journal is a sequence of changes: the ninth has no value without the eighth. In Prefix mode a
// Reader returns the records before the first defect, then one of five classes for the rest (Tail).
// The class alone decides about the file. A Writer must never continue behind a tail that is not
// Clean: the torn fragment would swallow the next record.
//
// In Resync mode a Reader returns every intact record and reports the gaps. This mode is for people
// with a broken file, never for recovery.
package journal
