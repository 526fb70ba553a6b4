package integration

import (
	"bufio"
	"io"
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
	stdout, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := serve.StderrPipe()
	if err == nil {
		err = serve.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer serve.Wait()         //nolint:errcheck // killed
	defer serve.Process.Kill() //nolint:errcheck // it may have ended
	for _, from := range []struct {
		pipe   io.Reader
		prefix string // of the first line, before the address
	}{{stdout, ""}, {stderr, "xetfs serve: status page: "}} {
		lines := bufio.NewScanner(from.pipe)
		lines.Scan()
		address, ok := strings.CutPrefix(lines.Text(), from.prefix)
		if !ok || address == "" {
			serve.Process.Kill() //nolint:errcheck // it may have ended
			said, _ := io.ReadAll(stderr)
			t.Fatalf("no address but %q: %s", lines.Text(), said)
		}
		answer, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
}
