// Package report prints the results of commands, as lines of text or as one JSON object.
//
//	Faults                                the report of verify
//	Findings                              the report of catalog check
//	SweepProgress, WriteSweep             catalog sweep
//	NewPack, Pack                         pack; Folder counts skipped and private files
//	NewPublish, Publish                   publish
//	WriteWarm, WarmResult                 warm
//	WriteCacheStatus, WriteCacheEntries   the disk cache
//	CacheFaults, WriteFreed               cache verify, trim and clear
//
// Faults are printed while a check runs, and counts at the end. The names of all JSON fields
// are a promise.
package report
