package codec

import (
	"errors"
	"fmt"
)

// ErrCorrupt is the kind of every error about data that violates its format or its hash.
var ErrCorrupt = errors.New("corrupt data")

// A CorruptError says which format broke, where and how. It is an ErrCorrupt.
type CorruptError struct {
	Format string // "chunk header", "shard footer", "journal"
	Offset int64  // of the first wrong byte, within the object
	Reason string // lower case, no full stop: "version 7 is not known"
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s at byte %d: %s", e.Format, e.Offset, e.Reason)
}

// Unwrap makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// Corrupt returns a CorruptError. The format and its arguments give the reason.
func Corrupt(what string, offset int64, format string, args ...any) error {
	return &CorruptError{Format: what, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// A ChunkError says at which chunk of a xorb something went wrong.
type ChunkError struct {
	Chunk int // index in the xorb
	Err   error
}

func (e *ChunkError) Error() string { return fmt.Sprintf("chunk %d: %v", e.Chunk, e.Err) }

// Unwrap returns what went wrong.
func (e *ChunkError) Unwrap() error { return e.Err }
