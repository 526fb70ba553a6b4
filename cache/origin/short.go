package origin

import (
	"errors"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// Short is the error of a backend for n bytes at off of an object that has only size.
func Short(k names.Key, off int64, n int, size int64) error {
	missing := off + int64(n) - max(off, size)
	return fmt.Errorf("%q: %w", k, codec.Corrupt("object", size, "it ends here, %d more bytes are asked for", missing))
}

// Long is the error of a backend for an object that is longer than any may be.
func Long(k names.Key, limit int64) error {
	return fmt.Errorf("%q: %w", k, codec.Corrupt("object", limit, "it continues here"))
}

// maxData is the most bytes of a shard or xorb that Get returns. Larger shards exist:
// they are read in parts.
const maxData = 128 << 20

// MaxObject returns how many bytes an object may have that Get returns, by its kind. A
// Store compares the size with it before it allocates anything.
func MaxObject(k names.Key) int64 {
	p, err := names.ParseKey(k)
	if err != nil {
		return listing.MaxSize
	}
	switch p.Kind {
	case names.PageKind:
		return page.MaxSize
	case names.RefKind, names.VersionKind, names.SettingsKind:
		return names.MaxDocument
	case names.ShardKind, names.XorbKind:
		return maxData
	}
	return names.MaxLongDocument
}

// ReadBounded reads r to its end, but at most most bytes. The first allocation is for
// expect bytes; from there on memory grows with the bytes that arrive.
func ReadBounded(r io.Reader, expect, most int64) ([]byte, error) {
	b := make([]byte, 0, min(most, max(expect, 512)))
	for int64(len(b)) < most {
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(most, 2*int64(cap(b))))
			copy(grown, b)
			b = grown
		}
		got, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+got]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}
