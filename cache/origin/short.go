package origin

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// Short returns the error of a store for n bytes at off of an object of size bytes.
func Short(k names.Key, off int64, n int, size int64) error {
	missing := off + int64(n) - max(off, size)
	return fmt.Errorf("%q: %w", k, codec.Corrupt("object", size, "it ends here, %d more bytes are requested", missing))
}

// Long returns the error of a store for an object above the limit of its kind.
func Long(k names.Key, limit int64) error {
	return fmt.Errorf("%q: %w", k, codec.Corrupt("object", limit, "it continues here"))
}

// maxData is the maximum size of a shard or xorb for Get. Larger shards are read in parts.
const maxData = 128 << 20

// MaxObject returns the maximum size in bytes of an object for Get, by its kind. A Store checks
// the size before it allocates memory.
func MaxObject(k names.Key) int64 {
	p, err := names.ParseKey(k)
	if strings.HasPrefix(string(k), listing.PartsFolder) {
		return listing.MaxPart
	}
	if err != nil {
		return listing.MaxSize
	}
	switch p.Kind {
	case names.PageKind:
		return page.MaxSize
	case names.RefKind, names.SettingsKind:
		return names.MaxDocument
	case names.VersionKind:
		return names.MaxVersion
	case names.ShardKind, names.XorbKind:
		return maxData
	}
	return names.MaxLongDocument
}

// ReadBounded reads r to its end, but at most most bytes. It first allocates expect bytes. Then
// memory grows with the bytes that arrive.
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
