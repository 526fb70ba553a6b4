package origin

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

// ReadXorbInfo reads the footer of a xorb of a store. The name of the xorb proves it. The size of
// the object is also set after an error of the footer.
func ReadXorbInfo(ctx context.Context, s Store, x codec.Hash) (in *xorb.Info, size int64, err error) {
	err = Reread(ctx, func(ctx context.Context) (err error) {
		in, size, err = readXorbInfo(ctx, s, x)
		return err
	})
	return in, size, err
}

func readXorbInfo(ctx context.Context, s Store, x codec.Hash) (in *xorb.Info, size int64, err error) {
	k := names.XorbKey(x)
	if size, err = s.Size(ctx, k); err == nil {
		in, err = xorb.ReadInfo(ReaderAt(ctx, s, k), size)
	}
	if err == nil && in.Xorb != x {
		err = codec.Corrupt("xorb footer", 0, "it is the footer of xorb %s", in.Xorb)
	}
	if err != nil {
		return nil, size, fmt.Errorf("%s: %w", k, err)
	}
	return in, size, nil
}

// IsXorbFault reports whether an error says that a xorb is absent, damaged or without a footer.
func IsXorbFault(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, codec.ErrCorrupt) || errors.Is(err, xorb.ErrNoFooter)
}
