package integration

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// TestLocalhostUnknown serves at localhost in a namespace where neither /etc/hosts nor a resolver
// has that name, as in some containers.
func TestLocalhostUnknown(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may cover /etc/hosts in a namespace")
	}
	store, _ := bigStore(t, 1000)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const covered = `for f in /etc/hosts /etc/resolv.conf; do [ ! -e $f ] || mount --bind "$0" $f || exit; done; exec "$@"`
	serve := exec.Command(harness.NeedTool(t, "unshare"), "--mount", "sh", "-c", covered, empty,
		harness.Program(t), "serve", "--listen=localhost:0", "--status=localhost:0", store)
	serve.Env = harness.Environment()
	stderr := new(strings.Builder)
	serve.Stderr = stderr
	out, err := serve.StdoutPipe()
	if err == nil {
		err = serve.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer serve.Wait()         //nolint:errcheck // killed
	defer serve.Process.Kill() //nolint:errcheck // it may have ended
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		serve.Wait() //nolint:errcheck // stderr says it
		t.Fatal(stderr.String())
	}
	answer, err := http.Get(lines.Text())
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
}
