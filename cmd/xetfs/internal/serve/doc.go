// Package serve runs a handler as an HTTP server that hostile or stalled clients cannot block.
//
//	Listen            a TCP listener for HOST:PORT
//	Counter, Stats    requests and bytes, also as JSON at StatsPath
//	Run               serves until its context ends
//
// All connections together have a limit. A connection above the limit closes the one that has
// moved no byte for the longest time, of the client with the most connections. The package
// prints nothing.
package serve
