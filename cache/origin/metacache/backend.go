package metacache

// A Backend keeps small things that were asked of a far store near for good. It may forget
// everything, and what it returns are bytes that were once put under that hash. It is
// safe for concurrent use, and no method waits for long.
type Backend interface {
	Page(h [32]byte) ([]byte, bool)
	PutPage(h [32]byte, b []byte) error
	ForgetPage(h [32]byte)
}
