// Package sequence detects readers that open the files of a tree in order. It announces the next
// files, so that their content is fetched before their open. Or it pushes them, so that the kernel has
// their content before their open.
//
//	New               returns a Detector that announces files, one for a mount
//	NewPushing        returns a Detector that pushes files instead
//	Detector.Listed   records the open of a directory
//	Detector.Opened   records the open of a file that may be announced
//	Detector.Read     records a read up to the end of a file that may be pushed
//	Detector.Settled  reports whether all work is done
//	Detector.End      ends the windows of a tree that is no longer shown
//	Detector.Close    ends all
//
// Two orders are known: that of listings (tar, grep), and that of inode numbers (cp; programs
// that use fts, in directories above 10,000 entries). Three files of a directory in one of the
// orders open a window of announcements, and two open one of pushes. The window holds 4 files at
// first and doubles up to 256. It closes when the order breaks, when it is idle, or for another reader.
//
// A run of ascending files is compared with the tree before it opens a window. While comparisons fail,
// a growing number of opens outside windows is skipped: programs that read in random order pay little.
//
// A window first ends with its directory. Once the reader opens the first file of the next
// directory of a depth-first walk, the window follows the walk.
//
// # Pushes
//
// A reader opens pushed files without a message. So a window of pushes has a last file that is not
// pushed: its read continues the window. The files in the window, up to 128, have at most 4 MiB:
//
//	… reader | 1 file left to the reader | 4 to 128 pushed files | 1 file | …
//
// The read of a pushed file means that the kernel has dropped it, and closes the window. A window does
// not extend to the next directory before a file of that is read, because the kernel has no nodes yet.
//
// Detection adds no requests. It reads index pages that the reader has looked up or listed.
package sequence
