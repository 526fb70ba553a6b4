// Package nowait reads only the bytes of files that are in the page cache. Such a read never waits
// for a disk. Fetch fills the page cache.
package nowait
