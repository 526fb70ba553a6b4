package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/xetfs/xetfs/cache/logdedup"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
)

// NewReport returns a function that logs why an answer has failed: at most one line in ten seconds, with
// the number of others. Entries that an answer leaves out are another line. The log has no query of a request,
// which may be a signature. Stop writes the last number.
func NewReport(log *slog.Logger) (report func(r *http.Request, err error), stop func()) {
	limiter := logdedup.New(log.Handler(), logdedup.Options{})
	limited := slog.New(limiter)
	return func(r *http.Request, err error) {
		var left *hubserve.LeftOutError
		switch {
		case errors.As(err, &left):
			log.Warn("entries with names that are not UTF-8 are left out of listings", "event", "name_rejected",
				"path", r.URL.Path, "count", left.Count, "first", left.First)
		case !errors.Is(err, context.Canceled):
			limited.Warn("an answer has failed", "event", "answer_failed", "path", r.URL.Path, "err", err)
		}
	}, limiter.Close
}
