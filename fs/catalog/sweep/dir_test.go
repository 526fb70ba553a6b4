package sweep_test

import (
	"crypto/rand"
	iofs "io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// age makes everything in a folder older.
func age(t *testing.T, root string, by time.Duration) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d iofs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chtimes(path, time.Time{}, info.ModTime().Add(-by))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// onDisk returns a store as withGarbage does, in a folder. Its own clock is the real one.
func onDisk(t *testing.T) (c *fixture, root string) {
	root = t.TempDir()
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	c = &fixture{t: t, now: time.Now()}
	c.use(s)
	c.fill()
	age(t, root, time.Hour)
	return c, root
}

func TestSweepDir(t *testing.T) {
	c, root := onDisk(t)
	stray, fresh := filepath.Join(root, "tmp", rand.Text()), filepath.Join(root, "tmp", rand.Text())
	for _, path := range []string{stray, fresh} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(stray, time.Time{}, time.Now().Add(-25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	r := c.sweep(sweep.Options{})
	if n := objects(r.Deleted); n["shard"] != 1 || n["xorb"] != 1 || n["index page"] < 3 {
		t.Errorf("deleted %v", n)
	}
	if _, err := os.Stat(stray); err == nil || r.Strays != 1 {
		t.Errorf("an old unfinished file stays: %v; %d were removed, want 1", err == nil, r.Strays)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("a new unfinished file: %v", err)
	}
	c.check()
	if r := c.sweep(sweep.Options{}); len(r.Deleted) != 0 || r.Strays != 0 {
		t.Errorf("deleted %v and %d unfinished files, once more", r.Deleted, r.Strays)
	}
}

// A sweep of a folder is killed at any moment, too.
func TestSweepDirKilled(t *testing.T) {
	for n, alive := 1, true; alive; n += 12 {
		c, root := onDisk(t)
		f := origintest.WithFaults(c.store)
		f.CrashAt = n
		_, _ = c.sweepOver(f, sweep.Options{}) // the error is that of the crash, or of an end that was lost
		alive = f.Crashed()
		c.check()
		for range 3 {
			age(t, root, time.Hour)
			c.sweep(sweep.Options{})
		}
		c.check()
		if r := c.sweep(sweep.Options{DryRun: true}); len(r.Garbage)+len(r.Young) != 0 {
			t.Errorf("killed at call %d: garbage %v and young %v stay", n, r.Garbage, r.Young)
		}
	}
}
