// Package integration tests the whole: the program as users start it, on a real mount.
//
// The tests build xetfs once, mount stores with it and read them back by system calls
// and by ordinary programs. They need /dev/fuse; without it they are skipped, or fail
// where CI=true. Programs that they call beside Go are installed by setup.sh.
//
// What a test is made of:
//
//	mount_test.go    starts and ends `xetfs mount`, reads its log
//	reader_test.go   reads a file and holds every read to invariants I1 to I3
//	store_test.go    makes stores of given content, of any size, with the plain encoders
//	content_test.go  content that is the same on every machine: text, weights, noise
//	slow_test.go     a folder whose files stop answering when told to
//	diskcache_test.go  files of known content on a server, and the folder of a disk cache
//
// layers_test.go stands apart: it holds the import rules of the house.
package integration
