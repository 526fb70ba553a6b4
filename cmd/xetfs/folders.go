package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Limits of the Go heap of pack and publish. The buffers of the packer are long-lived and the
// rest of the garbage is small, so frequent collections cost little.
const (
	packMemory     = 400 << 20
	packPercent    = 20
	publishPercent = 40
)

// checkPackFolder refuses an absent folder, and a folder inside the store.
func checkPackFolder(store, folder string) error {
	if _, err := os.Stat(folder); err != nil {
		return fmt.Errorf("%s: %w", folder, ui.Reason(err))
	}
	in, err := ingest.IsInside(folder, store)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, ui.Reason(err))
	}
	if in {
		return usageError{fmt.Errorf("%s is inside the store %s, which would then hold itself; give the store a folder of its own", folder, store)}
	}
	return nil
}

// ownStore returns the folder of a local STORE, which is not packed into itself.
func ownStore(path string) []ingest.OwnFolder {
	if stack.IsRemote(path) {
		return nil
	}
	return []ingest.OwnFolder{{Path: path, What: "the store itself"}}
}

// writeError returns the error of a command that writes to STORE. An error of the store itself
// has its path. A local store that cannot be written is not unreachable.
func writeError(store string, err error) error {
	switch {
	case errors.As(err, new(*origin.LocalError)):
		return fmt.Errorf("%s: %w", store, err)
	case errors.Is(err, origin.ErrUnavailable) && !stack.IsRemote(store):
		return fmt.Errorf("%s: %v", store, err) //nolint:errorlint // see above
	}
	return err
}

// A compressFlag is --compress.
type compressFlag = enumFlag[[]xorb.Scheme]

func newCompress() compressFlag {
	type schemes = choice[[]xorb.Scheme]
	return newEnum("SCHEME", schemes{"auto", nil}, schemes{"best", []xorb.Scheme{xorb.LZ4, xorb.ByteGrouping4LZ4}},
		schemes{"none", []xorb.Scheme{xorb.None}}, schemes{"lz4", []xorb.Scheme{xorb.LZ4}}, schemes{"bg4-lz4", []xorb.Scheme{xorb.ByteGrouping4LZ4}})
}
