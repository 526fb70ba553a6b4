package integration

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/writer"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var largeTree = flag.Int("large-tree", 200_000, "entries of the tree that is published without a folder")

// A large tree is mounted as quickly as a small one and needs no more memory, because only the
// listed parts are read.
func TestLargeTree(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	harness.Program(t) // building it is not what is measured
	start := time.Now()
	entries := publishLarge(t, store, *largeTree)
	t.Logf("published: %d entries in %v", entries, time.Since(start).Round(time.Millisecond))

	start = time.Now()
	m := harness.MountSource(t, store, "--symbol=large", "--memory=64MiB", "--follow=off")
	names, err := os.ReadDir(m.Path())
	if err != nil || len(names) != *largeTree/largeFolder {
		t.Fatalf("%d folders (%v)", len(names), err)
	}
	t.Logf("mounted, and its top listed: %v", time.Since(start).Round(time.Millisecond))
	rng := rand.New(rand.NewPCG(1, 1))
	start = time.Now()
	const looks = 1000
	for range looks {
		n := rng.IntN(*largeTree)
		path := m.Path(largePath(n))
		b, err := os.ReadFile(path)
		if err != nil || string(b) != fmt.Sprint(n) {
			t.Fatalf("%s: %q, %v", path, b, err)
		}
	}
	t.Logf("a file found at random and read: %v", time.Since(start)/looks)
	t.Logf("memory: %d MiB", m.Status("VmHWM")>>20)
	start = time.Now()
	out := harness.Run(t, m.Path(), "bash", "-euc", "find . | wc -l")
	t.Logf("find: %.0f entries/s", float64(entries)/time.Since(start).Seconds())
	if out != fmt.Sprintln(entries) {
		t.Errorf("find finds %s of %d entries", out, entries)
	}
	if peak := m.Status("VmHWM"); peak > (64+128)<<20 {
		t.Errorf("memory: %d MiB, want at most 64 and 128", peak>>20)
	} else {
		t.Logf("memory after it: %d MiB", peak>>20)
	}
}

const largeFolder = 10_000 // files of each folder

func largePath(n int) string {
	return fmt.Sprintf("dir-%06d/file-%09d", n/largeFolder, n)
}

// publishLarge publishes n files with a number in each, in folders of 10,000.
func publishLarge(t *testing.T, store string, n int) (entries int) {
	t.Helper()
	s, err := dir.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	p, err := writer.Open(ctx, s, origin.Pages(s), writer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := p.Begin(ctx, "large", writer.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	row, err := w.Replace(ctx, largeEntries(n))
	if err != nil {
		t.Fatal(err)
	}
	return int(row.Entries)
}

// largeEntries yields them in the order of their keys: a folder's entries one after the
// other, then what is in them.
func largeEntries(n int) iter.Seq2[page.Entry, error] {
	when := time.Unix(1_700_000_000, 0)
	return func(yield func(page.Entry, error) bool) {
		if !yield(page.Entry{Type: page.Dir, Mode: 0o755, ModTime: when}, nil) {
			return
		}
		for d := 0; d*largeFolder < n; d++ {
			if !yield(page.Entry{Path: filepath.Dir(largePath(d * largeFolder)), Type: page.Dir, Mode: 0o755, ModTime: when}, nil) {
				return
			}
		}
		for i := range n {
			content := fmt.Append(nil, i)
			e := page.Entry{Path: largePath(i), Mode: 0o644, ModTime: when, Size: int64(len(content)), Inline: content}
			if !yield(e, nil) {
				return
			}
		}
	}
}
