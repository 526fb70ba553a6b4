package origin

import (
	"fmt"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// Short is the error of a backend for n bytes at off of an object that has only size.
func Short(k names.Key, off int64, n int, size int64) error {
	missing := off + int64(n) - max(off, size)
	return fmt.Errorf("%q: %w", k, codec.Corrupt("object", size, "it ends here, %d more bytes are asked for", missing))
}

// Long is the error of a backend for an object that is longer than any may be.
func Long(k names.Key, limit int64) error {
	return fmt.Errorf("%q: %w", k, codec.Corrupt("object", limit, "it goes on here"))
}
