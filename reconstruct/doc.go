// Package reconstruct turns a byte range of a file into bytes.
//
// A file is a row of terms, each some chunks of a xorb. A range of the file is cut into
// pieces, one for each term it touches (Layout). The chunks that hold a piece are found
// (Cache.Narrow) and unpacked straight into the caller's buffer (Cache.Read). Nothing
// is fetched that the range does not need; fetching ahead goes on beside it (Handle).
//
// The package knows hashes, never names.
package reconstruct
