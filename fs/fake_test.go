package fs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/sequence"
	"github.com/xetfs/xetfs/reconstruct"
)

// A fakeTree is a tree and a catalog of it. The folders of its entries exist too.
type fakeTree struct {
	byPath map[string]page.Entry
	byDir  map[string][]page.Entry
	err    map[string]error // of Lookup
	listed error            // of List, behind all entries
	row    names.Row
	ending chan bool            // List says behind all entries that it has ended, and waits for an answer
	lists  atomic.Int64         // calls of List
	slow   map[string]chan bool // Lookup of a path says that it was called, and waits for an answer
}

var then = time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC)

func newFakeTree(entries ...page.Entry) *fakeTree {
	t := &fakeTree{byPath: map[string]page.Entry{"": {Type: page.Dir, Mode: 0o555, ModTime: then}}, byDir: map[string][]page.Entry{}}
	for _, e := range entries {
		if e.Mode == 0 {
			e.Mode = 0o444
		}
		if e.ModTime.IsZero() {
			e.ModTime = then
		}
		t.add(e)
	}
	for dir := range t.byDir {
		slices.SortFunc(t.byDir[dir], func(a, b page.Entry) int { return cmp.Compare(a.Path, b.Path) })
	}
	return t
}

func (t *fakeTree) add(e page.Entry) {
	dir := parent(e.Path)
	if _, ok := t.byPath[dir]; !ok {
		t.add(page.Entry{Path: dir, Type: page.Dir, Mode: 0o555, ModTime: then})
	}
	t.byPath[e.Path] = e
	t.byDir[dir] = append(t.byDir[dir], e)
}

func (t *fakeTree) Version() names.Row { return t.row }

func (t *fakeTree) OneInode() bool { return false }

func (t *fakeTree) All(ctx context.Context, dir string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		e, err := t.Lookup(ctx, dir)
		if !yield(e, err) || err != nil {
			return
		}
		for e, err := range catalog.Walk(ctx, t, dir) {
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (t *fakeTree) Totals() (files, bytes int64) {
	for _, e := range t.byPath {
		if e.Type == page.File {
			files, bytes = files+1, bytes+e.Size
		}
	}
	return files, bytes
}

func (t *fakeTree) Lookup(_ context.Context, path string) (page.Entry, error) {
	if err := t.err[path]; err != nil {
		return page.Entry{}, err
	}
	if c := t.slow[path]; c != nil {
		c <- true
		<-c
	}
	if e, ok := t.byPath[path]; ok {
		return e, nil
	}
	return page.Entry{}, iofs.ErrNotExist
}

func (t *fakeTree) List(_ context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		t.lists.Add(1)
		for _, e := range t.byDir[dir] {
			if nameOf(dir, e.Path) > after && !yield(e, nil) {
				return
			}
		}
		if t.ending != nil {
			t.ending <- true
			<-t.ending
		}
		if t.listed != nil {
			yield(page.Entry{}, t.listed)
		}
	}
}

// nameOf is base for paths that are in dir.
func nameOf(dir, path string) string {
	name, _ := base(dir, path)
	return name
}

func (t *fakeTree) Symbols(context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { yield("", nil) }
}

func (t *fakeTree) Open(context.Context, string, names.AsOf) (catalog.Tree, error) { return t, nil }

// A fakeEngine reads files from memory, by the first bytes of their hash.
type fakeEngine struct {
	mu      sync.RWMutex
	data    map[codec.Hash][]byte // guarded by mu
	openErr atomic.Pointer[error]
	readErr atomic.Pointer[error]
	block   chan struct{} // reads wait for it, if it is not nil, or for their context
	panics  atomic.Bool
	reading atomic.Int64 // reads under way
	streams atomic.Int64 // streams that are open

	kept   map[codec.Hash]string   // paths of materialized files; guarded by mu
	sums   map[codec.Hash][32]byte // proven; guarded by mu
	plains atomic.Int64            // of those, open

	unproven   bool              // it does not prove its files
	remote     bool              // it has readahead of whole files
	announced  chan codec.FileID // files that were announced; nil: they are not recorded
	announcers atomic.Int64      // open ones

	writeOnly atomic.Bool // they are opened so that they cannot be read
	rotten    atomic.Bool // they are known to be damaged
}

func newFakeEngine() *fakeEngine { return &fakeEngine{data: map[codec.Hash][]byte{}} }

// file adds a file to the engine and returns the entry for it.
func (e *fakeEngine) file(path string, data []byte) page.Entry {
	h := codec.Hash{31: 1}
	copy(h[:30], path)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.data[h] = data
	return page.Entry{Path: path, Size: int64(len(data)), ID: codec.FileID{File: h}}
}

func (e *fakeEngine) open(_ context.Context, id codec.FileID, _ int64) (rangeReader, int64, error) {
	if err := e.openErr.Load(); err != nil {
		return nil, 0, *err
	}
	e.mu.RLock()
	data, ok := e.data[id.File]
	e.mu.RUnlock()
	if !ok {
		return nil, 0, errors.New("fake engine: no such file")
	}
	e.streams.Add(1)
	return &fakeContent{e, data}, int64(len(data)), nil
}

func (e *fakeEngine) cached(context.Context, codec.FileID) (int, error) { return 7, nil }

func (e *fakeEngine) verified(context.Context, codec.FileID) (string, error) {
	if err := e.openErr.Load(); err != nil {
		return "", *err
	}
	return "chunk", nil
}

func (e *fakeEngine) openBacking(id codec.FileID) (backing, bool) {
	e.mu.RLock()
	path, ok := e.kept[id.File]
	e.mu.RUnlock()
	if !ok {
		return nil, false
	}
	how := os.O_RDONLY
	if e.writeOnly.Load() {
		how = os.O_WRONLY
	}
	f, err := os.OpenFile(path, how, 0)
	if err != nil {
		return nil, false
	}
	e.plains.Add(1)
	return &fakePlain{f, e, sizeOf(f)}, true
}

func (e *fakeEngine) backingWasCorrupt(codec.FileID) bool { return e.rotten.Load() }

// keep lays a file of the engine down whole in a folder.
func (e *fakeEngine) keep(t testing.TB, dir string, file page.Entry) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	path := filepath.Join(dir, file.ID.File.String())
	if _, err := os.Stat(path); err != nil {
		if err := os.WriteFile(path, e.data[file.ID.File], 0o600); err != nil {
			t.Error(err)
		}
	}
	if e.kept == nil {
		e.kept = map[codec.Hash]string{}
	}
	e.kept[file.ID.File] = path
}

// drop removes a materialized file from the engine.
func (e *fakeEngine) drop(file page.Entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.kept, file.ID.File)
}

// A fakePlain is an open materialized file.
type fakePlain struct {
	*os.File
	e    *fakeEngine
	size int64
}

func (p *fakePlain) Sound() bool { return !p.e.rotten.Load() && sizeOf(p) == p.size }

func (p *fakePlain) Close() error {
	p.e.plains.Add(-1)
	return p.File.Close()
}

func (e *fakeEngine) SHA256(file codec.Hash) (sum [32]byte, ok bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	sum, ok = e.sums[file]
	return sum, ok
}

func (e *fakeEngine) ProveSHA256(file codec.Hash, sum [32]byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sums == nil {
		e.sums = map[codec.Hash][32]byte{}
	}
	e.sums[file] = sum
}

func (e *fakeEngine) CheckSHA256(id codec.FileID, want [32]byte) error {
	if got, ok := e.SHA256(id.File); ok && got != want {
		return reconstruct.WrongSHA256(id, got, want)
	}
	return nil
}

func (e *fakeEngine) proves() bool { return !e.unproven }

func (e *fakeEngine) onCorrupt(func(codec.FileID)) {}

func (e *fakeEngine) isLocal() bool { return !e.remote }

func (e *fakeEngine) newAnnouncer() sequence.Announcer {
	e.announcers.Add(1)
	return fakeAnnouncer{e}
}

func (e *fakeEngine) stats() any { return map[string]int{"Misses": 7} }

// A fakeAnnouncer records the files that it gets.
type fakeAnnouncer struct{ e *fakeEngine }

func (a fakeAnnouncer) Announce(ctx context.Context, ids []codec.FileID) {
	for _, id := range ids {
		select {
		case a.e.announced <- id:
		case <-ctx.Done():
		}
	}
}

func (a fakeAnnouncer) Close() error {
	a.e.announcers.Add(-1)
	return nil
}

// A fakeContent is an open file of a fakeEngine.
type fakeContent struct {
	e    *fakeEngine
	data []byte
}

func (c *fakeContent) Close() error {
	c.e.streams.Add(-1)
	return nil
}

func (c *fakeContent) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	c.e.reading.Add(1)
	defer c.e.reading.Add(-1)
	if c.e.panics.Load() {
		panic("the fake engine was told to")
	}
	if err := c.e.readErr.Load(); err != nil {
		return 0, *err
	}
	if c.e.block != nil {
		select {
		case <-c.e.block:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if off >= int64(len(c.data)) {
		return 0, io.EOF
	}
	n := copy(p, c.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// A mountFixture is a mount of a test.
type mountFixture struct {
	dir string
	s   *Server
}

func (m mountFixture) path(name string) string { return m.dir + "/" + name }

// mountHere mounts what this process reads itself.
func mountHere(dir string, c catalog.Catalog, e engine, o Options) (*Server, error) {
	s, err := mount(dir, c, e, o)
	if err == nil {
		err = s.RefusePoll()
	}
	return s, err
}

// patience is the time after which something that should happen soon counts as absent. It is many
// times the usual time, because other processes may slow down a test.
const patience = 5 * time.Minute

// hangLimit is after how long a test counts as hung: shortly before the test program gives up.
// No limit of this kind may depend on the speed of the machine.
func hangLimit(t *testing.T) time.Duration {
	deadline, ok := t.Deadline()
	if !ok {
		return 10 * time.Minute
	}
	left := time.Until(deadline)
	return left - min(left/10, 30*time.Second)
}

// mountFake mounts a catalog until the end of the test. A mount that hangs is aborted.
func mountFake(t *testing.T, c catalog.Catalog, e *fakeEngine, o Options) mountFixture {
	t.Helper()
	needFUSE(t)
	m := mountFixture{dir: t.TempDir()}
	var err error
	if m.s, err = mountHere(m.dir, c, e, o); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(hangLimit(t), func() {
		t.Error("the test hangs; its mount is cut off")
		m.s.device.Abort() //nolint:errcheck // the test has failed
	})
	t.Cleanup(func() {
		defer late.Stop()
		if err := m.s.Shutdown(0); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return m
}

// readFile is os.ReadFile, which must not be retried when it says EINTR.
func readFile(path string) ([]byte, error) { return os.ReadFile(path) }

func needFUSE(t testing.TB) {
	t.Helper()
	if unix.Access("/dev/fuse", unix.R_OK|unix.W_OK) == nil && unix.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("/dev/fuse cannot be used, and CI=true")
	}
	t.Skip("/dev/fuse cannot be used")
}

// pattern is n bytes of which each says where it is.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16)
	}
	return b
}

// eventually waits for a condition that another goroutine or process brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// A syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	lock chan struct{}
	b    bytes.Buffer
}

func newSyncBuffer() *syncBuffer { return &syncBuffer{lock: make(chan struct{}, 1)} }

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	return s.b.Write(p)
}

// lines returns the lines with a word in them.
func (s *syncBuffer) lines(word string) []string {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	var found []string
	for line := range strings.Lines(s.b.String()) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return found
}

func logger(b *syncBuffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// unsortedTree is a tree whose listings begin at the start, if they do not go on behind a
// name that is listed.
type unsortedTree struct{ *fakeTree }

func (t *unsortedTree) Open(context.Context, string, names.AsOf) (catalog.Tree, error) { return t, nil }

func (t *unsortedTree) List(_ context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		list := t.byDir[dir]
		i := slices.IndexFunc(list, func(e page.Entry) bool { return after != "" && nameOf(dir, e.Path) == after })
		for _, e := range list[i+1:] {
			if !yield(e, nil) {
				return
			}
		}
	}
}
