package signature

import (
	"fmt"

	"github.com/xetfs/xetfs/codec/names"
)

// Namespace is that of all signatures, as in ssh-keygen -Y sign -n.
const Namespace = "xetfs"

// Text returns the bytes that are signed for one version of a symbol in a catalog.
func Text(catalogID, symbol string, row names.Row) []byte {
	return fmt.Appendf(nil, "xetfs version 1\n%s\n%s\n%d\n%d\n%v\n%d\n%d\n",
		catalogID, symbol, row.Number, row.Time.UnixNano(), row.Identity, row.Entries, row.Bytes)
}
