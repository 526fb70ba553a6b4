package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A bucketClient runs xetfs with the keys of a bucket.
type bucketClient struct {
	t       *testing.T
	env     []string
	address string
}

// newBucketClient returns a client of the server at url, which leads to a bucket of s.
func newBucketClient(t *testing.T, s *origintest.S3, url string) *bucketClient {
	c := &bucketClient{t: t, env: os.Environ(), address: "s3://" + s.Bucket() + "/store"}
	for name, value := range s.Env() {
		c.env = append(c.env, name+"="+value)
	}
	c.env = append(c.env, "AWS_ENDPOINT_URL_S3="+url, "XDG_CACHE_HOME="+t.TempDir())
	return c
}

// command returns a command of xetfs on the store. The store is the argument after the flags.
func (c *bucketClient) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(harness.Program(c.t), append([]string{name}, args...)...)
	cmd.Env = c.env
	return cmd
}

// run runs a command, which must succeed.
func (c *bucketClient) run(name string, args ...string) string {
	c.t.Helper()
	var stderr strings.Builder
	cmd := c.command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("xetfs %s %q: %v\n%s%s", name, args, err, out, &stderr)
	}
	return string(out)
}

// messages returns the messages of all versions of a symbol, by version.
func (c *bucketClient) messages(symbol string) map[int]string {
	c.t.Helper()
	var doc struct {
		Changes []struct {
			Version int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(c.run("history", "--json", c.address, symbol)), &doc); err != nil {
		c.t.Fatal(err)
	}
	found := map[int]string{}
	for _, v := range doc.Changes {
		found[v.Version] = v.Message
	}
	return found
}

// folderWith returns a folder with one file.
func folderWith(t *testing.T, text string) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestO31_PublishToBucket publishes to one symbol from 8 processes at once. No version is lost or
// doubled.
func TestO31_PublishToBucket(t *testing.T) {
	t.Parallel()
	const writers = 8
	versions := 4
	if *fullSize {
		versions = 20
	}
	server := origintest.ServeS3(t)
	c := newBucketClient(t, server, server.URL)
	c.run("publish", "--message=first", c.address, "org/model", folderWith(t, "first"))
	var wg sync.WaitGroup
	for w := range writers {
		dir := t.TempDir()
		wg.Go(func() {
			for v := range versions {
				message := fmt.Sprintf("writer %d, %d", w, v)
				if err := os.WriteFile(filepath.Join(dir, "file"), []byte(strings.Repeat(message, 1000)), 0o600); err != nil {
					t.Error(err)
				}
				for {
					out, err := c.command("publish", "--message="+message, c.address, "org/model", dir).CombinedOutput()
					var status *exec.ExitError
					if errors.As(err, &status) && status.ExitCode() == 8 {
						continue // others were faster, ten times
					}
					if err != nil {
						t.Errorf("%s: %v\n%s", message, err, out)
					}
					break
				}
			}
		})
	}
	wg.Wait()
	found := c.messages("org/model")
	seen := map[string]bool{}
	for v := range writers*versions + 1 {
		if found[v] == "" || seen[found[v]] {
			t.Errorf("version %d has message %q, which is missing or doubled", v, found[v])
		}
		seen[found[v]] = true
	}
	if len(found) != writers*versions+1 {
		t.Errorf("%d versions, want %d", len(found), writers*versions+1)
	}
	c.run("verify", c.address)
}

// isWrite reports whether a request changes the bucket.
func isWrite(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// TestO30_LostAnswers loses the answer to each write of a publish in turn. Each publish makes
// exactly one version.
func TestO30_LostAnswers(t *testing.T) {
	server := origintest.ServeS3(t)
	p := harness.NewFaultyProxy(t, server.URL, isWrite)
	c := newBucketClient(t, server, p.URL)
	address := c.address
	for n := 1; ; n++ {
		message := fmt.Sprint("lost at ", n)
		c.address = fmt.Sprint(address, n)
		c.env = append(c.env, "XDG_CACHE_HOME="+t.TempDir()) // the first writes are a probe
		p.Set(n, func(pass func()) { pass() })
		c.run("publish", "--message="+message, c.address, "org/model", folderWith(t, strings.Repeat(message, 1000)))
		reached := p.Reached()
		p.Set(0, nil)
		if found := c.messages("org/model"); len(found) != 1 || found[0] != message {
			t.Fatalf("%d versions, the first is %q, want one with %q", len(found), found[0], message)
		}
		c.run("verify", c.address)
		if !reached {
			t.Logf("%d writes", n-1)
			break
		}
	}
}

// TestO30_BucketPublishKilled kills a publish at each request in turn. The old version stays
// readable, and the next publish completes.
func TestO30_BucketPublishKilled(t *testing.T) {
	t.Parallel()
	server := origintest.ServeS3(t)
	p := harness.NewFaultyProxy(t, server.URL, func(*http.Request) bool { return true })
	c := newBucketClient(t, server, p.URL)
	old, address := folderWith(t, "old"), c.address
	for n := 1; ; n++ {
		c.address = fmt.Sprint(address, n) // every publish reads the shards of the ones before
		c.run("publish", c.address, "org/model", old)
		text := strings.Repeat(fmt.Sprint("killed at ", n), 1000)
		cmd := c.command("publish", c.address, "org/model", folderWith(t, text))
		started := make(chan struct{})
		p.Set(n, func(pass func()) {
			if n%2 == 0 {
				pass()
			}
			<-started
			_ = cmd.Process.Kill()
		})
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		close(started)
		err := cmd.Wait()
		reached := p.Reached()
		p.Set(0, nil)
		got := c.run("cat", c.address, "org/model", "file")
		if got != "old" && got != text {
			t.Fatalf("killed at request %d: the file has %d bytes, neither old nor new", n, len(got))
		}
		if !reached {
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d requests", n-1)
			break
		}
		c.run("publish", c.address, "org/model", folderWith(t, text))
		if got := c.run("cat", c.address, "org/model", "file"); got != text {
			t.Fatalf("killed at request %d: the next publish stores %d bytes, want %d", n, len(got), len(text))
		}
		c.run("verify", c.address)
	}
}
