package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

var manyPublishes = flag.Int("many-publishes", 0, "how many small versions TestManyPublishes publishes, 2000 in ten minutes; 0: it is skipped")

// All versions of many small publishes are in few objects after a repack and a sweep. A publish is
// then as fast as one into a young store, which the log shows.
func TestManyPublishes(t *testing.T) {
	if *manyPublishes == 0 {
		t.Skip("without -many-publishes")
	}
	t.Parallel()
	const few = 20
	old, young := newSmallStore(t), newSmallStore(t)
	for range *manyPublishes {
		old.publish()
	}
	for range few {
		young.publish()
	}
	before := old.publishes(1)
	start := time.Now()
	mustRun(t, "catalog", "repack", old.store)
	took := time.Since(start)
	sweepOld(t, old.store)
	xorbs, shards := countObjects(t, old.store, names.XorbPrefix), countObjects(t, old.store, names.ShardPrefix)
	if xorbs > few || shards > few {
		t.Errorf("%d xorbs and %d shards", xorbs, shards)
	}
	mustRun(t, "catalog", "check", "--data", old.store)
	mustRun(t, "verify", old.store)
	const rounds = 9
	var olds, youngs []time.Duration
	for range rounds {
		olds, youngs = append(olds, old.publishes(1)), append(youngs, young.publishes(1))
	}
	slices.Sort(olds)
	slices.Sort(youngs)
	o, y := olds[rounds/2], youngs[rounds/2]
	t.Logf("%d versions: repack in %v, then %d xorbs and %d shards; a publish takes %v (%v before), %v into a young store: %.2f of it",
		old.n, took, xorbs, shards, o, before, y, float64(o)/float64(y))
}

// A smallStore is a store of small versions.
type smallStore struct {
	t             *testing.T
	store, folder string
	n             int
}

func newSmallStore(t *testing.T) *smallStore {
	s := &smallStore{t: t, store: filepath.Join(t.TempDir(), "store"), folder: t.TempDir()}
	store, err := dir.Open(s.store)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := initCatalog(store, []string{"1h", "1s"}); err != nil {
		t.Fatal(err)
	}
	return s
}

// publish changes one of 20 small files and publishes the folder.
func (s *smallStore) publish() {
	s.t.Helper()
	content := bytes.Repeat(fmt.Appendf(nil, "version %d of a small file\n", s.n), 60)
	if err := os.WriteFile(filepath.Join(s.folder, fmt.Sprintf("file%d", s.n%20)), content, 0o644); err != nil {
		s.t.Fatal(err)
	}
	s.n++
	mustRun(s.t, "publish", s.store, "org/model", s.folder)
}

// publishes returns how long some publishes take.
func (s *smallStore) publishes(n int) time.Duration {
	start := time.Now()
	for range n {
		s.publish()
	}
	return time.Since(start)
}

func countObjects(t *testing.T, path, prefix string) (n int) {
	t.Helper()
	store, err := dir.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, err := range store.List(t.Context(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// ageStore makes all files of a store older.
func ageStore(t *testing.T, path string, age time.Duration) {
	t.Helper()
	old := time.Now().Add(-age)
	err := filepath.WalkDir(path, func(file string, d iofs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(file, old, old)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sweepOld sweeps a store in which everything is two days old, and waits for nothing.
func sweepOld(t *testing.T, path string) {
	t.Helper()
	ageStore(t, path, 48*time.Hour)
	store, err := dir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	now := time.Now()
	_, err = sweep.Sweep(context.Background(), store, origin.Pages(store), sweep.Options{
		Clock: func() time.Time { return now },
		Sleep: func(ctx context.Context, d time.Duration) error { now = now.Add(d); return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
}
