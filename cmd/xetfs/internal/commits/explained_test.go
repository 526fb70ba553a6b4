package commits

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub"
)

// A disk that is full or read-only gets its own sentence, as it does in uploads.
func TestExplainedDisk(t *testing.T) {
	for cause, want := range map[error]int{
		unix.ENOSPC: http.StatusInsufficientStorage,
		unix.EDQUOT: http.StatusInsufficientStorage,
		unix.EROFS:  http.StatusServiceUnavailable,
		unix.EACCES: http.StatusServiceUnavailable,
		unix.EIO:    0,
	} {
		err := explained(fmt.Errorf("ref: %w", &origin.LocalError{Path: "store", Err: cause}))
		var r *hub.Refusal
		if errors.As(err, &r) {
			if r.Status != want {
				t.Errorf("%v: status %d", cause, r.Status)
			}
		} else if want != 0 {
			t.Errorf("%v: %v", cause, err)
		}
	}
}
