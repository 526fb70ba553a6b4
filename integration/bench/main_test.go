package bench

import (
	"fmt"
	"os"
	"testing"

	"github.com/xetfs/xetfs/fs/fstest"
	"github.com/xetfs/xetfs/integration/internal/harness"
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
