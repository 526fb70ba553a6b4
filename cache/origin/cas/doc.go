// Package cas reads and serves files through the CAS API of the Hugging Face Hub, where a server
// returns plans instead of shards.
//
//	Plan, Fetch, FetchRange      what the API answers: terms, and signed addresses of their chunks
//	DecodeV1, DecodeV2           a plan from its JSON, checked
//	DecodeBatch                  the plans of several files
//	TokenSource, Token           access to a server; StaticToken, TokenFunc
//	NewClient, Options           a Source over the API; Client
//	NewContent, NewMirror        what a server has to serve; Content, File, StoreOptions
//	InfoSource, PlaceSource      what NewContent and NewMirror read
//	NewSigner, Signer            tokens of a server, ErrToken; presigned URLs, Transfer
//	NewHandler, HandlerOptions   the API; Uploads has the write side
//	Fail, HeaderMessage          the answer to an error; ErrChanged
//
// # Client
//
// A plan has the terms of a file and a presigned address for each range of chunks. The client
// stores plans without addresses in the disk cache. Addresses are in memory only, and never in
// errors. They are renewed before they expire, or after a 403, once for all readers. If their server is
// unavailable, a new plan may name another one.
//
// Plans have no lengths of chunks. The client learns them from the headers of chunks, and from
// plans for parts of a file, which the server trims to whole chunks. A first random read requests
// such a plan, and at the same time the bytes where its chunk probably is. A server that refuses
// parts of a signed range gets requests for whole signed ranges only, after one try. Reads in a row
// share the plans of windows, which are requested before they are needed.
//
// # Handler
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
package cas
