// Package connlimit limits the connections of a server, so that hostile or stalled clients do not keep
// out others.
//
//	New, Listener  a listener with at most that many connections
//
// A connection above the limit closes the one that has moved no byte for the longest time, of the
// client with the most connections.
package connlimit
