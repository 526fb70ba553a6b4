package integration

import (
	"bytes"
	"cmp"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// pathsBelow returns the files below a folder in the order of a depth-first walk. sortDir sorts the
// entries of a directory; nil: by name.
func pathsBelow(t *testing.T, folder string, sortDir func([]fs.DirEntry)) (paths []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if sortDir != nil {
		sortDir(entries)
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if e.IsDir() {
			paths = append(paths, pathsBelow(t, path, sortDir)...)
		} else {
			paths = append(paths, path)
		}
	}
	return paths
}

// byInode sorts the entries of a directory by inode number, as cp does.
func byInode(entries []fs.DirEntry) {
	number := func(e fs.DirEntry) uint64 {
		info, err := e.Info()
		if err != nil {
			return 0
		}
		return info.Sys().(*syscall.Stat_t).Ino
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(number(a), number(b)) })
}

// readInOrder reads files of a mount and compares them with those of a folder. It returns the bytes.
func readInOrder(t *testing.T, m *harness.Mount, folder string, paths []string) (n int64) {
	t.Helper()
	for _, path := range paths {
		name := strings.TrimPrefix(path, m.Path("tree"))
		want, wantErr := os.ReadFile(filepath.Join(folder, name))
		got, err := os.ReadFile(path)
		if err != nil || wantErr != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v; want %d, %v", name, len(got), err, len(want), wantErr)
			return n
		}
		n += int64(len(got))
	}
	return n
}

// Files that are opened in the order of a listing or of inode numbers share requests. Random order
// costs the bytes of the files, and a walk that opens no file costs no data.
func TestRemoteSequence(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel()
	c := newSmallFileTree(t, 2000)
	s := harness.ServeRemote(t, c.stores["catalog"], "--delay=2ms")
	const footers = 300 << 10
	tests := []struct {
		name     string
		order    func(t *testing.T, m *harness.Mount) []string
		flags    []string
		requests int // most data requests per 1,000 files
		waste    int // most unneeded bytes, in percent
	}{
		{"stat", func(t *testing.T, m *harness.Mount) []string {
			pathsBelow(t, m.Path("tree"), byInode)
			return nil
		}, nil, 0, 0},
		{"listing", inOrder(nil), nil, 50, 2},
		{"listing, no handles", inOrder(nil), []string{"--open=stateless"}, 50, 2},
		{"listing, little memory", inOrder(nil), []string{"--memory=16MiB"}, 50, 5},
		{"inode numbers", inOrder(byInode), nil, 250, 10},
		{"random", func(t *testing.T, m *harness.Mount) []string {
			paths := pathsBelow(t, m.Path("tree"), nil)
			dice := rand.New(rand.NewPCG(1, 2))
			dice.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
			return paths[:c.files/4]
		}, nil, 300, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := harness.MountRemote(t, s.URL, tt.flags...)
			before := s.Traffic()
			n := readInOrder(t, m, c.folder, tt.order(t, m))
			sent := s.Since(before)
			t.Logf("%d bytes: %+v", n, sent)
			if sent.DataRequests > int64(tt.requests*c.files/1000) {
				t.Errorf("%d data requests, want at most %d for 1,000 files", sent.DataRequests, tt.requests)
			}
			if n > 0 {
				n += footers
			}
			if harness.RaceEnabled {
				tt.waste += 10 // a request that is canceled sends more before a slow program ends it
			}
			most := n + n*int64(tt.waste)/100
			if sent.DataRequests > 0 {
				most += sent.Hedged() * sent.DataBytes / sent.DataRequests
			}
			if sent.DataBytes > most {
				t.Errorf("%d bytes were sent, want at most %d", sent.DataBytes, most)
			}
			m.Quiet()
		})
	}
}

func inOrder(sortDir func([]fs.DirEntry)) func(t *testing.T, m *harness.Mount) []string {
	return func(t *testing.T, m *harness.Mount) []string { return pathsBelow(t, m.Path("tree"), sortDir) }
}

// Two readers of one directory in order share requests, too. Cached files cause no request.
func TestRemoteSequenceCached(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	c := newSmallFileTree(t, 1000)
	s := harness.ServeRemote(t, c.stores["catalog"], "--delay=2ms")
	cache := newCacheFolder(t)
	m := harness.MountSource(t, s.URL, cache.flags()...)
	before := s.Traffic()
	paths := pathsBelow(t, m.Path("tree"), nil)
	harness.Parallel(2, func(i int) { readInOrder(t, m, c.folder, paths[500*i:][:500]) })
	if n := s.Since(before).DataRequests; n > 100 {
		t.Errorf("%d data requests for two readers of 500 files", n)
	}
	m.Unmount()
	m = harness.MountSource(t, s.URL, cache.flags()...)
	before = s.Traffic()
	readInOrder(t, m, c.folder, pathsBelow(t, m.Path("tree"), nil))
	if sent := s.Since(before); sent.DataRequests != 0 {
		t.Errorf("%+v for cached files", sent)
	}
	m.Quiet()
}
