// Package nowait reads from files only the bytes in the page cache. It never waits for a disk.
package nowait
