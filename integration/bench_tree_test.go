package integration

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A tree is a folder of many small files, in every file system that shows a folder.
type tree struct {
	names  []string          // in the order of a walk
	sums   map[string]uint32 // CRC-32C of each
	stored map[string]Stored
}

// benchTree reads every file of a source tree by its name, row P7. A store of shards and
// xorbs has no names, so in xetfs a file is opened by its hash.
func benchTree(t *testing.T, r *results) {
	dir := t.TempDir()
	plain, storeDir := filepath.Join(dir, "plain"), filepath.Join(dir, "store")
	folder := filepath.Join(plain, "file") // where systems have their one file
	tr := &tree{names: laySources(t, folder), sums: map[string]uint32{}}
	tr.stored = storeFolder(t, storeDir, folder, kinds[0].scheme)
	tr.each(t, func(name string) string { return filepath.Join(folder, name) }, func(name string, b []byte) {
		tr.sums[name] = crc32.Checksum(b, castagnoli)
	})
	all := []system{
		{ours, func(t *testing.T, _ ...string) *mounted {
			m := mountXetfs(t, storeDir, Stored{})
			m.path = filepath.Dir(m.path)
			return m
		}},
		{ext4, func(t *testing.T, _ ...string) *mounted {
			for _, name := range tr.names {
				dropPages(t, filepath.Join(folder, name))
			}
			return &mounted{folder, func() {}, noProcess}
		}},
	}
	all = append(all, images(t, dir, plain)...)
	for round := range *benchRounds {
		for _, s := range all {
			tr.round(t, r, s, round)
		}
	}
}

// round measures one system once.
func (tr *tree) round(t *testing.T, r *results, s system, round int) {
	t.Helper()
	m := s.mount(t)
	t.Cleanup(m.unmount)
	tr.each(t, tr.path(s, m), func(name string, b []byte) {
		if crc32.Checksum(b, castagnoli) != tr.sums[name] {
			t.Fatalf("%s: %s: its sum is wrong (I1)", s.name, name)
		}
	})
	m.unmount()
	m = s.mount(t)
	defer m.unmount()
	for _, what := range []string{"source tree, cold, every file", "source tree, warm, every file"} {
		start := time.Now()
		tr.each(t, tr.path(s, m), func(string, []byte) {})
		r.add(figure{"P7", what, "s", s.name, round, time.Since(start).Seconds()})
	}
}

// path says where a system has a file.
func (tr *tree) path(s system, m *mounted) func(name string) string {
	return func(name string) string {
		if s.name == ours {
			name = tr.stored[name].Hash.String()
		}
		return filepath.Join(m.path, name)
	}
}

// each reads all files.
func (tr *tree) each(t *testing.T, path func(name string) string, do func(name string, b []byte)) {
	t.Helper()
	var buf bytes.Buffer
	for _, name := range tr.names {
		f, err := os.Open(path(name))
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
