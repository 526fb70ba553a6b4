package integration

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"testing"

	"github.com/xetfs/xetfs/fs/fstest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var fullSize = flag.Bool("full-size", false, "use the amounts of data that the reliability catalogue names, not a part of them")

// childEnv names what this program does instead of testing: it is started once more as
// a reader that can be killed.
const childEnv = "XETFS_TEST_CHILD"

func TestMain(m *testing.M) {
	fstest.PrivateMounts()
	if signal.Ignored(os.Interrupt) { // as in the background of a shell script: programs inherit that
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	os.Setenv("XETFS_PROGRESS", "none") // a command that takes long on a busy machine prints lines
	if role := os.Getenv(childEnv); role != "" {
		os.Exit(runChild(role, os.Args[1:]))
	}
	removeHome := fstest.PrivateHome()
	code := m.Run()
	removeHome()
	if err := harness.RemoveProgram(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
