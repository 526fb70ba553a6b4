// Package statcache remembers size, times, inode and content of files that a publish has
// read. The next publish of the same folder reads only changed files.
//
//	NewPath          the place of the file for one catalog, symbol and folder
//	Open, File.Find  the entries of the last publish
//	Create           a new file beside the old one
//	Update.Add       adds an entry, in the order of keys
//	Update.Replace   replaces the old file
//	StatInfo.Racy    reports whether a later change could be invisible
//
// The file is a journal (codec/journal). A damaged or missing file costs time only. The first
// record is a line of JSON (head). Every other record has some entries in the order of their
// keys, about 64 KiB of them. With s for the key before, which is empty at the start of a
// record, an entry is
//
//	 uvarint  bytes that its key shares with s
//	 uvarint  length of the rest, then the rest
//	 uvarint  size, at least 1
//	 svarint  modification time, nanoseconds since 1970
//	 svarint  change time, less the modification time
//	 uvarint  inode
//	 uvarint  device
//	 uvarint  fields that follow: 1 content, 2 SHA-256
//	          content, of a file of 256 bytes or fewer      1
//	32 bytes  Xet hash of the file                          not 1
//	 uvarint  i, number of the shard in this file           not 1
//	32 bytes  hash of the shard                             not 1, i for the first time
//	 uvarint  offset of the File Info block in it / 48      not 1
//	32 bytes  SHA-256                                       2
//
// Shards are numbered from 0 in the order of their first use.
package statcache
