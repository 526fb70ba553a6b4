package document

import (
	"fmt"
	"io"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// WriteSigned prints the version that a command has signed.
func WriteSigned(w io.Writer, symbol string, row names.Row, key string, asJSON bool) error {
	if asJSON {
		doc := ui.NewDocument(w)
		doc.Field("symbol", symbol)
		doc.Field("version", row.Number)
		doc.Field("key", key)
		return doc.Close()
	}
	_, err := fmt.Fprintf(w, "signed %s@%d with key %s\n", ui.Printable(symbol), row.Number, key)
	return err
}
