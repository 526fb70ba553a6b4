package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/writer"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// initBucket makes a catalog whose sweeps wait for seconds instead of hours.
func initBucket(t *testing.T, s *origintest.S3, address string, window time.Duration) {
	t.Helper()
	env := s.Env()
	store, err := s3.Open(address, s3.Options{Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	settings := names.DefaultSettings("", time.Time{})
	settings.Window, settings.Grace = window, 5*time.Second
	if _, err = writer.Open(t.Context(), store, origin.Pages(store), writer.Options{Settings: settings}); err != nil {
		t.Fatal(err)
	}
}

// content returns the file of version n. Every part of it names n.
func content(n int) string { return strings.Repeat(fmt.Sprintf("%09d\n", n), 30_000) }

// versionOf returns the version of a content; -1: parts of different versions.
func versionOf(b []byte) int {
	n := -1
	if _, err := fmt.Sscanf(string(b), "%d", &n); err != nil || string(b) != content(n) {
		return -1
	}
	return n
}

// A publishClock has the time of the end of each publish.
type publishClock struct {
	mu   sync.Mutex
	ends []time.Time   // by version; guarded by mu
	lag  time.Duration // the longest; guarded by mu
}

// add notes that the next version is published.
func (c *publishClock) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, time.Now())
}

// saw notes a read that began at a time and returned version n. The lag is the time since the
// version after it was published.
func (c *publishClock) saw(n int, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n+1 < len(c.ends) {
		c.lag = max(c.lag, began.Sub(c.ends[n+1]))
	}
}

// TestO32_BucketFollow runs two mounts with --follow, a publisher, a pruner and a sweep on one
// bucket. Every read returns one whole version, no older than the one before and than --follow
// allows.
func TestO32_BucketFollow(t *testing.T) {
	harness.NeedFuse(t)
	duration := 5 * time.Second
	if *fullSize {
		duration = 10 * time.Minute
	}
	server := origintest.ServeS3(t)
	c := newBucketClient(t, server, server.URL)
	initBucket(t, server, c.address, 2*time.Second)
	for name, value := range server.Env() {
		t.Setenv(name, value) // of the mounts
	}
	folder := folderWith(t, content(0))
	c.run("publish", c.address, "org/model", folder)
	clock := new(publishClock)
	clock.add()
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var work, readers sync.WaitGroup
	last := 0
	work.Go(func() { last = publishVersions(ctx, t, c, folder, clock) })
	work.Go(func() {
		for ctx.Err() == nil {
			if out, err := c.command("catalog", "sweep", c.address).CombinedOutput(); err != nil {
				t.Errorf("sweep: %v\n%s", err, out)
			}
		}
	})
	var mounts []*harness.Mount
	for range 2 {
		m := harness.MountSource(t, c.address, "--follow=200ms", "--cache-dir=off")
		mounts = append(mounts, m)
		readers.Go(func() { readVersions(ctx, t, m.Path("org/model/file"), clock) })
	}
	readers.Wait()
	work.Wait()
	for _, m := range mounts {
		m.Shows(t, "org/model/file", []byte(content(last)))
		m.Unmount()
	}
	c.run("catalog", "check", "--data", c.address)
	t.Logf("%d versions; a mount showed an older one for at most %v", last+1, clock.lag)
	if clock.lag > 30*time.Second { // 200 ms and a request, on a machine with much else to do
		t.Errorf("a mount showed an older version for %v", clock.lag)
	}
}

// publishVersions publishes one version after another until ctx ends, and returns the last one.
// It prunes all but two.
func publishVersions(ctx context.Context, t *testing.T, c *bucketClient, folder string, clock *publishClock) (last int) {
	for ctx.Err() == nil {
		last++
		if err := os.WriteFile(filepath.Join(folder, "file"), []byte(content(last)), 0o600); err != nil {
			t.Error(err)
		}
		for _, args := range [][]string{
			{"publish", c.address, "org/model", folder},
			{"prune", "--keep-last=2", c.address, "org/model"},
		} {
			if out, err := c.command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Errorf("xetfs %q: %v\n%s", args, err, out)
			}
			if args[0] == "publish" {
				clock.add()
			}
		}
	}
	return last
}

// readVersions reads a file until ctx ends.
func readVersions(ctx context.Context, t *testing.T, path string, clock *publishClock) {
	before := 0
	for ctx.Err() == nil {
		began := time.Now()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			return
		}
		n := versionOf(b)
		clock.saw(n, began)
		if n < before {
			t.Errorf("version %d after %d", n, before)
			return
		}
		before = n
		time.Sleep(5 * time.Millisecond)
	}
}
