package bench

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

var benchEntries = flag.Int("bench-entries", 1_000_000, "files of the tree of row P8")

// benchNames lists a tree of 1,000,000 files, row P8: their names, and all that stat
// says. Half of them are in folders of a thousand, the other half in folders of ten.
func benchNames(t *testing.T, r *results) {
	dir := t.TempDir()
	plain, storeDir := filepath.Join(dir, "plain"), filepath.Join(dir, "store")
	folder := filepath.Join(plain, "file")
	entries := layNames(t, folder)
	p := harness.Publish(t, storeDir, "tree", folder)
	r.add(figure{"P8", "publish of a new tree", "s", ours, 0, p.Seconds})
	p = harness.Publish(t, storeDir, "tree", folder)
	r.add(figure{"P8", "publish of it, unchanged", "s", ours, 0, p.Seconds})
	all := []system{
		{ours, func(t *testing.T, flags ...string) *mounted { return mountTree(t, storeDir, flags...) }},
		{ext4, func(*testing.T, ...string) *mounted { return &mounted{path: folder, unmount: func() {}} }},
	}
	all = append(all, images(t, dir, plain)...)
	for round := range *benchRounds {
		for _, s := range all {
			if s.name == squashfuse && round > 0 {
				continue // it takes minutes, and no target names it
			}
			listNames(t, r, s, round, entries)
		}
	}
}

// listNames measures one system once. Each way of listing begins with a new mount.
func listNames(t *testing.T, r *results, s system, round int, entries int) {
	t.Helper()
	for _, how := range []struct{ what, script string }{
		{"find", "find . | wc -l"},
		{"ls -l", "ls -lRU --time-style=+%s | wc -l"},
		{"find -size", "find . -size +100M | wc -l"},
	} {
		start := time.Now()
		m := s.mount(t)
		t.Cleanup(m.unmount)
		if _, err := os.ReadDir(m.path); err != nil {
			t.Fatal(err)
		}
		if how.what == "find" && s.name != ext4 {
			r.add(figure{"P8", "mount until the top is listed", "ms", s.name, round, time.Since(start).Seconds() * 1e3})
		}
		start = time.Now()
		list := exec.Command("bash", "-euc", how.script) // without the limit that run has
		list.Dir = m.path
		if out, err := list.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", how.script, err, harness.Tail(string(out), 1000))
		}
		r.add(figure{"P8", how.what, "entries/s", s.name, round, float64(entries) / time.Since(start).Seconds()})
		if m.peak != nil {
			r.add(figure{"P8", how.what + ": peak memory", "MiB", s.name, round, float64(m.peak()) / (1 << 20)})
		}
		m.unmount()
	}
}

// layNames makes the tree and returns how many entries it has.
func layNames(t *testing.T, folder string) (entries int) {
	t.Helper()
	left := *benchEntries
	lay := func(dir string, n int) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		n = min(n, left)
		for i := range n {
			harness.WriteFile(t, filepath.Join(dir, fmt.Sprintf("file-%07d.json", i)), strconv.AppendInt(nil, int64(left-i), 10))
		}
		left -= n
		entries += n + 1
	}
	for d := 0; left > *benchEntries/2; d++ {
		lay(filepath.Join(folder, fmt.Sprintf("large-%03d", d)), 1000)
	}
	for d := 0; left > 0; d++ {
		if d%100 == 0 {
			entries++
		}
		lay(filepath.Join(folder, fmt.Sprintf("many-%03d", d/100), fmt.Sprintf("small-%02d", d%100)), 10)
	}
	return entries + 1
}
