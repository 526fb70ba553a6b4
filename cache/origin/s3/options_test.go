package s3_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
)

// TestStyles writes and reads with the bucket in the path and in the host name. The server checks
// the signature of both.
func TestStyles(t *testing.T) {
	server := origintest.ServeS3(t)
	address := strings.TrimPrefix(server.URL, "http://")
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	for _, tt := range []struct{ style, host string }{
		{"path", origintest.S3Domain},
		{"virtual", server.Bucket() + "." + origintest.S3Domain},
	} {
		t.Run(tt.style, func(t *testing.T) {
			env := server.Env()
			env["AWS_ENDPOINT_URL_S3"], env["XETFS_S3_STYLE"] = "http://"+origintest.S3Domain, tt.style
			host := ""
			s := open(t, server, s3.Options{Getenv: getenv(env), Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				host = r.URL.Host
				return transport.RoundTrip(r)
			})})
			put(t, s, refKey, []byte("value"))
			if got := string(origintest.Get(t, s, refKey)); got != "value" || host != tt.host {
				t.Errorf("the value is %q from host %q, want %q", got, host, tt.host)
			}
			if keys, err := listed(t.Context(), s); len(keys) != 1 || err != nil {
				t.Errorf("List yields %q, %v", keys, err)
			}
		})
	}
}

// TestOpen is a table of addresses and environments.
func TestOpen(t *testing.T) {
	tests := []struct {
		address string
		env     map[string]string
		url     string
		err     string
	}{
		{"s3://bucket", nil, "https://bucket.s3.us-east-1.amazonaws.com/", ""},
		{"s3://bucket/", nil, "https://bucket.s3.us-east-1.amazonaws.com/", ""},
		{"s3://bucket/a/b", map[string]string{"AWS_REGION": "eu-west-1"}, "https://bucket.s3.eu-west-1.amazonaws.com/a/b/", ""},
		{"s3://bucket/a b/", nil, "https://bucket.s3.us-east-1.amazonaws.com/a%20b/", ""},
		{"s3://dotted.bucket", nil, "https://s3.us-east-1.amazonaws.com/dotted.bucket/", ""},
		{"s3://bucket", map[string]string{"AWS_ENDPOINT_URL": "http://host:9000/"}, "http://host:9000/bucket/", ""},
		{"s3://bucket", map[string]string{"AWS_ENDPOINT_URL": "http://host:9000", "AWS_ENDPOINT_URL_S3": "https://other/base"}, "https://other/base/bucket/", ""},
		{"s3://bucket", map[string]string{"AWS_ENDPOINT_URL": "http://host", "XETFS_S3_STYLE": "virtual"}, "http://bucket.host/", ""},
		{"s3://bucket", map[string]string{"XETFS_S3_STYLE": "odd"}, "", "it is path or virtual"},
		{"s3://bucket", map[string]string{"AWS_ENDPOINT_URL": "http://me:secret@host"}, "", "is not an address such as"},
		{"s3://bucket", map[string]string{"AWS_ENDPOINT_URL": "host:9000"}, "", "AWS_ENDPOINT_URL is not an address such as"},
		{"s3://bucket", map[string]string{"AWS_ENDPOINT_URL": "http://host", "AWS_ENDPOINT_URL_S3": "host:9000"}, "", "AWS_ENDPOINT_URL_S3 is not an address such as"},
		{"s3://me:secret@bucket", nil, "", "credentials come from the environment"},
		{"s3://ab", nil, "", "no valid name"},
		{"s3://bucket/../x", nil, "", "the part . or .."},
		{"s3://bucket/a?b", nil, "", "a query or a fragment"},
		{"s3://bucket/" + strings.Repeat("x", 1000), nil, "", "longer than 700 bytes"},
		{"http://bucket", nil, "", "the address of a bucket is s3://BUCKET/PREFIX"},
	}
	for _, tt := range tests {
		s, err := s3.Open(tt.address, s3.Options{Getenv: getenv(tt.env)})
		switch {
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "secret")):
			t.Errorf("Open(%q) = %v, want %q", tt.address, err, tt.err)
		case tt.err == "" && err != nil:
			t.Errorf("Open(%q) = %v", tt.address, err)
		case tt.err == "" && s.URL() != tt.url:
			t.Errorf("Open(%q).URL() = %q, want %q", tt.address, s.URL(), tt.url)
		}
	}
}
