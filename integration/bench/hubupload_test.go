package bench

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// xetServerEnv is the path of local_cas_server, the test server of xet-core (crate xet-client with
// the feature simulation).
const xetServerEnv = "XETFS_XET_SERVER"

// uploadScript uploads a file to a CAS server. It prints the seconds.
const uploadScript = `
import sys, time
import hf_xet
cas, token, expires, path = sys.argv[1:]
start = time.monotonic()
with hf_xet.XetSession().new_upload_commit(endpoint=cas, token=token, token_expiry_unix_secs=int(expires)) as commit:
    commit.start_upload_file(path, sha256=hf_xet.COMPUTE_SHA256)
print(time.monotonic() - start)
`

// benchHubUploads uploads files with hf_xet to `xetfs serve --writable` and to xet-core's test
// server. Each upload has a new store, so that all bytes are sent.
func benchHubUploads(t *testing.T, b *hubBench) {
	python := hfPython(t)
	if python == "" {
		return
	}
	if os.Getenv(xetServerEnv) == "" {
		t.Logf("%s is left out: %s is not set", xetCore, xetServerEnv)
	}
	for _, k := range kinds[:2] {
		plain := t.TempDir()
		k.lay(t, plain, *benchMiB<<20)
		path := filepath.Join(plain, "file")
		for round := range *benchRounds {
			b.upload(t, ours, startWritable(t), python, k, path, round)
			if os.Getenv(xetServerEnv) != "" {
				b.upload(t, xetCore, startXetServer(t), python, k, path, round)
			}
		}
	}
}

// upload measures one upload and stops the server.
func (b *hubBench) upload(t *testing.T, system string, server *uploadServer, python string, k kind, path string, round int) {
	t.Helper()
	defer server.stop()
	before := secondsOf(server.pid)
	var took float64
	runHub(t, python, uploadScript, server.CAS, []string{server.CAS, server.Token, strconv.FormatInt(server.Expires, 10), path}, &took)
	add := func(what, unit string, value float64) {
		b.add("P14", "upload, "+k.name+what, unit, system, round, value)
	}
	gb := float64(*benchMiB<<20) / 1e9
	add("", "MB/s", gb*1e3/took)
	add(": CPU of the server", "s/GB", (secondsOf(server.pid)-before)/gb)
	add(": peak memory of the server", "MiB", float64(harness.Status(t, server.pid, "VmHWM"))/(1<<20))
}

// An uploadServer is a CAS server that accepts uploads. The fields with names are those of an
// answer to a request for a write token.
type uploadServer struct {
	CAS     string `json:"casUrl"`
	Token   string `json:"accessToken"`
	Expires int64  `json:"exp"` // Unix seconds

	pid  int
	stop func()
}

// startWritable serves a new store to clients that upload.
func startWritable(t *testing.T) *uploadServer {
	t.Helper()
	server := harness.ServeHub(t, filepath.Join(t.TempDir(), "store"), "--writable", "--cache-dir=off")
	s := &uploadServer{pid: server.Cmd.Process.Pid, stop: func() { server.Stop() }}
	answer, err := http.Post(server.URL+"api/repos/create", "application/json", strings.NewReader(`{"organization": "bench", "name": "upload"}`))
	if err == nil {
		answer.Body.Close()
		answer, err = http.Get(server.URL + "api/models/bench/upload/xet-write-token/main")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(s); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("the write token: %s, %v", answer.Status, err)
	}
	return s
}

// startXetServer starts xet-core's test server with an empty folder. It expects no token.
func startXetServer(t *testing.T) *uploadServer {
	t.Helper()
	address := freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	cmd := exec.Command(os.Getenv(xetServerEnv), "--data-directory", t.TempDir(), "--port", port)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	}
	t.Cleanup(stop)
	s := &uploadServer{"http://" + address, "none", time.Now().Add(time.Hour).Unix(), cmd.Process.Pid, stop}
	harness.WaitUntil(t, "the test server of xet-core answers", func() bool {
		answer, err := http.Get(s.CAS + "/health")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return s
}
