// Package casserve serves files through the CAS API of the Hugging Face Hub. Its client is package
// cas.
//
//	NewContent, NewMirror        the data of a handler; Content, File, Span, StoreOptions
//	InfoSource, PlaceSource      what NewContent and NewMirror read
//	NewSigner, Signer            tokens of a server, ErrToken; presigned URLs, Transfer
//	NewHandler, HandlerOptions   the API; Uploads has the write side
//	Fail, HeaderMessage          the answer to an error; ErrChanged
//
// The routes:
//
//	GET  /v2/reconstructions/HASH        plan of a file, or of a Range of it
//	GET  /v1/reconstructions/HASH        the same in the older form
//	GET  /v1/reconstructions?file_id=H   plans of several files
//	HEAD /v1/files/HASH                  size of a file
//	HEAD /v1/xorbs/default/HASH          size of a stored xorb
//	GET  /v1/transfer/default/HASH?…     signed ranges of a xorb
//	POST /v1/xorbs/default/HASH          a new xorb
//	POST /v1/shards, /v2/shards          a new shard
//	GET  /v1/chunks/default/HASH         shard of stored chunks near a chunk
//
// A handler sends only proven bytes. A chunk is unpacked and compared with its hash when it is
// sent for the first time. A keyed sum over its packed bytes is then stored in memory. Later
// reads are compared with the sum, all bytes of them, each time. An answer whose bytes turn out
// to be wrong ends early, so that the client sees an error.
package casserve
