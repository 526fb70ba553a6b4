package daemon

import (
	"context"
	"os/exec"
	"strings"
	"testing"
)

// The parent of a background mount calls waiting for each report of a wait, and then returns the
// last report.
func TestAwaitWaiting(t *testing.T) {
	calls := 0
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	reports := strings.NewReader(`{"status":0,"waiting":"waiting for http://host/"}` + "\n" + `{"status":4,"error":"gone"}` + "\n")
	r, err := await(context.Background(), child, reports, "none", func() { calls++ })
	if err != nil || calls != 1 || r.Status != 4 || r.Error != "gone" {
		t.Errorf("await = %+v, %v, %d calls", r, err, calls)
	}
}
