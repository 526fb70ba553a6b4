package bench

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/writer"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

var (
	benchShards   = flag.Int("bench-shards", 100_000, "shards of the largest store of row P18")
	benchVersions = flag.Int("bench-versions", 100_000, "versions of the largest store of row P18")
)

// benchVerify checks whole stores, row P17. It compares with the parts that no check can leave out:
// `catalog check --data`, and SHA-256 of the content on all cores.
func benchVerify(t *testing.T, r *results) {
	rate := rateSHA256() * 1e6 * float64(runtime.NumCPU())
	for _, k := range kinds[:2] {
		plain, store := filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "store")
		k.lay(t, plain, *benchMiB<<20)
		harness.Publish(t, store, "org/model", plain)
		size := float64(sizeBelow(t, plain))
		for round := range *benchRounds + 1 { // the first is not measured
			check := measure(t, harness.Program(t), "catalog", "check", "--data", store)
			verify := measure(t, harness.Program(t), "verify", store)
			if round == 0 {
				continue
			}
			add := func(what, unit string, value float64) {
				r.add(figure{"P17", k.name + ", verify of a whole store" + what, unit, ours, round - 1, value})
			}
			add("", "MB/s", size/1e6/verify.wall)
			add(": time", "% of its parts", 100*verify.wall/(check.wall+size/rate))
			add(": CPU", "s/GB", verify.cpu/(size/1e9))
		}
	}
}

// benchGrowth measures stores of growing numbers of shards and versions, row P18.
func benchGrowth(t *testing.T, r *results) {
	benchManyShards(t, r)
	benchManyVersions(t, r)
}

// sizesTo returns numbers up to a largest one that grow a hundredfold.
func sizesTo(most int) (sizes []int) {
	for n := most; n >= 10; n /= 100 {
		sizes = append([]int{n}, sizes...)
	}
	return sizes
}

// benchManyShards publishes one changed file into stores with many shards. Each shard has a xorb of
// its own.
func benchManyShards(t *testing.T, r *results) {
	plain := filepath.Join(t.TempDir(), "plain")
	stores := map[int]string{}
	sizes := sizesTo(*benchShards)
	for _, n := range sizes {
		stores[n] = filepath.Join(t.TempDir(), "store")
		layShards(t, stores[n], n)
	}
	for round := range *benchRounds + 1 { // the first makes the index, and is not measured
		least := 0.0
		for i, n := range sizes {
			harness.WriteFile(t, filepath.Join(plain, "file"), origintest.Random(uint64(round*len(sizes)+i), 100_000))
			c := measure(t, harness.Program(t), "publish", stores[n], "org/model", plain)
			if round == 0 {
				continue
			}
			what := fmt.Sprintf("publish of one file beside %d shards", n)
			r.add(figure{"P18", what, "ms", ours, round - 1, c.wall * 1e3})
			if i == 0 {
				least = c.wall
			}
			r.add(figure{"P18", what, fmt.Sprintf("x that beside %d", sizes[0]), ours, round - 1, c.wall / least})
			r.add(figure{"P18", what + ": peak memory", "MiB", ours, round - 1, c.peak / (1 << 20)})
		}
	}
}

// layShards makes a store with n shards and their xorbs. They are a day old: a publish lists folders
// with many new files as a whole.
func layShards(t *testing.T, store string, n int) {
	t.Helper()
	start := time.Now()
	content := make([]byte, 1000)
	for i := range n {
		binary.LittleEndian.PutUint64(content, uint64(i))
		b := origintest.NewBuilder(t, origintest.Form{})
		b.Add(content, len(content))
		for k, value := range b.Objects() {
			path := filepath.Join(store, string(k))
			harness.WriteFile(t, path, value)
			if err := os.Chtimes(path, start, start.Add(-24*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d shards were made in %v", n, time.Since(start).Round(time.Second))
	time.Sleep(3 * time.Second) // until the times of the folders distinguish later changes
}

// benchManyVersions measures commands over symbols with many versions.
func benchManyVersions(t *testing.T, r *results) {
	stores := map[int]string{}
	sizes := sizesTo(*benchVersions)
	for _, n := range sizes {
		stores[n] = filepath.Join(t.TempDir(), "store")
		commitVersions(t, stores[n], n)
	}
	commands := map[string][]string{
		"history": {"history", "STORE", "org/model"}, "ls": {"ls", "STORE", "org/model"}, "ls of all symbols": {"ls", "STORE"},
		"check": {"catalog", "check", "STORE"}, "dry sweep": {"catalog", "sweep", "--dry-run", "STORE"},
	}
	for round := range *benchRounds {
		for name, command := range commands {
			for _, n := range sizes {
				args := append([]string(nil), command...)
				for i := range args {
					if args[i] == "STORE" {
						args[i] = stores[n]
					}
				}
				c := measure(t, harness.Program(t), args...)
				what := fmt.Sprintf("%s, %d versions", name, n)
				r.add(figure{"P18", what, "ms", ours, round, c.wall * 1e3})
				r.add(figure{"P18", what + ": peak memory", "MiB", ours, round, c.peak / (1 << 20)})
			}
		}
		for _, n := range sizes {
			start := time.Now()
			m := harness.MountSource(t, stores[n])
			if _, err := os.ReadFile(m.Path("org/model", "file")); err != nil {
				t.Fatal(err)
			}
			r.add(figure{"P18", fmt.Sprintf("mount until a file is read, %d versions", n), "ms", ours, round, time.Since(start).Seconds() * 1e3})
			m.Unmount()
		}
	}
}

// commitVersions makes a store with n versions of a small tree. It makes them in memory, because a
// folder makes each one durable.
func commitVersions(t *testing.T, store string, n int) {
	t.Helper()
	start, ctx := time.Now(), context.Background()
	memory := origintest.LocalMemory()
	w, err := writer.Open(ctx, memory, origin.Pages(memory), writer.Options{})
	for i := 0; i < n && err == nil; i++ {
		var session *writer.Session
		if session, err = w.Begin(ctx, "org/model", writer.PublishOptions{}); err == nil {
			_, err = session.Replace(ctx, numbered(i))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for item, err := range memory.List(ctx, "", "") {
		var value []byte
		if err == nil {
			value, _, err = memory.Get(ctx, item.Key, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		harness.WriteFile(t, filepath.Join(store, string(item.Key)), value)
	}
	t.Logf("%d versions were made in %v", n, time.Since(start).Round(time.Second))
}

// numbered yields a tree with one file that has a number.
func numbered(n int) iter.Seq2[page.Entry, error] {
	when := time.Unix(1_700_000_000, 0)
	text := fmt.Append(nil, n)
	return func(yield func(page.Entry, error) bool) {
		if yield(page.Entry{Type: page.Dir, Mode: 0o755, ModTime: when}, nil) {
			yield(page.Entry{Path: "file", Mode: 0o644, ModTime: when, Size: int64(len(text)), Inline: text}, nil)
		}
	}
}
