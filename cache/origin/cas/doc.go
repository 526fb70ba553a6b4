// Package cas reads files through the CAS API of the Hugging Face Hub, where a server returns plans
// instead of shards. Package casserve serves the same API.
//
//	Plan, Fetch, FetchRange      what the API answers: terms, and signed addresses of their chunks
//	DecodeV1, DecodeV2           a plan from its JSON, checked
//	DecodeBatch                  the plans of several files
//	TokenSource, Token           access to a server; StaticToken, TokenFunc
//	NewClient, Options           a Source over the API; Client
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
package cas
