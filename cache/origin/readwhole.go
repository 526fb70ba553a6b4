package origin

import (
	"context"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// WholeReader is a Store that reads an object of any length to its end in one request.
type WholeReader interface {
	// ReadWhole calls take with the bytes of object k from off on, in order, and with the
	// size of the object, at least once. An error of take ends it. The bytes are valid
	// during the call.
	ReadWhole(ctx context.Context, k names.Key, off int64, take func(b []byte, size int64) error) error
}

const (
	localPiece  = 256 << 10
	remotePiece = 8 << 20
)

// ReadWhole is ReadWhole of any store. A store without it is read in large pieces.
func ReadWhole(ctx context.Context, s Store, k names.Key, off int64, take func(b []byte, size int64) error) error {
	if w, ok := s.(WholeReader); ok {
		return w.ReadWhole(ctx, k, off, take)
	}
	if p, ok := s.(PartReader); ok {
		return readParts(ctx, p, k, off, take)
	}
	size, err := s.Size(ctx, k)
	if err != nil || off >= size {
		return orTake(err, size, take)
	}
	piece := int64(remotePiece)
	if Local(s) {
		piece = localPiece
	}
	buf := make([]byte, min(piece, size-off))
	for ; off < size; off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), size-off)]
		if err := s.ReadAt(ctx, k, buf, off); err != nil {
			return err
		}
		if err := take(buf, size); err != nil {
			return err
		}
	}
	return nil
}

// orTake returns err or, if it is nil, the result of take for no bytes.
func orTake(err error, size int64, take func(b []byte, size int64) error) error {
	if err != nil {
		return err
	}
	return take(nil, size)
}

func readParts(ctx context.Context, s PartReader, k names.Key, off int64, take func(b []byte, size int64) error) error {
	for {
		part, err := s.ReadPart(ctx, k, off, remotePiece)
		if err = orTake(err, part.Size, func([]byte, int64) error { return take(part.Bytes, part.Size) }); err != nil {
			return err
		}
		off += int64(len(part.Bytes))
		if off >= part.Size {
			return nil
		}
		if len(part.Bytes) == 0 {
			return codec.Corrupt("object", off, "it ends here, its size is %d", part.Size)
		}
	}
}
