// Package recent keeps the most recently used values open, so that a value that is used often
// is opened once.
//
// In order of use: New, Find, Add, Put, Forget, CloseUnused, Close. A map without reference counts and idle
// time is cache/lru.
package recent
