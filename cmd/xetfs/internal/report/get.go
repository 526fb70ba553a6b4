package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/extract"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A GetResult is the outcome of get.
type GetResult struct {
	extract.Result
	Damaged int64 // shards that were left out
	Fetched int64 // bytes
	Took    time.Duration
}

// WriteGet prints the summary of get. It returns ui.ErrDamage if entries failed or shards are
// damaged.
func WriteGet(w io.Writer, r GetResult, asJSON bool) error {
	var err error
	if asJSON {
		doc := ui.NewDocument(w)
		doc.Field("folders", r.Folders)
		doc.Field("files", r.Files)
		doc.Field("links", r.Links)
		doc.Field("bytes", r.Bytes)
		doc.Field("already", r.Already)
		doc.Field("written", r.Written)
		doc.Field("fetched", r.Fetched)
		doc.Field("failed", r.Failed)
		doc.Field("left_shards", r.Damaged)
		doc.Field("seconds", r.Took.Seconds())
		err = doc.Close()
	} else {
		_, err = io.WriteString(w, getText(r))
	}
	if err == nil && r.Failed+r.Damaged > 0 {
		return ui.ErrDamage
	}
	return err
}

func getText(r GetResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s with %s, %d of them complete before; %s written in %v", ui.Plural(r.Files, "file"),
		ui.HumanSize(r.Bytes), r.Already, ui.HumanSize(r.Written), r.Took.Round(time.Millisecond))
	if r.Failed > 0 {
		fmt.Fprintf(&b, "; %d failed", r.Failed)
	}
	if r.Damaged > 0 {
		fmt.Fprintf(&b, "; %s left out", ui.Plural(r.Damaged, "shard"))
	}
	b.WriteByte('\n')
	return b.String()
}
