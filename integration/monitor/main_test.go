package monitor

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/xetfs/xetfs/fs/fstest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var (
	monitored  = flag.Bool("monitor", false, "run the tests, which need chromium and promtool")
	screenshot = flag.String("screenshot", "", "`FOLDER` that gets a picture of each page")
)

func TestMain(m *testing.M) {
	fstest.PrivateMounts()
	code := m.Run()
	if err := harness.RemoveProgram(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// need skips a test without the flag -monitor, and returns the path of a program.
func need(t *testing.T, program string) string {
	t.Helper()
	if !*monitored {
		t.Skip("integration/monitor/run runs this test")
	}
	return harness.NeedTool(t, program)
}
