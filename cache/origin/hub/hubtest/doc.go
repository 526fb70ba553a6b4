// Package hubtest has a small Hub for tests, with the faults of a real one. Its repositories are
// in memory, and the content of LFS files is on a second server.
package hubtest
