package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

var uploadKills = flag.Int("upload-kills", 1, "at how many system calls of each kind a server of uploads is killed, and how often a client; 40: each call")

// attemptTime bounds an upload whose server is gone.
const attemptTime = 2 * time.Minute

// attempt uploads a folder to a server, and returns the error of the client.
func (h *hub) attempt(ctx context.Context, t *testing.T, repo, folder string) error {
	t.Helper()
	in, err := json.Marshal(map[string]any{"do": "folder", "repo": repo, "folder": folder})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(need(t, hubEnv), "bin/python3"), "hubupload.py")
	cmd.Env = append(os.Environ(), h.env(t.TempDir())...)
	cmd.Stdin = bytes.NewReader(in)
	return cmd.Run()
}

// hubAt returns the hub at an address, without a proxy.
func hubAt(address *url.URL) *hub {
	return &hub{Server: &httptest.Server{URL: strings.TrimSuffix(address.String(), "/")}}
}

// isUploaded compares a version in the store with a folder.
func isUploaded(t *testing.T, store, version, folder string) {
	t.Helper()
	to := t.TempDir()
	xetfs(t, "get", store, version, to)
	(&hub{folder: folder}).isTree(t, to)
}

// SIGKILL ends a server of a folder at each system call of an upload that changes the store.
func TestHubServerKilled(t *testing.T) {
	before, after := uploadTree(t, 5), uploadTree(t, 8)
	for _, call := range []string{"linkat", "renameat", "fsync", "unlinkat", "write", "pwrite64"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel() // it mostly waits for the time of grace
			killed, missed := 0, 0
			for n := 1; n <= *uploadKills && missed < 2; n++ {
				store := sweptStore(t)
				xetfs(t, "publish", store, "org/model", before)
				server := exec.Command("strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace="+call,
					"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n),
					need(t, xetfsEnv), "serve", "--listen=127.0.0.1:0", "--writable", "--cache-dir=off", store)
				server.Env = append(os.Environ(), "GOMAXPROCS=1")
				if !uploadKilled(t, fmt.Sprint(call, " ", n), server, after) {
					missed++
					continue
				}
				killed++
				checkKilled(t, store, before, after)
			}
			t.Logf("%d kills", killed)
			if killed == 0 {
				t.Error("no server was killed")
			}
		})
	}
}

// SIGKILL ends a server of a bucket at each write of an upload, before or after the bucket has it.
func TestHubBucketServerKilled(t *testing.T) {
	before, after := uploadTree(t, 5), uploadTree(t, 8)
	for n := 1; n <= 2**uploadKills; n++ {
		store := sweptBucket(t)
		xetfs(t, "publish", store, "org/model", before)
		direct := os.Getenv("AWS_ENDPOINT_URL_S3")
		p := harness.NewFaultyProxy(t, direct, func(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead })
		server := exec.Command(need(t, xetfsEnv), "serve", "--listen=127.0.0.1:0", "--writable", "--cache-dir=off", store)
		server.Env = append(os.Environ(), "AWS_ENDPOINT_URL_S3="+p.URL)
		p.Set(n, func(pass func()) {
			if n%2 == 0 {
				pass()
			}
			_ = server.Process.Kill()
		})
		if !uploadKilled(t, fmt.Sprint("write ", n), server, after) {
			if t.Logf("an upload makes %d writes", n-1); n == 1 {
				t.Error("no server was killed")
			}
			break
		}
		checkKilled(t, store, before, after)
	}
}

// uploadKilled uploads a folder to a server that ends by SIGKILL somewhere, and reports whether it
// did.
func uploadKilled(t *testing.T, where string, server *exec.Cmd, folder string) bool {
	t.Helper()
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	address, err := startServer(server)
	if err != nil {
		if !wasKilled(server) {
			t.Fatalf("%s: serve: %v", where, err)
		}
		return true // before it was ready
	}
	ctx, cancel := context.WithTimeout(t.Context(), attemptTime)
	defer cancel()
	first := hubAt(address).attempt(ctx, t, "org/model", folder)
	_ = syscall.Kill(-server.Process.Pid, syscall.SIGINT) // it may be gone
	err = server.Wait()
	t.Logf("%s: the client: %v, the server: %v", where, first, err)
	return wasKilled(server)
}

// wasKilled reports whether a signal has ended a process.
func wasKilled(cmd *exec.Cmd) bool {
	if cmd.ProcessState == nil { // it did not start
		return false
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// checkKilled reads the version that an upload found before its server was killed. After a restart, a
// second attempt succeeds as one version, and a sweep removes what the first one left.
func checkKilled(t *testing.T, store, before, after string) {
	t.Helper()
	isUploaded(t, store, "org/model@0", before)
	address, stop := startServe(t, nil, "--writable", "--cache-dir=off", store)
	if err := hubAt(address).attempt(t.Context(), t, "org/model", after); err != nil {
		t.Errorf("the second attempt: %v", err)
	}
	stop()
	isUploaded(t, store, "org/model", after)
	time.Sleep(4 * time.Second) // the time of grace
	xetfs(t, "catalog", "sweep", store)
	isUploaded(t, store, "org/model@0", before)
	isUploaded(t, store, "org/model", after)
	if h := string(xetfs(t, "history", store, "org/model")); strings.Count(h, "a folder") != 1 {
		t.Errorf("the history is\n%s", h)
	}
	xetfs(t, "catalog", "check", "--data", store)
}

// SIGKILL ends a client at any time of an upload. A second attempt succeeds.
func TestHubClientKilled(t *testing.T) {
	folder := uploadTree(t, 100)
	w := startWritable(t, folder)
	begin := time.Now()
	if err := w.attempt(t.Context(), t, "org/whole", folder); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(begin)
	for n := range *uploadKills {
		repo := fmt.Sprint("org/killed", n)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Int64N(int64(whole))))
		first := w.attempt(ctx, t, repo, folder)
		cancel()
		if err := w.attempt(t.Context(), t, repo, folder); err != nil {
			t.Errorf("the attempt after %v: %v", first, err)
		}
		isUploaded(t, w.store, repo, folder)
	}
	w.isSound(t)
}

var reuseTime = flag.Duration("reuse-time", 5*time.Second, "time for which the clients of TestHubReuse upload")

// Clients upload contents that only deleted versions have, while other processes delete, prune and
// sweep with a short time of grace. A commit that was answered with success reads in full.
func TestHubReuse(t *testing.T) {
	for where, newStore := range map[string]func(*testing.T) string{"folder": sweptStore, "bucket": sweptBucket} {
		t.Run(where, func(t *testing.T) { testReuse(t, newStore(t)) })
	}
}

func testReuse(t *testing.T, store string) {
	t.Helper()
	address, _ := startServe(t, nil, "--writable", "--cache-dir=off", store)
	h := hubAt(address)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sweeps := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			cmd := exec.Command(need(t, xetfsEnv), "catalog", "sweep", store)
			if out, err := cmd.CombinedOutput(); err != nil && ctx.Err() == nil {
				t.Errorf("sweep: %v\n%s", err, out)
			}
		}
		sweeps <- n
	}()
	const clients = 2
	committed := make(chan reused)
	for i := range clients {
		go reuse(ctx, t, h, fmt.Sprintf("org/c%d-", i), committed)
	}
	contents := map[string][32]byte{}
	done, failed, ended := 0, 0, 0
	for ended < clients {
		switch c := <-committed; {
		case c.Repo == "":
			ended++
		case c.Error != "":
			failed++
			t.Logf("%s: %s", c.Repo, c.Error)
		default:
			done++
			c.check(t, store, contents)
			xetfs(t, "prune", "--keep-last=1", store, c.Repo)
			h.deleteRepo(t, c.Repo)
		}
	}
	cancel()
	t.Logf("%d commits beside %d sweeps, %d were refused", done, <-sweeps, failed)
	if done < 2 {
		t.Error("too few commits")
	}
	xetfs(t, "catalog", "check", "--data", store)
}

// A reused is a commit of the job reuse.
type reused struct {
	Repo  string // "": the client has ended
	Files []int
	Error string
}

// reuse runs the job reuse.
func reuse(ctx context.Context, t *testing.T, h *hub, repo string, committed chan<- reused) {
	defer func() { committed <- reused{} }()
	in, err := json.Marshal(map[string]any{"do": "reuse", "repo": repo, "seconds": reuseTime.Seconds()})
	if err != nil {
		t.Error(err)
		return
	}
	cmd := exec.CommandContext(ctx, filepath.Join(need(t, hubEnv), "bin/python3"), "hubupload.py")
	cmd.Env = append(os.Environ(), h.env(t.TempDir())...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	for lines := json.NewDecoder(out); ; {
		var c reused
		if err := lines.Decode(&c); err != nil || c.Repo == "" {
			break
		}
		committed <- c
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// check reads the files of a commit. A name has the same content in all commits, whose hash is in
// contents.
func (c *reused) check(t *testing.T, store string, contents map[string][32]byte) {
	t.Helper()
	to := t.TempDir()
	xetfs(t, "get", store, c.Repo, to)
	got := filesOf(t, to)
	if len(got) != len(c.Files) {
		t.Errorf("%s: %d files", c.Repo, len(got))
	}
	for name, content := range got {
		sum := sha256.Sum256([]byte(content))
		if first, ok := contents[name]; ok && first != sum {
			t.Errorf("%s: %s has another content", c.Repo, name)
		}
		contents[name] = sum
	}
}

// deleteRepo deletes a repository, as a client does.
func (h *hub) deleteRepo(t *testing.T, repo string) {
	t.Helper()
	owner, name, _ := strings.Cut(repo, "/")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, h.URL+"/api/repos/delete",
		strings.NewReader(fmt.Sprintf(`{"organization":%q,"name":%q}`, owner, name)))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("delete %s: status %d", repo, answer.StatusCode)
	}
}
