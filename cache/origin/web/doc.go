// Package web reads the objects of a store from a plain web server that honours Range: nginx,
// Apache or a CDN. It also has the handler of such a server.
//
// Package fetch sends the requests and checks the answers.
//
//	Check        the problem of an address
//	Open, Store  the store at an address
//	NewHandler   the server side: the objects of a store under their keys
//
// # Requests
//
//	GET /tdata/xorb/07/0706….xorb      Range: bytes=a-b     ReadAt: one request
//	GET …                              Range: bytes=-n      ReadPart: the end of an object, and its size
//	HEAD …                                                  Size
//	GET /vref/%2AsUt%2Aorg%212Fmodel   If-None-Match: …     Get: a whole small object, if it changed
//	GET /xetfs.list                    If-None-Match: …     List
//	GET /xetfs.parts/5891…                                  List of a large store
//
// The path of an object is its key, each byte escaped that is not a letter, a digit or one of .
// _ - / characters. Keys contain "*" and "!", too. Servers accept both spellings, but a proxy
// may rewrite the plain one. The listing has the paths of objects that are not at the path of
// their key.
//
// # Credentials
//
// Options.Authorization returns the token or password for the server. After a 401 it is called
// again, so that a token can be rotated. If the same token is refused again, no request follows
// for 1 s. The pause doubles each time, up to 64 s.
//
// # Listing
//
// A web server has no standard way to list its files. Each writer of a store therefore leaves a
// listing in it (package listing): shards, xorbs, symbols, refs, snapshots. A catalog is read by
// its keys and needs no listing to open a symbol by name. A list of all symbols and a store
// without a catalog need the listing. A listing may miss the changes of a writer that has not
// written its own listing yet.
package web
