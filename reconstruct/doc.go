// Package reconstruct turns a byte range of a file into bytes.
//
// A file is a row of terms, each some chunks of a xorb. A range of the file is cut into
// pieces, one for each term it touches (Layout). The chunks that hold a piece are found
// (Cache.Narrow) and unpacked straight into the caller's buffer (Cache.Read). Nothing
// is fetched that the range does not need; fetching ahead goes on beside it (Handle).
//
// Where there is a disk cache, files can be laid down whole in it (Policy, Reader.Keep),
// after all of their bytes were compared with their hashes, in the background (keeper) or
// at once. From then on they are read from there, and nothing is asked of the origin.
//
// The package knows hashes, never names.
package reconstruct
