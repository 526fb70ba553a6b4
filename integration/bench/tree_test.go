package bench

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A tree is a folder of many small files, in every file system that shows a folder.
type tree struct {
	names []string          // in the order of a walk
	large []string          // those above smallFile bytes
	sums  map[string]uint32 // CRC-32C of each
}

// smallFile is the size in bytes of the largest file that is pushed.
const smallFile = 128 << 10

// walks are programs that read all files of PATHS in the order of its listings. COPY is a folder in
// memory.
var walks = map[string]string{
	"tar":     "tar --create PATHS | cat >/dev/null",
	"grep -r": "! grep --recursive --fixed-strings 'a text that no file has' PATHS",
	"cp -r":   "mkdir COPY; cp --recursive --parents PATHS COPY; rm --recursive COPY",
}

// benchTree reads a source tree with tar, grep and cp, row P7: every folder listed, every file
// opened, read and closed.
func benchTree(t *testing.T, r *results) {
	dir := t.TempDir()
	plain, storeDir := filepath.Join(dir, "plain"), filepath.Join(dir, "store")
	folder := filepath.Join(plain, "file") // where systems have their one file
	tr := &tree{names: laySources(t, folder), sums: map[string]uint32{}}
	harness.Publish(t, storeDir, "tree", folder)
	tr.each(t, folder, func(name string, b []byte) {
		tr.sums[name] = crc32.Checksum(b, harness.Castagnoli)
		if len(b) > smallFile {
			tr.large = append(tr.large, name)
		}
	})
	all := []system{
		{ours, func(t *testing.T, flags ...string) *mounted { return mountTree(t, storeDir, flags...) }},
		{ext4, func(t *testing.T, _ ...string) *mounted {
			for _, name := range tr.names {
				harness.DropPages(t, filepath.Join(folder, name))
			}
			return &mounted{path: folder, unmount: func() {}}
		}},
	}
	all = append(all, images(t, dir, plain)...)
	for round := range *benchRounds {
		for _, s := range all {
			tr.round(t, r, s, round)
		}
		tr.measure(t, r, all[0], round, "tar", ", --open=handles", "--open=handles")
		tr.measure(t, r, all[0], round, "tar", ", --push=off", "--push=off")
	}
}

// mountTree mounts the tree of a store that has one.
func mountTree(t *testing.T, storeDir string, flags ...string) *mounted {
	m := harness.MountSource(t, storeDir, append([]string{"--symbol=tree", "--follow=off"}, flags...)...)
	return &mounted{m.Dir, sync.OnceFunc(m.Unmount), noProcess, func() int64 { return m.Status("VmHWM") }}
}

// round measures one system once.
func (tr *tree) round(t *testing.T, r *results, s system, round int) {
	t.Helper()
	m := s.mount(t)
	t.Cleanup(m.unmount)
	tr.each(t, m.path, func(name string, b []byte) {
		if crc32.Checksum(b, harness.Castagnoli) != tr.sums[name] {
			t.Fatalf("%s: %s: its sum is wrong (I1)", s.name, name)
		}
	})
	m.unmount()
	for _, walk := range slices.Sorted(maps.Keys(walks)) {
		tr.measure(t, r, s, round, walk, "")
	}
}

// measure walks through a fresh mount twice, first without cached pages.
func (tr *tree) measure(t *testing.T, r *results, s system, round int, walk, how string, flags ...string) {
	t.Helper()
	ofLarge := tr.readsOfLarge(t, s, walk, flags...)
	m := s.mount(t, flags...)
	defer m.unmount()
	for _, what := range []string{"source tree, cold, ", "source tree, warm, "} {
		took, messages := tr.walk(t, s, m, walk, ".")
		r.add(figure{"P7", what + walk + how, "s", s.name, round, took.Seconds()})
		if messages != nil {
			small := float64(messages.reads-ofLarge) / float64(len(tr.names)-len(tr.large))
			r.add(figure{"P7", what + walk + how + ": READ", "messages a small file", s.name, round, small})
			r.add(figure{"P7", what + walk + how + ": others", "messages a folder", s.name, round, float64(messages.others) / float64(tr.folders())})
		}
		ofLarge = 0 // their pages are cached
	}
}

// readsOfLarge returns how many READ the large files alone take, cold.
func (tr *tree) readsOfLarge(t *testing.T, s system, walk string, flags ...string) int {
	t.Helper()
	if s.name != ours {
		return 0
	}
	m := s.mount(t, flags...)
	defer m.unmount()
	if _, messages := tr.walk(t, s, m, walk, tr.large...); messages != nil {
		return messages.reads
	}
	return 0
}

// walk reads paths of a mount with a program. The messages are nil if they cannot be counted.
func (tr *tree) walk(t *testing.T, s system, m *mounted, walk string, paths ...string) (took time.Duration, sent *messages) {
	t.Helper()
	folder := filepath.Join("/dev/shm", fmt.Sprint("xetfs-bench-", os.Getpid()))
	command := strings.NewReplacer("COPY", folder, "PATHS", strings.Join(paths, " ")).Replace(walks[walk])
	var counter *messageCounter
	if s.name == ours {
		counter = countMessages(t, m.path)
	}
	start := time.Now()
	harness.Run(t, m.path, "bash", "-euc", command)
	took = time.Since(start)
	if counter != nil {
		sent = counter.end(t)
	}
	return took, sent
}

// folders returns the number of folders.
func (tr *tree) folders() int {
	all := map[string]bool{}
	for _, name := range tr.names {
		for dir := filepath.Dir(name); !all[dir]; dir = filepath.Dir(dir) {
			all[dir] = true
		}
	}
	return len(all)
}

// each reads all files.
func (tr *tree) each(t *testing.T, folder string, do func(name string, b []byte)) {
	t.Helper()
	var buf bytes.Buffer
	for _, name := range tr.names {
		f, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		buf.Reset()
		_, err = io.Copy(&buf, f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		do(name, buf.Bytes())
	}
}
