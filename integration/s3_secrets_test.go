package integration

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// TestS08_BucketSecrets runs commands with and without errors of O21 to O23. Keys, session token
// and signatures appear in no output and in no file.
func TestS08_BucketSecrets(t *testing.T) {
	t.Parallel()
	const token = "canary-session-token"
	server := origintest.ServeS3(t)
	secrets := []string{server.Secret, "canary-wrong-secret", token, "Signature=", "AWS4-HMAC"}
	folder := folderWith(t, strings.Repeat("content ", 20_000))
	home := t.TempDir()
	tests := []struct {
		name, variable, value string
		status                int
	}{
		{"good", "", "", 0},
		{"wrong secret", "AWS_SECRET_ACCESS_KEY", "canary-wrong-secret", 5},
		{"wrong token", "AWS_SESSION_TOKEN", token, 5},
		{"wrong region", "AWS_REGION", "eu-west-1", 4},
		{"no bucket", "", "", 4},
	}
	for _, tt := range tests {
		c := newBucketClient(t, server, server.URL)
		if tt.name == "no bucket" {
			c.address = "s3://xetfs-other/store"
		}
		c.env = append(c.env, "HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"), tt.variable+"="+tt.value)
		for _, args := range [][]string{
			{"publish", c.address, "org/model", folder},
			{"ls", c.address},
			{"warm", "--cache-dir=" + filepath.Join(home, "disk"), c.address, "org/model"},
			{"catalog", "check", c.address},
			{"verify", c.address},
			{"history", c.address, "org/model"},
		} {
			cmd := c.command(args[0], args[1:]...)
			out, _ := cmd.CombinedOutput()
			if status := cmd.ProcessState.ExitCode(); status != tt.status {
				t.Errorf("%s: xetfs %q exits with %d, want %d\n%s", tt.name, args, status, tt.status, out)
			}
			for _, s := range secrets {
				if bytes.Contains(out, []byte(s)) {
					t.Errorf("%s: xetfs %q prints %q:\n%s", tt.name, args, s, out)
				}
			}
		}
	}
	if files := filesWith(t, home, secrets); files != nil {
		t.Errorf("secrets are in %q", files)
	}
}

// A passwordProxy is an HTTP proxy that takes one password.
type passwordProxy struct {
	url     string
	refuses atomic.Bool // every password is wrong
}

// newPasswordProxy returns a proxy that passes requests on to a server, whatever host they name.
func newPasswordProxy(t *testing.T, to, password string) *passwordProxy {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := new(passwordProxy)
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		r.Out.Host = r.In.Host // the signature covers it
	}}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+password))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != want || p.refuses.Load() {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.url = strings.Replace(server.URL, "http://", "http://user:"+password+"@", 1)
	return p
}

// S08, N17: a mount of a bucket through a proxy with a password. The password, the secret key and
// signatures appear in no log, attribute, dump, list of processes or file, with and without errors.
func TestS08_MountSecrets(t *testing.T) {
	t.Parallel()
	const password = "canary-proxy-password"
	server := origintest.ServeS3(t)
	proxy := newPasswordProxy(t, server.URL, password)
	secrets := []string{server.Secret, password, "Signature=", "AWS4-HMAC", base64.StdEncoding.EncodeToString([]byte("user:" + password))}
	home := t.TempDir()
	c := newBucketClient(t, server, "http://store.test")
	c.env = append(c.env, "HTTP_PROXY="+proxy.url, "HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"))
	folder := t.TempDir()
	harness.WriteFile(t, filepath.Join(folder, "large"), harness.Noise(1, 24<<20))
	c.run("publish", c.address, "org/model", folder)
	socket := filepath.Join(t.TempDir(), "status")
	m := mountBucket(t, c, "--log-level=debug", "--symbol=org/model", "--cache-dir="+filepath.Join(home, "disk"), "--status=unix:"+socket)
	f := open(t, m.Path("large"))
	if _, err := f.ReadAt(make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
	proxy.refuses.Store(true)
	if _, err := f.ReadAt(make([]byte, 4096), 20<<20); err == nil {
		t.Error("a read without the proxy has no error")
	}
	m.Signal(syscall.SIGQUIT)
	m.Log.After(harness.Event("signal_dump"))
	found := harness.Run(t, "", "getfattr", "--absolute-names", "-d", "-m", "-", m.Dir, m.Path("large"))
	if !strings.Contains(found, "user.xet.error") {
		t.Errorf("attributes are %s", found)
	}
	for _, name := range []string{"user.xet.stats", "user.xet.error"} {
		for _, path := range []string{m.Dir, m.Path("large")} {
			out, _ := harness.Try(t, "", "getfattr", "-n", name, "--only-values", path)
			found += out
		}
	}
	commands, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", m.Pid()))
	if err != nil {
		t.Error(err)
	}
	out, err := c.command("verify", c.address).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "407") {
		t.Errorf("verify without the proxy: %v\n%s", err, out)
	}
	f.Close()
	found += statusTexts(t, socket)
	m.Unmount()
	all := []byte(found + string(commands) + string(out) + m.Log.String())
	for _, s := range secrets {
		if bytes.Contains(all, []byte(s)) {
			t.Errorf("%q appears in\n%s", s, all)
		}
	}
	if files := filesWith(t, home, secrets); files != nil {
		t.Errorf("secrets are in %q", files)
	}
}

// filesWith returns the files below a folder that contain a secret.
func filesWith(t *testing.T, folder string, secrets []string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, s := range secrets {
			if bytes.Contains(b, []byte(s)) {
				files = append(files, path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return files
}
