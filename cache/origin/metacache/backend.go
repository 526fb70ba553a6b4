package metacache

// A Backend stores small values under hashes on a local disk. It may lose any value. It returns
// only bytes that were put under the same hash. It is safe for concurrent use, and no method
// waits for long.
type Backend interface {
	Page(h [32]byte) ([]byte, bool)
	PutPage(h [32]byte, b []byte) error
	ForgetPage(h [32]byte)
}
