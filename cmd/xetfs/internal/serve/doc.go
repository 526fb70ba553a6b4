// Package serve runs a handler as an HTTP server that hostile or stalled clients cannot block.
//
//	Listen                  a TCP listener for HOST:PORT
//	Counter, Stats          requests and bytes, also as JSON at StatsPath
//	Access, ReadKey         what a token of a file may read; a key in a file
//	Site                    several APIs on one address
//	Repos, Content          symbols of a catalog as repositories of the Hub API
//	CommitID                the commit of a version
//	Xet                     the CAS API, and tokens for it
//	Writer, WriterOptions   commits of clients, from their Uploads
//	Mirror                  an upstream behind a disk cache, for the CAS API
//	Owner                   mirrors of all repositories of an owner
//	TLS                     the certificate and key in two files
//	Run, Options            serves until its context ends
//
// Files of tokens and certificates may change while the server runs. It uses the new content
// within a second, for new requests and new connections.
//
// All connections together have a limit. A connection above the limit closes the one that has
// moved no byte for the longest time, of the client with the most connections. The package
// prints nothing.
package serve
