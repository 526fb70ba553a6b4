package writer

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// nestedTries bounds how long the symbol with the shorter name waits for the other writer.
const nestedTries = 5

// yieldNested deletes the first version of a symbol again if a nested symbol became live
// during the publish, and returns the NestedError.
//
// Two first publishes of me and me/proj can both find no nested symbol and then swap. Each
// looks again after its own swap, so the later one sees the other. The hidden symbol yields
// at once. The other symbol waits for that, and yields if the hidden one stays: its writer
// was faster and has returned, or was killed. Both may yield; they never both stay. A writer
// that is killed before it looks leaves a nested symbol, which catalog check reports.
func (w *Writer) yieldNested(ctx context.Context, v *names.Version) error {
	var nested *catalog.NestedError
	for try := 1; ; try++ {
		err := w.catalog.FindNested(ctx, v.Symbol)
		if err != nil && !errors.As(err, &nested) {
			w.o.Logger.Warn("nested symbols cannot be looked for", "event", "nested_symbol", "symbol", v.Symbol, "err", err)
			return nil // the version is published
		}
		if err == nil {
			return nil
		}
		if nested.Hidden == v.Symbol || try == nestedTries {
			break
		}
		if err := w.pause(ctx, try); err != nil {
			break
		}
	}
	err := w.Delete(context.WithoutCancel(ctx), v.Symbol, v.Number)
	if err != nil {
		return fmt.Errorf("%s: %w; version %d was published and cannot be deleted: %v", v.Symbol, nested, v.Number, err)
	}
	return fmt.Errorf("%s: %w", v.Symbol, nested)
}
