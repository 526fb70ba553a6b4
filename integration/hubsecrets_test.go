package integration

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

const (
	canaryToken    = "hf_CANARY7f3a"
	canaryKey      = "canary-signing-key-of-32-bytes-0123"
	canaryPassword = "canary-proxy-password"
)

// S08: a mount, commands and a mirror of a private repository, with and without refusals. The token,
// tokens for Xet, signed addresses and the key of the server appear in no output, attribute, dump,
// list of processes or file.
func TestS08_HubSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	harness.WriteFile(t, filepath.Join(dir, "tokens"), []byte(canaryToken+"\n"))
	harness.WriteFile(t, filepath.Join(dir, "key"), []byte(canaryKey))
	for _, name := range []string{"tokens", "key"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := harness.ServeHub(t, secretStore(t), "--token-file="+filepath.Join(dir, "tokens"), "--signing-key="+filepath.Join(dir, "key"))
	wire := newWireTap(t, server.URL)
	home := t.TempDir()
	out := useEverything(t, home, [2]string{"middle", "large"}, wire.refuse, "HF_ENDPOINT="+wire.url, "HF_TOKEN="+canaryToken)
	secrets := append(wire.secrets(), canaryToken, canaryKey)
	if len(secrets) < 5 {
		t.Errorf("only %d secrets were seen on the wire", len(secrets))
	}
	findSecrets(t, out, "403 Forbidden", home, secrets)
}

// S08, N17: the same through a proxy with a password, for files outside Xet: tokens for Xet need
// TLS.
func TestS08_HubProxyPassword(t *testing.T) {
	t.Parallel()
	server := harness.ServeHub(t, secretStore(t))
	proxy := newPasswordProxy(t, server.URL, canaryPassword)
	home := t.TempDir()
	out := useEverything(t, home, [2]string{"small", "tiny"}, func() { proxy.refuses.Store(true) }, "HF_ENDPOINT=http://hub.test", "HF_TOKEN=", "HTTP_PROXY="+proxy.url)
	findSecrets(t, out, "407 Proxy Authentication Required", home, []string{canaryPassword, base64.StdEncoding.EncodeToString([]byte("user:" + canaryPassword))})
}

// secretStore is a store with a repository org/m.
func secretStore(t *testing.T) string {
	t.Helper()
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	harness.WriteFile(t, filepath.Join(folder, "large"), harness.Noise(1, 24<<20))
	harness.WriteFile(t, filepath.Join(folder, "middle"), harness.Noise(2, 1<<20))
	harness.WriteFile(t, filepath.Join(folder, "small"), []byte("small"))
	harness.WriteFile(t, filepath.Join(folder, "tiny"), []byte("tiny"))
	harness.Publish(t, store, "org/m", folder)
	return store
}

// useEverything uses hf://org/m in all ways, before and after the server refuses its client. Each
// part reads one of the files. It returns all outputs.
func useEverything(t *testing.T, home string, files [2]string, refuse func(), env ...string) []byte {
	t.Helper()
	harness.NeedFuse(t)
	env = append(env, "HOME="+home, "HF_HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"))
	var all bytes.Buffer
	run := func(args ...string) {
		cmd := exec.Command(harness.Program(t), args...)
		cmd.Env, cmd.Stderr = harness.Environment(env...), &all
		out, _ := cmd.Output()
		if args[0] != "cat" { // cat writes content
			all.Write(out)
		}
	}
	mountPoint, sockets := t.TempDir(), t.TempDir()
	mount := exec.Command(harness.Program(t), harness.MountArgs("hf://org/m", mountPoint, "--log-level=debug", "--follow=100ms", "--cache-dir="+filepath.Join(home, "disk"), "--status=unix:"+filepath.Join(sockets, "mount"))...)
	mount.Env = env
	m := harness.StartCommand(t, mount, "hf://org/m", mountPoint)
	m.Log.After(harness.Event("mount_ready"))
	mirror, closeMirror := startMirror(t, &all, env, filepath.Join(sockets, "mirror"))
	if _, err := os.ReadFile(m.Path(files[0])); err != nil {
		t.Error(err)
	}
	run("cat", "hf://org/m", files[0])
	run("ls", "--json", "hf://org/m")
	run("verify", "hf://org/m")
	refuse()
	if _, err := os.ReadFile(m.Path(files[1])); err == nil {
		t.Error("a read without access has no error")
	}
	run("cat", "hf://org/m", files[1])
	run("ls", "hf://org/m")
	for _, path := range []string{"org/m/resolve/main/" + files[0], "org/m/resolve/main/" + files[1], "api/models/org/m", "-/stats"} {
		resp, err := http.Get(mirror + path) //nolint:noctx // a test
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(&all, resp.Body)
		resp.Body.Close()
	}
	m.Signal(syscall.SIGQUIT)
	m.Log.After(harness.Event("signal_dump"))
	for _, path := range []string{m.Dir, m.Path(files[1])} {
		for _, name := range []string{"user.xet.stats", "user.xet.error", "user.xet.verified"} {
			text, _ := harness.Try(t, "", "getfattr", "-n", name, "--only-values", path)
			all.WriteString(text)
		}
	}
	commands, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", m.Pid()))
	if err != nil {
		t.Error(err)
	}
	all.WriteString(statusTexts(t, filepath.Join(sockets, "mount")))
	all.WriteString(statusTexts(t, filepath.Join(sockets, "mirror")))
	m.Unmount()
	closeMirror()
	return slices.Concat(all.Bytes(), commands, []byte(m.Log.String()))
}

// startMirror starts a mirror of hf://org/m, whose outputs are appended to all when it is closed.
func startMirror(t *testing.T, all *bytes.Buffer, env []string, socket string) (address string, closeMirror func()) {
	t.Helper()
	cmd := exec.Command(harness.Program(t), "serve", "--listen=127.0.0.1:0", "--status=unix:"+socket, "hf://org/m")
	var stderr bytes.Buffer
	cmd.Env, cmd.Stderr = harness.Environment(env...), &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatalf("serve: %v, %s", err, &stderr)
	}
	closeMirror = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		all.Write(stderr.Bytes())
	})
	t.Cleanup(closeMirror)
	return strings.TrimSpace(string(line[:n])), closeMirror
}

// findSecrets fails the test if an output or a file below a folder has a secret. The output must
// have a reason, since it is of refused requests.
func findSecrets(t *testing.T, out []byte, reason, folder string, secrets []string) {
	t.Helper()
	if !bytes.Contains(out, []byte(reason)) {
		t.Errorf("no %q in the output", reason)
	}
	for _, s := range secrets {
		if i := bytes.Index(out, []byte(s)); i >= 0 {
			t.Errorf("%q appears in\n%s", s, out[max(0, i-200):min(len(out), i+200)])
		}
	}
	if files := filesWith(t, folder, secrets); files != nil {
		t.Errorf("secrets are in %q", files)
	}
}

// A wireTap is a proxy before a server of the Hub that collects secrets. It can refuse all requests.
type wireTap struct {
	url string

	mu      sync.Mutex
	found   map[string]bool // guarded by mu
	refuses bool            // guarded by mu
}

func newWireTap(t *testing.T, server string) *wireTap {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	tap := &wireTap{found: map[string]bool{}}
	pass := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // the server names its Xet server
		},
		ModifyResponse: tap.read,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !tap.passes(r) {
			http.Error(w, r.Header.Get("Authorization")+r.URL.RawQuery, http.StatusForbidden) // a server may echo them
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	tap.url = s.URL
	return tap
}

// passes records the signature of a request, and reports whether to pass the request on.
func (w *wireTap) passes(r *http.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := r.URL.Query().Get("Signature"); s != "" {
		w.found[s] = true
	}
	return !w.refuses
}

var accessToken = regexp.MustCompile(`"accessToken":"([^"]+)"`)

// read records the tokens for Xet in an answer.
func (w *wireTap) read(resp *http.Response) error {
	if !strings.Contains(resp.Request.URL.Path, "/xet-read-token/") {
		return nil
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(b))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range accessToken.FindAllSubmatch(b, -1) {
		w.found[string(m[1])] = true
	}
	return err
}

func (w *wireTap) refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses = true
}

// secrets returns what was recorded.
func (w *wireTap) secrets() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.found {
		all = append(all, s)
	}
	return all
}
