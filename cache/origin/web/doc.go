// Package web reads the objects of a store from a plain web server: nginx, Apache, a CDN,
// anything that gives out files and honours Range.
//
// # What it asks
//
//	GET /tdata/xorb/07/0706….xorb      Range: bytes=a-b     ReadAt: one request
//	GET …                              Range: bytes=-n      ReadPart: the end of an object, and its size
//	HEAD …                                                  Size
//	GET /vref/%2AsUt%2Aorg%212Fmodel   If-None-Match: …     Get: a whole small object, if it changed
//	GET /xetfs.list                    If-None-Match: …     List
//
// The path of an object is its key, each byte escaped that is not a letter, a digit or one
// of . _ - / (keys have "*" and "!" too, which servers take either way; escaped is the form
// that nobody in between rewrites). Objects that do not lie where their keys say are found
// by the listing.
//
// # Listing
//
// A web server does not tell which files it has. So whoever writes to a store leaves a
// listing in it (origin.Listing): shards, xorbs, symbols, refs, snapshots. A catalog is read
// by its keys and needs no listing to open a symbol by name; to show all symbols, and to
// read a store without a catalog, it is needed. A listing may be behind the store by the
// moment between the last write and its own.
//
// # What is believed
//
// Nothing. An answer must be what was asked for: its range, its length, its encoding, and no
// web page that asks to log in. No more is read than that, headers included. Content is checked by those who know its hash. An
// answer that is cut off is continued where it ended if the object has not changed since,
// which the server proves by the same ETag.
//
// # Waiting
//
// An attempt ends when nothing connects within 5 seconds, or nothing (or hardly anything)
// comes for 10; then it is origin.ErrUnavailable, and wrap.RetryStore tries again, over a new
// connection. wrap.Limits bound all attempts together; the Store tells them of each answer
// (origin.Answered). All else ends with its context, the wait for a connection that others use
// included. Data and names go over connections of their own, so that who
// looks around never waits for those who wait for data.
package web
