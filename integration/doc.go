// Package integration tests the whole program on real mounts, as users start it.
//
// The tests build xetfs once, mount stores with it and read the mounts by system calls and by
// ordinary programs. They need /dev/fuse. Without /dev/fuse they are skipped, and fail if
// CI=true. The script setup.sh installs the programs that the tests call.
//
// Package internal/harness has the helpers: mounts, servers, stores, content. Package bench
// measures the mount, and package interop runs other Xet clients. These files serve many tests:
//
//	reader_test.go     reads a file and checks each read for invariants I1 to I3
//	slow_test.go       a folder whose files do not answer while a gate is shut
//	diskcache_test.go  files of known content on a server, and the folder of a disk cache
//	trees_test.go      compares trees, changes trees
//
// Two tests check the source: layers_test.go its imports and sizes, prose_test.go its comments,
// errors and help.
package integration
