package names

import (
	"fmt"
	"time"

	"github.com/xetfs/xetfs/codec/page"
)

// A Row is one live version of a symbol: where its tree is.
type Row struct {
	Number  uint64
	Time    time.Time
	Root    page.Hash
	Entries int64
	Bytes   int64
}

// AsOf is how a user picks a version of a symbol. The zero value is the newest.
type AsOf struct{}

// ParseAsOf reads what stands behind the @ of SYMBOL@AS_OF. Only trees without a
// catalog can be opened so far, and those have one version: the newest.
func ParseAsOf(s string) (AsOf, error) {
	if s != "" && s != "latest" {
		return AsOf{}, fmt.Errorf("version %.80q: a folder without a catalog has one version, latest", s)
	}
	return AsOf{}, nil
}
