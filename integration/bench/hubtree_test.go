package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// treeLimit bounds one walk of the tree in seconds. Slow clients read a part of it.
const treeLimit = 20

// benchHubTree walks a source tree 25 ms away, P15.
func benchHubTree(t *testing.T, b *hubBench) {
	folder := filepath.Join(t.TempDir(), "tree")
	names := laySources(t, folder)
	harness.Publish(t, b.store, "bench/tree", folder)
	server := b.serve(t)
	for round := range *benchRounds {
		for _, c := range hubClients(t) {
			tr := &hubTree{b, c, round, len(names)}
			tr.round(t, server)
		}
	}
}

// A hubTree is one round of one client.
type hubTree struct {
	*hubBench
	client hubClient
	number int
	files  int
}

func (tr *hubTree) round(t *testing.T, server *hubServer) {
	t.Helper()
	address, link := server.connect(t, farLink)
	caches := t.TempDir()
	mount := func(how string) *mounted {
		start, requests := time.Now(), link.Requests()
		m := tr.client.mount(t, address, "bench/tree", caches)
		if _, err := os.ReadDir(m.path); err != nil {
			t.Fatal(err)
		}
		tr.note("mount until the top is listed"+how, "s", time.Since(start).Seconds())
		tr.note("mount until the top is listed"+how, "requests", float64(link.Requests()-requests))
		return m
	}
	m := mount("")
	tr.find(t, m.path, link)
	tr.tar(t, m.path, link, "cold")
	tr.tar(t, m.path, link, "warm")
	tr.note("peak memory", "MiB", float64(m.peak())/(1<<20))
	m.unmount()
	m = mount(", again")
	tr.tar(t, m.path, link, "mounted again")
	m.unmount()
}

func (tr *hubTree) note(what, unit string, value float64) {
	tr.add("P15", "source tree, "+what, unit, tr.client.name, tr.number, value)
}

// find lists the tree.
func (tr *hubTree) find(t *testing.T, folder string, link hubLink) {
	t.Helper()
	start, requests := time.Now(), link.Requests()
	out := harness.Run(t, folder, "bash", "-euc", "find . -type f | wc -l")
	if n, err := strconv.Atoi(strings.TrimSpace(out)); err != nil || n != tr.files {
		t.Fatalf("%s shows %s files, want %d", tr.client.name, out, tr.files)
	}
	tr.note("find", "s", time.Since(start).Seconds())
	tr.note("find", "requests", float64(link.Requests()-requests))
}

// tar reads the tree, at most for treeLimit.
func (tr *hubTree) tar(t *testing.T, folder string, link hubLink, how string) {
	t.Helper()
	start, requests := time.Now(), link.Requests()
	out := harness.Run(t, folder, "bash", "-uc", "timeout "+strconv.Itoa(treeLimit)+" tar --create . | tar --list 2>/dev/null | grep -vc '/$'")
	took := time.Since(start).Seconds()
	n, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil || n != tr.files && took < treeLimit {
		t.Fatalf("%s: tar has %s files after %.1f s, want %d", tr.client.name, out, took, tr.files)
	}
	tr.note("tar, "+how, "files/s", float64(n)/took)
	tr.note("tar, "+how, "requests per 1000 files", 1000*float64(link.Requests()-requests)/float64(n))
}
