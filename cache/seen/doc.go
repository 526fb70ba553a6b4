// Package seen remembers the hashes of chunks that were unpacked, where no proof of them is known.
//
// New returns a Table. Note records a hash, Set replaces it, Get and GetTentative return it, and
// Drop forgets hashes. Drops records which chunks were dropped.
package seen
