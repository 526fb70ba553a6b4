package integration

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// Keys that may only read, and a public bucket without keys, mount a bucket of a real server. A
// publish ends with one sentence and changes nothing.
func TestBucketPermissions(t *testing.T) {
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
