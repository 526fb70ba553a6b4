// Package cache keeps what was fetched once near, and lets concurrent readers share
// what they need at the same time.
//
// Packed chunks come up from a Source and stay packed until the last moment. A chunk
// that lies wholly inside what a reader asked for is unpacked straight into the
// reader's buffer. Only the chunks at the two ends of a read, of which the reader
// wants a part, go through memory: unpacked once for all who want them now, and kept,
// because the next read will begin in the middle of them. Where the origin is far, all
// chunks that come from it are kept.
//
// What comes from a far origin goes on to the disk, packed as it came, when its readers
// are done with it and each of its chunks was compared with its hash. From there it is as
// near as a folder. What turns out to be damaged there is forgotten and asked for again,
// and no reader hears of it.
//
// A cache may be slow or empty. It may not be wrong, and it may not be the reason for
// an error.
package cache
