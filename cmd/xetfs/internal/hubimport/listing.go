package hubimport

import (
	"encoding/hex"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/tree"
)

// A listing is the sorted listing of a commit.
type listing struct {
	time  time.Time // of the commit
	files sorter    // by page.Key
	plain sorter    // files outside Xet, by name in hex
	last  string    // folder of the last entry

	rejected int
	example  error // why the first one was rejected
}

// newListing returns an empty listing whose runs are in a folder.
func newListing(folder string, at time.Time) *listing {
	return &listing{time: at, files: sorter{dir: folder, max: runBytes}, plain: sorter{dir: folder, max: runBytes / 3}}
}

func (l *listing) close() {
	l.files.close()
	l.plain.close()
}

// read reads the listing below a folder of the repository.
func (l *listing) read(entries iter.Seq2[hub.Entry, error], folder string) error {
	for e, err := range entries {
		if err != nil {
			return err
		}
		path, ok := below(e.Path, folder)
		if !ok {
			continue // the Hub lists a/bc for the folder a/b of a bucket
		}
		if err := l.add(path, e); err != nil {
			return err
		}
	}
	return l.files.add(record{Entry: hub.Entry{Dir: true}})
}

// below returns a path from a folder on.
func below(path, folder string) (string, bool) {
	if folder == "" {
		return path, true
	}
	return strings.CutPrefix(path, folder+"/")
}

// add adds an entry, and the folders that it is in.
func (l *listing) add(path string, e hub.Entry) error {
	if err := checkEntry(path, &e); err != nil {
		l.reject(err)
		return nil
	}
	if f, ok := e.Plain(); ok {
		sum := f.Hash()
		if err := l.plain.add(record{hex.EncodeToString(sum[:]), e}); err != nil {
			return err
		}
	}
	e.Path = path
	if err := l.files.add(record{page.Key(path), e}); err != nil {
		return err
	}
	dir := tree.Parent(path)
	for at := dir; at != "" && at != l.last; at = tree.Parent(at) {
		if err := l.files.add(record{page.Key(at), hub.Entry{Path: at, Dir: true}}); err != nil {
			return err
		}
	}
	l.last = dir
	return nil
}

// checkEntry returns an error for an entry that is left out.
func checkEntry(path string, e *hub.Entry) error {
	if err := checkName(path); err != nil {
		return err
	}
	f, ok := e.Plain()
	if !ok {
		return nil
	}
	link := plainEntry(&f)
	if err := link.Check(); err != nil { // the location is longer than the path
		return fmt.Errorf("path %.80q of a file outside Xet: %w", path, err)
	}
	return nil
}

// checkName returns an error for a path that Linux or the mount cannot have.
func checkName(path string) error {
	if path == "" {
		return fmt.Errorf("an entry without a path")
	}
	if first, _, _ := strings.Cut(path, "/"); first == ".versions" {
		return fmt.Errorf("path %.80q: the mount shows older versions there", path)
	}
	return page.CheckPath(path)
}

// reject counts an entry that is left out.
func (l *listing) reject(err error) {
	l.rejected++
	if l.example == nil {
		l.example = err
	}
}

// entries yields the entries in the order of their keys. If several have one path, the first
// one counts, and a folder precedes files. An entry that did not change since the version old keeps
// its time; old may be nil.
func (l *listing) entries(old iter.Seq2[page.Entry, error]) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		before := newCursor(old)
		defer before.stop()
		last, hasLast := record{}, false
		for r, err := range l.files.sorted() {
			if err != nil {
				yield(page.Entry{}, err)
				return
			}
			if hasLast && r.Key == last.Key {
				if !r.Entry.Dir {
					l.reject(fmt.Errorf("path %.80q: it occurs twice", r.Entry.Path))
				}
				continue
			}
			last, hasLast = r, true
			e := treeEntry(&r.Entry, l.time)
			if was := before.find(r.Key); was != nil && isSame(was, &e) {
				e.ModTime = was.ModTime
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// treeEntry returns the entry of a tree. Its time is that of the Hub, or else that of the commit.
func treeEntry(e *hub.Entry, commitTime time.Time) page.Entry {
	got := page.Entry{Path: e.Path, Type: page.Dir, Mode: 0o755, ModTime: e.ModTime}
	if got.ModTime.IsZero() {
		got.ModTime = commitTime
	}
	if got.ModTime.IsZero() || got.ModTime.Year() > 9999 || got.ModTime.Year() < 1970 {
		got.ModTime = epoch
	}
	if e.Dir {
		return got
	}
	got.Type, got.Mode, got.Size = page.File, 0o644, e.Size
	if e.Size == 0 {
		return got
	}
	got.ID.File, got.SHA256 = e.Xet, e.SHA256
	if f, ok := e.Plain(); ok {
		got.ID.File = f.Hash()
	}
	return got
}

// isSame reports whether two entries differ in their time at most.
func isSame(a, b *page.Entry) bool {
	now := *b
	now.ModTime = a.ModTime
	return a.Equal(&now)
}

// epoch is the time of all entries of the index of files outside Xet.
var epoch = time.Unix(0, 0).UTC()

// plainEntries yields the entries of the index of files outside Xet.
func (l *listing) plainEntries() iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		if !yield(page.Entry{Type: page.Dir, Mode: 0o755, ModTime: epoch}, nil) {
			return
		}
		last := ""
		for r, err := range l.plain.sorted() {
			if err != nil {
				yield(page.Entry{}, err)
				return
			}
			if r.Key == last {
				continue // the same content at another path
			}
			last = r.Key
			if f, ok := r.Entry.Plain(); ok && !yield(plainEntry(&f), nil) {
				return
			}
		}
	}
}

// plainEntry returns the entry of a file in the index.
func plainEntry(f *hub.PlainFile) page.Entry {
	sum := f.Hash()
	return page.Entry{Path: hex.EncodeToString(sum[:]), Type: page.Symlink, Mode: 0o777, ModTime: epoch, Target: location(f)}
}

// A cursor finds the entries of a tree by ascending keys.
type cursor struct {
	next func() (page.Entry, error, bool)
	stop func()
	e    page.Entry
	key  string
	ok   bool
}

func newCursor(entries iter.Seq2[page.Entry, error]) *cursor {
	if entries == nil {
		entries = func(func(page.Entry, error) bool) {}
	}
	c := &cursor{}
	c.next, c.stop = iter.Pull2(entries)
	c.advance()
	return c
}

// advance reads the next entry. An unreadable tree ends: its entries then get new times.
func (c *cursor) advance() {
	var err error
	c.e, err, c.ok = c.next()
	if c.ok = c.ok && err == nil; c.ok {
		c.key = page.Key(c.e.Path)
	}
}

// find returns the entry with a key; nil: absent.
func (c *cursor) find(key string) *page.Entry {
	for c.ok && c.key < key {
		c.advance()
	}
	if c.ok && c.key == key {
		return &c.e
	}
	return nil
}

// makeFolder makes a private folder.
func makeFolder(path string) error { return os.MkdirAll(path, 0o700) }
