package bare

import (
	"context"
	"encoding/hex"
	iofs "io/fs"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// The folders at the top of a Catalog, sorted.
const (
	dirHash   = "by-hash"
	dirSHA256 = "by-sha256"
	dirShards = "shards"
)

var topDirs = []string{dirHash, dirSHA256, dirShards}

// A hashTree is the tree of a Catalog: arithmetic over an index.
type hashTree struct{ x *index }

func newHashTree(shards []*shardFiles) *hashTree { return &hashTree{newIndex(shards)} }

// Version implements Tree: there are none.
func (t *hashTree) Version() names.Row { return names.Row{} }

// Totals implements Tree. It counts different files, and no directories.
func (t *hashTree) Totals() (files, bytes int64) { return t.x.files, t.x.bytes }

// OneInode implements Tree. Files with the same ID differ in nothing but the path and its
// ClaimedSHA256.
func (t *hashTree) OneInode() bool { return true }

// ClaimedSHA256 returns the SHA-256 that a path in by-sha256 claims. Only the shard states
// it; a reader of the whole file compares it.
func (t *hashTree) ClaimedSHA256(path string) (sum [32]byte, ok bool) {
	name, ok := strings.CutPrefix(path, dirSHA256+"/")
	if !ok {
		return sum, false
	}
	claimed, ok := parseText(name)
	return claimed, ok
}

// A folderView is one folder of the tree: a range of the index, in the order of names.
type folderView struct {
	len  int
	name func(i int) *hexName
	row  func(i int) int       // of the index; -1: a folder
	time time.Time             // of the folder itself
	sub  func(i int) time.Time // of the folders in it, if it holds folders
	skip func(i int) bool      // omitted from listings; nil: none
}

// folder returns the folder at path, which is not the root.
func (t *hashTree) folder(path string) (folderView, bool) {
	x := t.x
	switch path {
	case dirHash:
		return folderView{
			len:  len(x.rows),
			name: func(i int) *hexName { return &x.rows[i].hash },
			row:  func(i int) int { return i },
			skip: func(i int) bool { return !x.first(i) },
			time: x.newest,
		}, true
	case dirSHA256:
		return folderView{
			len:  len(x.bySHA),
			name: func(i int) *hexName { return x.sha(x.bySHA[i]) },
			row:  func(i int) int { return int(x.bySHA[i]) },
			time: x.newest,
		}, true
	case dirShards:
		return folderView{
			len:  len(x.shards),
			name: func(i int) *hexName { return &x.shards[i].name },
			row:  func(int) int { return -1 },
			sub:  func(i int) time.Time { return x.shards[i].time },
			time: x.newest,
		}, true
	}
	if name, ok := strings.CutPrefix(path, dirShards+"/"); ok {
		return t.shardFolder(name)
	}
	return folderView{}, false
}

// shardFolder returns the folder of one shard.
func (t *hashTree) shardFolder(name string) (folderView, bool) {
	i, ok := t.shard(name)
	if !ok {
		return folderView{}, false
	}
	x, s := t.x, &t.x.shards[i]
	rows := x.byShard[s.start:s.end]
	return folderView{
		len:  len(rows),
		name: func(i int) *hexName { return &x.rows[rows[i]].hash },
		row:  func(i int) int { return int(rows[i]) },
		time: s.time,
	}, true
}

func (t *hashTree) shard(name string) (int, bool) {
	want, ok := parseText(name)
	if !ok {
		return 0, false
	}
	return slices.BinarySearchFunc(t.x.shards, &want, func(s shardRow, want *hexName) int { return s.name.compare(want) })
}

// Lookup implements Tree.
func (t *hashTree) Lookup(_ context.Context, path string) (page.Entry, error) {
	if path == "" {
		return dirEntry("", t.x.newest), nil
	}
	if f, ok := t.folder(path); ok {
		return dirEntry(path, f.time), nil
	}
	slash := strings.LastIndexByte(path, '/')
	if slash < 0 {
		return page.Entry{}, notExist(path)
	}
	f, ok := t.folder(path[:slash])
	want, isName := parseText(path[slash+1:])
	if !ok || !isName {
		return page.Entry{}, notExist(path)
	}
	i := sort.Search(f.len, func(i int) bool { return f.name(i).compare(&want) >= 0 })
	if i == f.len || *f.name(i) != want {
		return page.Entry{}, notExist(path)
	}
	return t.x.entry(f.row(i), path), nil
}

// List implements Tree.
func (t *hashTree) List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		if dir == "" {
			t.listRoot(after, yield)
			return
		}
		f, ok := t.folder(dir)
		if !ok {
			yield(page.Entry{}, notExist(dir))
			return
		}
		var buf [len("shards/") + 64 + len("/") + 64]byte
		path := append(append(buf[:0], dir...), '/')
		for i := f.after(after); i < f.len; i++ {
			if f.skip != nil && f.skip(i) {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(page.Entry{}, err)
				return
			}
			if !yield(t.entry(f, i, string(hex.AppendEncode(path, f.name(i)[:]))), nil) {
				return
			}
		}
	}
}

// All implements Tree.
func (t *hashTree) All(ctx context.Context, dir string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		e, err := t.Lookup(ctx, dir)
		if yield(e, err) && err == nil && e.Type == page.Dir {
			t.below(ctx, dir, yield)
		}
	}
}

// below yields the entries below dir in the order of their keys: all entries of a directory
// precede the entries of its subdirectories. It returns false after an error or a stop.
func (t *hashTree) below(ctx context.Context, dir string, yield func(page.Entry, error) bool) bool {
	for e, err := range t.List(ctx, dir, "") {
		if !yield(e, err) || err != nil {
			return false
		}
	}
	if dir != "" && dir != dirShards {
		return true // files only
	}
	for e, err := range t.List(ctx, dir, "") {
		if err != nil {
			yield(page.Entry{}, err)
			return false
		}
		if !t.below(ctx, e.Path, yield) {
			return false
		}
	}
	return true
}

func (t *hashTree) listRoot(after string, yield func(page.Entry, error) bool) {
	for _, name := range topDirs {
		if name > after && !yield(dirEntry(name, t.x.newest), nil) {
			return
		}
	}
}

func (t *hashTree) entry(f folderView, i int, path string) page.Entry {
	if row := f.row(i); row >= 0 {
		return t.x.entry(row, path)
	}
	return dirEntry(path, f.sub(i))
}

// after returns the first index of f whose name sorts after a given one, which need not
// exist.
func (f folderView) after(name string) int {
	if name == "" {
		return 0
	}
	var digits [2 * len(hexName{})]byte
	return sort.Search(f.len, func(i int) bool {
		hex.Encode(digits[:], f.name(i)[:])
		return string(digits[:]) > name
	})
}

func dirEntry(path string, modTime time.Time) page.Entry {
	return page.Entry{Path: path, Type: page.Dir, Mode: 0o555, ModTime: modTime}
}

// parseText is the inverse of hex.EncodeToString. Names have one spelling, so upper case
// is invalid.
func parseText(name string) (t hexName, ok bool) {
	if len(name) != 2*len(t) {
		return t, false
	}
	for i := range t {
		hi, lo := digit(name[2*i]), digit(name[2*i+1])
		if hi|lo > 15 {
			return t, false
		}
		t[i] = hi<<4 | lo
	}
	return t, true
}

// digit returns the value of a lower-case hex digit, else 0xff.
func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

func notExist(path string) error {
	return &iofs.PathError{Op: "lookup", Path: path, Err: iofs.ErrNotExist}
}
