// Package web reads the objects of a store from a plain web server that honours Range: nginx,
// Apache or a CDN.
//
// # What it asks
//
//	GET /tdata/xorb/07/0706….xorb      Range: bytes=a-b     ReadAt: one request
//	GET …                              Range: bytes=-n      ReadPart: the end of an object, and its size
//	HEAD …                                                  Size
//	GET /vref/%2AsUt%2Aorg%212Fmodel   If-None-Match: …     Get: a whole small object, if it changed
//	GET /xetfs.list                    If-None-Match: …     List
//
// The path of an object is its key, each byte escaped that is not a letter, a digit or one of .
// _ - / characters. Keys contain "*" and "!", too. Servers accept both spellings, but a proxy
// may rewrite the plain one. The listing has the paths of objects that are not at the path of
// their key.
//
// # Listing
//
// A web server has no standard way to list its files. Each writer of a store therefore leaves a
// listing in it (package listing): shards, xorbs, symbols, refs, snapshots. A catalog is read by
// its keys and needs no listing to open a symbol by name. A list of all symbols and a store
// without a catalog need the listing. A listing may miss the changes of a writer that has not
// written its own listing yet.
//
// # What is believed
//
// Nothing. An answer must have the requested range, length and encoding. It must not be a web
// page, for example of a login. No more bytes than expected are read, headers included. The
// caller checks the content, because it knows the hash. An interrupted answer is continued
// where it ended if the object is unchanged, which the server proves by the same ETag.
//
// # Waiting
//
// An attempt ends without a connection within 5 seconds, or with hardly any byte for 10
// seconds. The error is then origin.ErrUnavailable, and wrap.RetryStore retries over a new
// connection. wrap.Limits bound all attempts together; the Store reports each answer to them
// (origin.Answered). All other waits end with their context, also the wait for a connection in
// use. Data and names have separate connections, so that a reader of names never waits for
// data.
package web
