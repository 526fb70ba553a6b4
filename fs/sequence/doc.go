// Package sequence detects readers that open the files of a tree in order. It announces the next
// files, so that their content is fetched before their open.
//
//	New               returns a Detector, one for a mount
//	Detector.Listed   records the open of a directory
//	Detector.Opened   records the open of a file
//	Detector.End      ends the windows of a tree that is no longer shown
//	Detector.Close    ends all
//
// Two orders are known: that of listings (tar, grep), and that of inode numbers (cp; programs
// that use fts, in directories above 10,000 entries). Three files of a directory in one of the
// orders open a window. The window holds 4 files at first and doubles up to 256. It closes when
// the order breaks, when it is idle, or for another reader.
//
// A window first ends with its directory. Once the reader opens the first file of the next
// directory of a depth-first walk, the window follows the walk.
//
// Detection adds no requests. It reads index pages that the reader has looked up or listed.
package sequence
