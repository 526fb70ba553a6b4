package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// rclone copies a store from a bucket to another bucket, to a folder and back. All copies are
// sound and have the same tree.
func TestBucketCopiedByRclone(t *testing.T) {
	t.Parallel()
	harness.NeedTool(t, "rclone")
	server := origintest.ServeS3(t)
	c := newBucketClient(t, server, server.URL)
	folder := t.TempDir()
	harness.WriteFile(t, filepath.Join(folder, "large"), harness.Noise(3, 20<<20))
	harness.WriteFile(t, filepath.Join(folder, "sub", "a name with % and +"), []byte("content"))
	if err := os.Symlink("large", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	c.run("publish", "--listing", c.address, "org/model", folder)
	c.run("publish", c.address, "org/other", filepath.Join(folder, "sub"))
	if err := os.Mkdir(filepath.Join(server.Folder, "xetfs-other"), 0o700); err != nil {
		t.Fatal(err)
	}
	local := filepath.Join(t.TempDir(), "store")
	c.rclone(server, "copy", "s3:"+server.Bucket()+"/store", "s3:xetfs-other/a/copy")
	c.rclone(server, "copy", "s3:"+server.Bucket()+"/store", local)
	c.rclone(server, "copy", local, "s3:xetfs-other/back")
	openToAll(t, filepath.Dir(local))
	harness.Run(t, "", "chmod", "-R", "a+rX", local)
	if got := c.run("ls", webServers[1].start(t, local)); got != "org/model\norg/other\n" {
		t.Errorf("symbols behind a web server are %q", got)
	}
	for _, source := range []string{c.address, "s3://xetfs-other/a/copy", local, "s3://xetfs-other/back"} {
		copied := *c
		copied.address = source
		m := mountBucket(t, &copied, "--cache-dir=off")
		harness.Run(t, "", "diff", "-r", "--no-dereference", folder, m.Path("org/model"))
		harness.Run(t, "", "diff", "-r", filepath.Join(folder, "sub"), m.Path("org/other"))
		m.Quiet()
		m.Unmount()
		copied.run("verify", source)
		copied.run("catalog", "check", "--data", source)
		harness.WriteFile(t, filepath.Join(folder, "new"), []byte(source))
		copied.run("publish", source, "org/model", folder)
		if got := copied.run("cat", source, "org/model", "new"); got != source {
			t.Errorf("%s: a new version has %q", source, got)
		}
		if err := os.Remove(filepath.Join(folder, "new")); err != nil {
			t.Fatal(err)
		}
	}
}

// rclone runs rclone with the server as the remote s3.
func (c *bucketClient) rclone(server *origintest.S3, args ...string) {
	c.t.Helper()
	cmd := exec.Command("rclone", append([]string{"--config="}, args...)...)
	cmd.Env = append(c.env, "AWS_CA_BUNDLE=", "RCLONE_CONFIG_S3_TYPE=s3", "RCLONE_CONFIG_S3_PROVIDER=Other",
		"RCLONE_CONFIG_S3_ENDPOINT="+server.URL, "RCLONE_CONFIG_S3_ACCESS_KEY_ID="+server.Access,
		"RCLONE_CONFIG_S3_SECRET_ACCESS_KEY="+server.Secret)
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("rclone %q: %v\n%s", args, err, out)
	}
}
