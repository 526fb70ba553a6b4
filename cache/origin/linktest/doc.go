// Package linktest puts a bad network before a server. New returns a Link, a TCP proxy that
// delays, limits and damages the bytes of the server. Link.Faults may change at any time.
package linktest
