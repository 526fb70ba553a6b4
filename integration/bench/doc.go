// Package bench measures whole mounts beside other file systems. README.md has the rows, the
// rules and how to read the table; results.md has the results. The script run, which
// `make bench-mount` calls, installs the peers and starts TestBenchMount.
package bench
