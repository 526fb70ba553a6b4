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
	var reasons []string
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	reports := strings.NewReader(`{"status":0,"waiting":"connection refused"}` + "\n" + `{"status":4,"error":"gone"}` + "\n")
	r, err := await(context.Background(), child, reports, "none", func(reason string) { reasons = append(reasons, reason) })
	if err != nil || len(reasons) != 1 || reasons[0] != "connection refused" || r.Status != 4 || r.Error != "gone" {
		t.Errorf("await = %+v, %v, reasons %q", r, err, reasons)
	}
}
