package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/warm"
)

// A WarmResult is the outcome of warm.
type WarmResult struct {
	warm.Result
	All     warm.Selection
	Damaged int64  // shards that were left out
	Fetched *int64 // bytes; nil: unknown, because a mount fetched them
	Took    time.Duration
}

// WriteWarm prints the summary of warm. It returns ui.ErrDamage if files failed or shards are
// damaged.
func WriteWarm(w io.Writer, r WarmResult, asJSON bool) error {
	var err error
	if asJSON {
		doc := ui.NewDocument(w)
		doc.Field("files", r.All.Files)
		doc.Field("bytes", r.All.Bytes)
		doc.Field("already", r.Already)
		doc.Field("fetched", r.Fetched)
		doc.Field("failed", r.Failed)
		doc.Field("left_shards", r.Damaged)
		doc.Field("seconds", r.Took.Seconds())
		err = doc.Close()
	} else {
		_, err = io.WriteString(w, warmText(r))
	}
	if err == nil && r.Failed+r.Damaged > 0 {
		return ui.ErrDamage
	}
	return err
}

func warmText(r WarmResult) string {
	var b strings.Builder
	done := "done"
	if r.Fetched != nil {
		done = ui.HumanSize(*r.Fetched) + " fetched"
	}
	fmt.Fprintf(&b, "%s with %s, %d of them there already; %s in %v", ui.Plural(r.All.Files, "file"),
		ui.HumanSize(r.All.Bytes), r.Already, done, r.Took.Round(time.Millisecond))
	if r.Failed > 0 {
		fmt.Fprintf(&b, "; %d failed", r.Failed)
	}
	if r.Damaged > 0 {
		fmt.Fprintf(&b, "; %s left out", ui.Plural(r.Damaged, "shard"))
	}
	b.WriteByte('\n')
	return b.String()
}
