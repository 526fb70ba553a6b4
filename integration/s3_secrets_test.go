package integration

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// TestS08_BucketSecrets runs commands with and without errors of O21 to O23. Keys, session token
// and signatures appear in no output and in no file.
func TestS08_BucketSecrets(t *testing.T) {
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
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, s := range secrets {
			if bytes.Contains(b, []byte(s)) {
				t.Errorf("%s contains %q", path, s)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
