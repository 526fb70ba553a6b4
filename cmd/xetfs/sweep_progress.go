package main

import (
	"fmt"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// progressText describes the progress of a sweep or check.
func progressText(p sweep.Progress, now time.Time) string {
	switch {
	case !p.Waiting.IsZero():
		left := max(0, p.Waiting.Sub(now)).Round(time.Second)
		return fmt.Sprintf("%s: until %s, %s left", p.Doing, p.Waiting.Local().Format(time.TimeOnly), left)
	case p.Total > 0:
		return fmt.Sprintf("%s: %d of %s", p.Doing, p.Done, ui.Plural(p.Total, "object"))
	}
	return fmt.Sprintf("%s: %s", p.Doing, ui.Plural(p.Done, "object"))
}
