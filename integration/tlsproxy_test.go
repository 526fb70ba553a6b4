package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/certtest"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// tlsConfig is a configuration of nginx with TLS. LIMITS and LOCATION stand for directives.
const tlsConfig = `
daemon off;
master_process off;
pid DIR/pid;
error_log DIR/error.log;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
  uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  limit_req_zone $server_port zone=all:1m rate=100r/s;
  server {
    listen 127.0.0.1:PORT ssl;
    ssl_certificate CERTS/cert; ssl_certificate_key CERTS/key;
    LIMITS
    location / { LOCATION }
  }
}
`

// tlsLimits are limits of nginx. Each one ends or refuses requests.
var tlsLimits = map[string]string{
	"no limit":                       "client_max_body_size 0;",
	"two requests per connection":    "client_max_body_size 0; keepalive_requests 2;",
	"100 requests per second":        "client_max_body_size 0; limit_req zone=all burst=20 nodelay;",
	"bodies only in temporary files": "client_max_body_size 0; client_body_in_file_only clean; proxy_max_temp_file_size 8m;",
}

// A tlsServer is nginx with a certificate of a test authority.
type tlsServer struct {
	authority string // file with its certificate
	dir       string
}

func newTLSServer(t *testing.T) *tlsServer {
	t.Helper()
	harness.NeedTool(t, "nginx")
	a := certtest.NewAuthority(t)
	s := &tlsServer{dir: t.TempDir()}
	openToAll(t, s.dir)
	s.authority = filepath.Join(s.dir, "ca")
	cert, key := a.Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	harness.WriteFile(t, s.authority, a.PEM)
	harness.WriteFile(t, filepath.Join(s.dir, "cert"), cert)
	harness.WriteFile(t, filepath.Join(s.dir, "key"), key)
	return s
}

// start starts nginx until the end of the test, and returns its address.
func (s *tlsServer) start(t *testing.T, limits, location string) string {
	t.Helper()
	config := strings.NewReplacer("CERTS", s.dir, "LIMITS", limits, "LOCATION", location).Replace(tlsConfig)
	nginx := webServer{"nginx", config, func(config string) []string { return []string{"-c", config} }}
	return strings.Replace(nginx.start(t, ""), "http", "https", 1)
}

// proxyTo passes requests on to an S3 server. The signature covers the name of the host.
func proxyTo(url string) string {
	return "proxy_pass " + url + `; proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_set_header Connection "";`
}

// A bucket behind a TLS proxy of another project is published to, verified and mounted, whatever
// the limits of the proxy are.
func TestBucketBehindTLS(t *testing.T) {
	t.Parallel()
	proxy, server := newTLSServer(t), origintest.ServeS3(t)
	folder := t.TempDir()
	harness.WriteFile(t, filepath.Join(folder, "large"), harness.Noise(3, 20<<20)) // more than one upload of parts
	for i := range 50 {
		harness.WriteFile(t, filepath.Join(folder, "small", fmt.Sprint(i)), harness.Noise(uint64(i), 1000+i))
	}
	for name, limits := range tlsLimits {
		if !*fullSize && name != "two requests per connection" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c := newBucketClient(t, server, proxy.start(t, limits, proxyTo(server.URL)))
			c.env = append(c.env, "AWS_CA_BUNDLE="+proxy.authority)
			c.address += "/" + strings.ReplaceAll(name, " ", "-")
			c.run("publish", c.address, "org/model", folder)
			harness.WriteFile(t, filepath.Join(folder, "new"), []byte(name))
			c.run("publish", c.address, "org/model", folder)
			c.run("verify", c.address)
			m := mountBucket(t, c, "--cache-dir=off", "--symbol=org/model")
			harness.Run(t, "", "diff", "-r", folder, m.Dir)
			m.Unmount()
			c.run("catalog", "check", "--data", c.address)
		})
	}
	t.Run("bodies of 1 MiB at most", func(t *testing.T) {
		c := newBucketClient(t, server, proxy.start(t, "", proxyTo(server.URL)))
		c.env = append(c.env, "AWS_CA_BUNDLE="+proxy.authority)
		c.address += "/refused"
		out, err := c.command("publish", c.address, "org/model", folder).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "client_max_body_size") {
			t.Errorf("publish = %v:\n%s", err, out)
		}
	})
	t.Run("unknown authority", func(t *testing.T) {
		c := newBucketClient(t, server, proxy.start(t, "", proxyTo(server.URL)))
		c.env = append(c.env, "AWS_CA_BUNDLE=", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt")
		out, err := c.command("ls", c.address).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "unknown authority") {
			t.Errorf("ls = %v:\n%s", err, out)
		}
	})
}

// A folder that nginx serves over TLS is mounted, whatever its limits are.
func TestFolderBehindTLS(t *testing.T) {
	proxy, top := newTLSServer(t), t.TempDir()
	openToAll(t, top)
	folder, root := filepath.Join(top, "folder"), filepath.Join(top, "www")
	harness.WriteFile(t, filepath.Join(folder, "large"), harness.Noise(3, 20<<20))
	for i := range 200 {
		harness.WriteFile(t, filepath.Join(folder, "small", fmt.Sprint(i)), harness.Noise(uint64(i), 1000+i))
	}
	harness.Publish(t, root, "tree", folder)
	t.Setenv("SSL_CERT_FILE", proxy.authority)
	for name, limits := range tlsLimits {
		t.Run(name, func(t *testing.T) {
			address := proxy.start(t, limits, "root "+root+";")
			m := harness.MountSource(t, address, "--symbol=tree", "--cache-dir=off")
			harness.Run(t, "", "diff", "-r", folder, m.Dir)
			m.Unmount()
			harness.Run(t, "", harness.Program(t), "verify", address)
		})
	}
}

// S14: no option turns the check of certificates off.
func TestS14_CertificatesAreChecked(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "InsecureSkipVerify") {
				t.Errorf("%s/%s sets InsecureSkipVerify", p.Dir, file)
			}
		}
	}
}
