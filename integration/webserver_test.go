package integration

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A webServer is a program of another project that serves a folder.
type webServer struct {
	name   string
	config string
	args   func(config string) []string
}

// ROOT, DIR and PORT stand for the served folder, a folder to write to, and a port. Both servers
// compress on request, and no client may request that.
var webServers = []webServer{
	{"apache2", `
ServerRoot "DIR"
ServerName localhost
PidFile "DIR/pid"
ErrorLog "DIR/error.log"
Listen 127.0.0.1:PORT
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule filter_module /usr/lib/apache2/modules/mod_filter.so
LoadModule deflate_module /usr/lib/apache2/modules/mod_deflate.so
SetOutputFilter DEFLATE
DocumentRoot "ROOT"
<Directory "ROOT">
  Require all granted
</Directory>
`, func(config string) []string { return []string{"-X", "-f", config} }},
	{"nginx", `
daemon off;
master_process off;
pid DIR/pid;
error_log DIR/error.log;
events { worker_connections 256; }
http {
  access_log off;
  gzip on; gzip_types *; gzip_min_length 1;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  server { listen 127.0.0.1:PORT; location / { root ROOT; } }
}
`, func(config string) []string { return []string{"-c", config} }},
}

// Any web server can give a store out: a catalog, and one without names.
func TestRemoteWebServers(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	openToAll(t, top)
	folder := filepath.Join(top, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	goroot := strings.TrimSpace(harness.Run(t, "", "go", "env", "GOROOT"))
	harness.Run(t, "", "cp", "-rL", filepath.Join(goroot, "src", "encoding"), folder)
	big := harness.Noise(7, 9_000_001)
	if err := os.WriteFile(filepath.Join(folder, "big"), big, 0o644); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(top, "www")
	harness.Publish(t, filepath.Join(root, "named"), "tree", folder)
	bare := harness.PackFolder(t, filepath.Join(root, "bare"), folder)
	harness.Publish(t, filepath.Join(root, "unlisted"), "tree", filepath.Join(folder, "encoding", "hex"))
	if err := os.Remove(filepath.Join(root, "unlisted", "xetfs.list")); err != nil {
		t.Fatal(err)
	}
	for _, s := range webServers {
		t.Run(s.name, func(t *testing.T) {
			if _, err := exec.LookPath(s.name); err != nil {
				harness.Absent(t, "there is no %s (integration/setup.sh installs it)", s.name)
			}
			address := s.start(t, root)
			m := harness.MountSource(t, address+"/named", "--symbol=tree", "--cache-dir="+filepath.Join(t.TempDir(), "cache"))
			harness.Run(t, "", "diff", "-r", folder, m.Dir)
			m = harness.MountSource(t, address+"/bare", "--cache-dir=off")
			readOpen(t, open(t, m.File(bare["big"].Hash)), big)
			m = harness.MountSource(t, address+"/unlisted", "--symbol=tree", "--cache-dir=off")
			harness.Run(t, "", "diff", "-r", filepath.Join(folder, "encoding", "hex"), m.Dir)
			m.Quiet()
			const unlisted = "xetfs.list is not there, which xetfs pack and publish write; what has a name in a catalog can be read without it\n"
			if out, err := harness.Try(t, "", harness.Program(t), "ls", address+"/unlisted"); err == nil || !strings.HasSuffix(out, unlisted) {
				t.Errorf("without a listing: %v, %s", err, out)
			}
			if out, err := harness.Try(t, "", harness.Program(t), "ls", address+"/nothing"); err == nil || !strings.Contains(out, "no store: neither a catalog") {
				t.Errorf("where nothing is: %v, %s", err, out)
			}
		})
	}
}

// openToAll lets servers that give their rights away look into a folder of a test.
func openToAll(t *testing.T, dir string) {
	t.Helper()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// start gives a folder out until the end of the test, and returns the address.
func (s webServer) start(t *testing.T, root string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	openToAll(t, dir)
	config := filepath.Join(dir, "config")
	text := strings.NewReplacer("ROOT", root, "DIR", dir, "PORT", port).Replace(s.config)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, s.name, s.args(config)...)
	said := new(strings.Builder) // read once the process has ended
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // with all its workers
	cmd.WaitDelay = harness.UnmountLimit
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		cmd.Wait() //nolint:errcheck // it was killed
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("%s says:\n%s%s", s.name, said, log)
		}
	})
	for end := time.Now().Add(harness.MountLimit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return "http://" + address
		}
	}
	t.Fatalf("%s does not listen on %s", s.name, address)
	return ""
}
