package integration

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// Keys that may only read, and a public bucket without keys, mount a bucket of a real server. A
// publish ends with one sentence and changes nothing.
func TestBucketPermissions(t *testing.T) {
	t.Parallel()
	server := origintest.ServeS3(t)
	server.AddUser(t, "READER", "reader-secret")
	owner := newBucketClient(t, server, server.URL)
	owner.run("publish", owner.address, "org/model", folderWith(t, "content"))
	reader := []string{"AWS_ACCESS_KEY_ID=READER", "AWS_SECRET_ACCESS_KEY=reader-secret"}
	anonymous := []string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY=", "HOME=" + t.TempDir()}
	for _, tt := range []struct {
		name    string
		user    string // of the policy
		actions []string
		env     []string
		reads   bool
		status  int    // of publish
		text    string // of its error, or that of reading
	}{
		{"read-only keys", "READER", []string{"s3:GetObject", "s3:ListBucket"}, reader, true, 5, "access denied"},
		{"keys that may not list", "READER", []string{"s3:GetObject"}, reader, true, 5, "access denied"},
		{"keys without a permission", "OTHER", []string{"s3:GetObject"}, reader, false, 4, "403: absent, or not allowed; allow the credentials to list and read the bucket"},
		{"public bucket", "*", []string{"s3:GetObject", "s3:ListBucket"}, anonymous, true, 5, "access denied"},
		{"private bucket", "OTHER", []string{"s3:GetObject"}, anonymous, false, 4, "the request had no credentials"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server.Allow(t, tt.user, tt.actions...)
			c := newBucketClient(t, server, server.URL)
			c.env = append(c.env, tt.env...)
			if tt.reads {
				m := mountBucket(t, c, "--cache-dir=off", "--symbol=org/model")
				m.Shows(t, "file", []byte("content"))
				m.Unmount()
			}
			out, err := c.command("publish", c.address, "org/model", folderWith(t, "other")).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tt.status || !strings.Contains(string(out), tt.text) {
				t.Errorf("publish = %v, want %d with %q:\n%s", err, tt.status, tt.text, out)
			}
		})
	}
	if got := owner.messages("org/model"); len(got) != 1 {
		t.Errorf("%d versions, want 1", len(got))
	}
}

// The permissions that the help of origins names are enough for a writer, and for a sweep.
func TestBucketLeastPolicy(t *testing.T) {
	t.Parallel()
	server := origintest.ServeS3(t)
	server.AddUser(t, "WRITER", "writer-secret")
	writer := []string{"s3:GetObject", "s3:ListBucket", "s3:PutObject", "s3:DeleteObject"}
	server.Allow(t, "WRITER", writer...)
	c := newBucketClient(t, server, server.URL)
	c.env = append(c.env, "AWS_ACCESS_KEY_ID=WRITER", "AWS_SECRET_ACCESS_KEY=writer-secret")
	folder := folderWith(t, "content")
	harness.WriteFile(t, filepath.Join(folder, "large"), harness.Noise(1, 40<<20)) // a multipart upload
	c.run("publish", c.address, "org/model", folder)
	harness.WriteFile(t, filepath.Join(folder, "file"), []byte("other"))
	c.run("publish", "--listing", c.address, "org/model", folder)
	c.run("delete", c.address, "org/model@0")
	c.run("verify", c.address)
	server.Allow(t, "WRITER", append(writer, "s3:ListBucketMultipartUploads", "s3:AbortMultipartUpload")...)
	c.run("catalog", "sweep", c.address)
}
