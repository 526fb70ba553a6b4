// Package vfs is the file system below the disk cache. Tests replace it by a disk that fails,
// hangs, or loses unsynced bytes at a power loss.
//
// API in order of use:
//
//	OpenDir                 opens the folder of a cache
//	Dir.Lock                makes this process the only writer
//	Dir.List, Stat, Space   inspect the folder and its file system
//	Dir.Create, Open        return a File
//	File.TryRead            reads the page cache and never waits for the disk
//	File.Sync, Dir.SyncDir  make bytes and names durable
//	WriteFile               replaces a small file and verifies it
//	Dir.Probe               reports whether a suspended disk works again
//
// ErrForeign, ErrLocked and ErrRefused are the reasons to leave a file or folder alone.
package vfs
