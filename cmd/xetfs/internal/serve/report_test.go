package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub"
)

// The log says once why answers have failed, and has no signature. Mistakes of clients and clients that
// leave are no failures.
func TestReport(t *testing.T) {
	var out strings.Builder
	report, stop := NewReport(slog.New(slog.NewTextHandler(&out, nil)))
	for _, err := range []error{context.Canceled, hub.ErrRepoNotFound, errors.New("damaged"), origin.ErrUnavailable} {
		h := hub.NewHandler(hub.HandlerOptions{Repos: failingRepos{err}, Report: report})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/org/m/resolve/main/f?Signature=secret", nil))
	}
	stop()
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "path=/org/m/resolve/main/f err=damaged") || strings.Contains(got, "secret") {
		t.Errorf("log:\n%s", got)
	}
}
