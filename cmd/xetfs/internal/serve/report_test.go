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
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
)

// The log says once why answers have failed, and has no signature. Mistakes of clients and clients that
// leave are no failures, and neither are entries that an answer leaves out.
func TestReport(t *testing.T) {
	var out strings.Builder
	report, stop := NewReport(slog.New(slog.NewTextHandler(&out, nil)))
	for _, err := range []error{context.Canceled, hub.ErrRepoNotFound, errors.New("damaged"), origin.ErrUnavailable} {
		h := hubserve.NewHandler(hubserve.HandlerOptions{Repos: failingRepos{err}, Report: report})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/org/m/resolve/main/f?Signature=secret", nil))
	}
	report(httptest.NewRequest("GET", "/api/models/org/m/tree/main?cursor=secret", nil), &hubserve.LeftOutError{Count: 7, First: "caf\xe9"})
	stop()
	if got := out.String(); !strings.Contains(got, `event=name_rejected path=/api/models/org/m/tree/main count=7 first="caf\xe9"`) {
		t.Errorf("log without the entries that are left out:\n%s", got)
	}
	if got := out.String(); strings.Count(got, "event=answer_failed") != 2 || !strings.Contains(got, "path=/org/m/resolve/main/f err=damaged") || strings.Contains(got, "secret") {
		t.Errorf("log:\n%s", got)
	}
}
