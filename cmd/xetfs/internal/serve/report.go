package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/xetfs/xetfs/cache/logdedup"
)

// NewReport returns a function that logs why an answer has failed: at most one line in ten seconds, with
// the number of others. The log has no query of a request, which may be a signature. Stop writes the last
// number.
func NewReport(log *slog.Logger) (report func(r *http.Request, err error), stop func()) {
	limiter := logdedup.New(log.Handler(), logdedup.Options{})
	limited := slog.New(limiter)
	return func(r *http.Request, err error) {
		if !errors.Is(err, context.Canceled) {
			limited.Warn("an answer has failed", "event", "answer_failed", "path", r.URL.Path, "err", err)
		}
	}, limiter.Close
}
