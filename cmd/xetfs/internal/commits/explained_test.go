package commits

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/origin/upload"
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
		var r *hubserve.Refusal
		if errors.As(err, &r) {
			if r.Status != want {
				t.Errorf("%v: status %d", cause, r.Status)
			}
		} else if want != 0 {
			t.Errorf("%v: %v", cause, err)
		}
	}
}

// A full quota has the text of the uploads.
func TestExplainedQuota(t *testing.T) {
	err := explained(fmt.Errorf("%w: its quota is 10 bytes", upload.ErrFull))
	var r *hubserve.Refusal
	if !errors.As(err, &r) || r.Status != http.StatusInsufficientStorage || r.Text != "the store is full: its quota is 10 bytes" {
		t.Errorf("%v", err)
	}
}
