package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"io"
	iofs "io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/signature"
)

var (
	liesFlag = flag.Int("lies", 100, "how many lies TestF55_Lies tells")
	lieFlag  = flag.Int("lie", -1, "tell only the lie with this number")
)

// F55: a web server, or a folder, changes any record of any object. Each lie is read cold,
// warm, and after a remount with the honest store and the same cache. Readers get the right
// bytes or an error, and with the honest store the right bytes.
func TestF55_Lies(t *testing.T) {
	a, b := newWorld(t, 1), newWorld(t, 2)
	all := allLies(a, b, *liesFlag)
	const workers = 4
	for w := range workers {
		t.Run(fmt.Sprint(w), func(t *testing.T) {
			t.Parallel()
			p := newLieFixture(t, a, b)
			for i := w; i < len(all); i += workers {
				if *lieFlag < 0 || *lieFlag == i {
					p.tell(i, &all[i])
				}
			}
		})
	}
}

// Proof is what a reader of symbol "s" compares trees with.
type proof int

const (
	byStore  proof = iota // nothing: the store says what the newest version is
	byPin                 // the identity of the newest version
	bySigner              // the signatures of versions
)

// A lieFixture is a server and a folder that lie, and a reader of both.
type lieFixture struct {
	t      *testing.T
	a, b   *lieStore
	server *lieServer
	url    string
	dir    string // for scratch folders
	folder string // a store with the objects of a
	mount  bool
	honest map[string]string // output of commands
	lie    string            // the current lie of the server
}

func newLieFixture(t *testing.T, a, b *lieStore) *lieFixture {
	p := &lieFixture{t: t, a: a, b: b, server: &lieServer{honest: a.objects}, dir: t.TempDir(), mount: canMount()}
	s := httptest.NewServer(p.server)
	t.Cleanup(s.Close)
	p.url = s.URL
	p.folder = filepath.Join(p.dir, "store")
	p.write(nil, a.objects)
	p.learn()
	return p
}

// write makes the folder hold some objects, where it holds others.
func (p *lieFixture) write(old, new objectMap) {
	for k := range old {
		if _, ok := new[k]; !ok {
			if err := os.Remove(filepath.Join(p.folder, string(k))); err != nil && !errors.Is(err, os.ErrNotExist) {
				p.t.Fatal(err)
			}
		}
	}
	for k, b := range new {
		if known, ok := old[k]; ok && bytes.Equal(known, b) {
			continue
		}
		path := filepath.Join(p.folder, string(k))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			p.t.Fatal(err)
		}
		write(p.t, path+"~", b)
		if err := os.Rename(path+"~", path); err != nil {
			p.t.Fatal(err)
		}
	}
}

// A lieServer serves objects by their keys. From some request on, it serves others.
type lieServer struct {
	honest objectMap
	lying  atomic.Pointer[servedLie]
	tags   maphash.Seed
	once   sync.Once
}

// A servedLie is a lie of the server, which counts requests from its beginning.
type servedLie struct {
	objects  objectMap
	after    int
	turns    bool
	tags     bool // objects have the tags of honest ones
	requests atomic.Int64
}

// ServeHTTP implements http.Handler.
func (s *lieServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.once.Do(func() { s.tags = maphash.MakeSeed() })
	objects, k := s.honest, names.Key(strings.TrimPrefix(r.URL.Path, "/"))
	lie := s.lying.Load()
	if lie != nil {
		n := int(lie.requests.Add(1)) - lie.after
		if n >= 0 && (!lie.turns || n%2 == 0) {
			objects = lie.objects
		}
	}
	value, ok := objects[k]
	if k == listing.Key {
		value, ok = objects.listing(), true
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	tagged := value
	if lie != nil && lie.tags && s.honest[k] != nil {
		tagged = s.honest[k]
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, maphash.Bytes(s.tags, tagged)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(value))
}

// tell serves a lie to readers of the server and of the folder.
func (p *lieFixture) tell(i int, l *lie) {
	lying := p.changed(l)
	p.lie = fmt.Sprintf("lie %d, %s", i, l.name)
	lie := func() *servedLie {
		return &servedLie{objects: lying, after: l.after, turns: l.turns, tags: i%2 == 1}
	}
	cache := filepath.Join(p.dir, "cache")
	defer os.RemoveAll(cache)

	p.server.lying.Store(lie())
	p.command(i, l, p.url, cache)
	cold, warm := byPin, bySigner
	if i%2 == 1 {
		cold, warm = bySigner, byPin
	}
	for _, by := range []proof{cold, warm} {
		p.server.lying.Store(lie())
		p.read(p.url, cache, by, false)
	}
	if l.isAbove() {
		p.server.lying.Store(lie())
		p.read(p.url, cache, byStore, false)
	}
	p.server.lying.Store(nil)
	p.read(p.url, cache, cold, true)
	if out, status := p.run("cache", "verify", "--cache-dir", cache); status != 0 {
		p.t.Errorf("%s: xetfs cache verify: status %d: %s", p.lie, status, out)
	}
	p.bare(i, l, lie, cache)
	p.inFolder(i, l, lying)
}

// changed returns the objects of a lie.
func (p *lieFixture) changed(l *lie) objectMap {
	lying := maps.Clone(p.a.objects)
	l.edit(lying)
	return lying
}

// bare reads the same store without its catalog.
func (p *lieFixture) bare(i int, l *lie, lie func() *servedLie, cache string) {
	if l.kind != names.ShardKind && l.kind != names.XorbKind && l.kind != 0 {
		return
	}
	os.RemoveAll(cache)
	p.server.lying.Store(lie())
	p.readBare(p.url, cache, false)
	p.server.lying.Store(nil)
	p.readBare(p.url, cache, true)
}

// inFolder puts a lie into a folder, first in the middle of reads.
func (p *lieFixture) inFolder(i int, l *lie, lying objectMap) {
	cache := filepath.Join(p.dir, "cache")
	os.RemoveAll(cache)
	if i%3 > 0 {
		cache = ""
	}
	by := []proof{byPin, bySigner, byStore}[i/3%3]
	if by == byStore && !l.isAbove() {
		by = byPin
	}
	if s, v, err := p.open(p.folder, cache, by, false); err == nil {
		p.split(v, p.allowed(by), func() { p.write(p.a.objects, lying) })
		p.close(s, v)
	}
	p.write(p.a.objects, lying)
	p.read(p.folder, cache, byPin, false)
	p.command(i, l, p.folder, cache)
	if l.isAbove() {
		p.read(p.folder, cache, byStore, false)
		p.read(p.folder, cache, bySigner, false)
	}
	if l.kind == names.ShardKind || l.kind == names.XorbKind {
		p.readBare(p.folder, "", false)
	}
	p.write(lying, p.a.objects)
	p.read(p.folder, cache, byPin, true)
}

// pin is the newest version of symbol "s" by its identity.
func (p *lieFixture) pin() names.AsOf {
	return names.AsOf{Form: names.ByIdentity, Identity: p.a.identities[len(p.a.identities)-1]}
}

// A view is a tree that is read.
type view interface {
	readFile(path string) ([]byte, error)
	readDir(path string) ([]string, error)
	end() error
}

// open opens SOURCE and mounts it.
func (p *lieFixture) open(source, cache string, by proof, bare bool) (*stack.Source, view, error) {
	o := stack.Options{Bare: bare, Budget: stack.DivideMemory(stack.DefaultMemory), Log: slog.New(slog.DiscardHandler)}
	if cache != "" {
		flags := cacheFlags{dir: newOptional("DIR", cache, parseCachePlace)}
		var err error
		if o.Disk, err = flags.forSource(source, ""); err != nil {
			p.t.Fatal(err)
		}
	}
	if by == bySigner {
		o.Signatures = &signature.Options{Allowed: p.a.signers}
	}
	s, err := stack.OpenSource(p.t.Context(), source, o)
	if err != nil {
		return nil, nil, err
	}
	mo := fs.Options{Symbol: "s", Stateless: s.Cache.Local() && !s.Cache.HasDisk(), VersionsDir: fs.NoVersionsDir}
	if bare {
		mo.Symbol = ""
	}
	switch {
	case by == byPin:
		mo.At = p.pin()
	case !bare:
		mo.Follow = 5 * time.Millisecond
	}
	var v view
	if p.mount {
		v, err = mountView(filepath.Join(p.dir, "mount"), s, mo)
	} else {
		v, err = newTreeView(p.t.Context(), s, mo)
	}
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, v, nil
}

func (p *lieFixture) close(s *stack.Source, v view) {
	if err := v.end(); err != nil {
		p.t.Errorf("%s: %v", p.lie, err)
	}
	s.Close()
}

// read reads all files of symbol "s". An honest store must not cause an error.
func (p *lieFixture) read(source, cache string, by proof, honest bool) {
	s, v, err := p.open(source, cache, by, false)
	if err != nil {
		if honest {
			p.t.Errorf("%s: the honest store at %s: %v", p.lie, source, err)
		}
		return
	}
	defer p.close(s, v)
	p.readTree(v, p.allowed(by), honest)
}

// allowed returns the trees that readers may see. Without a proof it is any consistent one: the
// server may tell what it likes of references. A signed version may be an older one.
func (p *lieFixture) allowed(by proof) []treeContent {
	switch by {
	case byPin:
		return p.a.trees[len(p.a.trees)-1:]
	case bySigner:
		return p.a.trees
	}
	return slices.Concat(p.a.trees, p.b.trees, p.a.others, p.b.others)
}

// readTree reads what a view lists below a folder, and the files of the first tree.
func (p *lieFixture) readTree(v view, allowed []treeContent, honest bool) {
	paths := slices.Sorted(maps.Keys(allowed[0]))
	var walk func(dir string)
	walk = func(dir string) {
		list, err := v.readDir(dir)
		if err != nil {
			return
		}
		if len(allowed) == 1 {
			if want := allowed[0].children(dir); !slices.Equal(slices.Sorted(slices.Values(list)), want) {
				p.t.Errorf("%s: %q lists %q, want %q", p.lie, dir, list, want)
			}
		}
		for _, name := range list {
			path := filepath.Join(dir, name)
			known := slices.ContainsFunc(allowed, func(t treeContent) bool { return t.has(path) })
			if !known {
				p.t.Errorf("%s: %s is listed", p.lie, path)
			}
			if isDir := slices.ContainsFunc(allowed, func(t treeContent) bool { return t[path] == "" }); isDir && path != "link" && known {
				walk(path)
			}
		}
	}
	walk("")
	for _, path := range paths {
		b, err := v.readFile(path)
		right := slices.ContainsFunc(allowed, func(t treeContent) bool { want, ok := t[path]; return ok && want == string(b) })
		switch {
		case err == nil && !right:
			p.t.Errorf("%s: %s: wrong content: %s", p.lie, path, p.whose(b))
		case err != nil && honest:
			p.t.Errorf("%s: %s of the honest store: %v", p.lie, path, err)
		case errors.Is(err, iofs.ErrNotExist) && len(allowed) == 1:
			p.t.Errorf("%s: %s: %v, want another error", p.lie, path, err)
		}
	}
}

// children returns the names in a folder, sorted.
func (t treeContent) children(dir string) []string {
	names := map[string]bool{}
	for path := range t {
		rest, ok := strings.CutPrefix(path, dir)
		if rest = strings.TrimPrefix(rest, "/"); ok && (dir == "" || path[len(dir)] == '/') {
			name, _, _ := strings.Cut(rest, "/")
			names[name] = true
		}
	}
	if dir == "" {
		names["link"] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// has reports whether a tree has a file, a folder or a link at a path.
func (t treeContent) has(path string) bool {
	if _, ok := t[path]; ok || path == "link" {
		return true
	}
	for file := range t {
		if strings.HasPrefix(file, path+"/") {
			return true
		}
	}
	return false
}

// whose describes wrong bytes by the file that they are from.
func (p *lieFixture) whose(b []byte) string {
	for _, w := range []*lieStore{p.a, p.b} {
		for i, t := range w.trees {
			for path, content := range t {
				if content == string(b) {
					return fmt.Sprintf("that of %s in tree %d", path, i)
				}
			}
		}
	}
	return fmt.Sprintf("%d bytes that no file has", len(b))
}

// split reads each file in two parts, with something done between those of all files. The
// parts of one open file are of one tree.
func (p *lieFixture) split(v view, allowed []treeContent, between func()) {
	m, ok := v.(mountedView)
	if !ok {
		between()
		return
	}
	type half struct {
		path  string
		f     *os.File
		first string
	}
	var open []half
	for _, path := range slices.Sorted(maps.Keys(allowed[0])) {
		f, err := os.Open(filepath.Join(m.dir, path))
		if err != nil {
			continue
		}
		defer f.Close()
		b := make([]byte, 10)
		if n, err := f.ReadAt(b, 0); err == nil {
			open = append(open, half{path, f, string(b[:n])})
		}
	}
	between()
	for _, h := range open {
		b, err := io.ReadAll(io.NewSectionReader(h.f, 10, 1<<20))
		whole := h.first + string(b)
		if right := slices.ContainsFunc(allowed, func(t treeContent) bool { return t[h.path] == whole }); err == nil && !right {
			p.t.Errorf("%s: %s, in two parts: wrong content: %s", p.lie, h.path, p.whose([]byte(whole)))
		}
	}
}

// readBare reads all files of a store without its catalog. A name is a hash: the content must
// have it.
func (p *lieFixture) readBare(source, cache string, honest bool) {
	s, v, err := p.open(source, cache, byStore, true)
	if err != nil {
		if honest {
			p.t.Errorf("%s: the honest store at %s: %v", p.lie, source, err)
		}
		return
	}
	defer p.close(s, v)
	files := 0
	for _, dir := range []string{"by-hash", "by-sha256"} {
		list, err := v.readDir(dir)
		if err != nil && honest {
			p.t.Errorf("%s: %s: %v", p.lie, dir, err)
		}
		for _, name := range list {
			b, err := v.readFile(dir + "/" + name)
			if err != nil {
				if honest {
					p.t.Errorf("%s: %s/%s of the honest store: %v", p.lie, dir, name, err)
				}
				continue
			}
			files++
			if dir == "by-sha256" {
				if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != name {
					p.t.Errorf("%s: by-sha256/%s: wrong content: %s", p.lie, name, p.whose(b))
				}
				continue
			}
			h, _ := codec.ParseHash(name)
			want, ok := p.a.content[h]
			if !ok {
				want, ok = p.b.content[h]
			}
			if ok = ok || h.IsZero(); !ok || want != string(b) {
				p.t.Errorf("%s: by-hash/%s: wrong content: %s", p.lie, name, p.whose(b))
			}
		}
	}
	if want := len(p.a.content); honest && files < want {
		p.t.Errorf("%s: %d files of the honest store, want %d", p.lie, files, want)
	}
}

// command runs one of the commands that read, with the cache of the other readers.
func (p *lieFixture) command(i int, l *lie, source, cache string) {
	pin := "s@" + p.pin().String()
	want := p.a.trees[len(p.a.trees)-1]
	paths := slices.Sorted(maps.Keys(want))
	path := paths[i%len(paths)]
	content := want[path]
	at := func(args ...string) []string {
		if cache != "" {
			return append([]string{args[0], "--cache-dir", cache}, args[1:]...)
		}
		return args
	}
	var expect string
	var args []string
	switch i % 9 {
	case 0, 1:
		args, expect = at("cat", source, pin, path), content
	case 2:
		args, expect = at("cat", "--range", "5-25", source, pin, path), content[5:25]
	case 3:
		args, expect = p.ls(source), p.honest[strings.Join(p.ls(source), " ")]
	case 4:
		args, expect = p.diff(source), p.honest[strings.Join(p.diff(source), " ")]
	case 5:
		args = []string{"verify", source, pin}
	case 6:
		args = []string{"history", source, "s"}
		if !l.isAbove() {
			expect = p.honest[strings.Join(args, " ")]
		}
	case 7:
		args = []string{"catalog", "check", source}
	case 8:
		if cache == "" {
			return
		}
		args = at("warm", source, pin)
		if i%2 == 0 {
			args = append(args, "--chunks")
		}
	}
	out, status := p.run(args...)
	isPrefix := args[0] == "cat" && strings.HasPrefix(expect, out)
	if expect != "" && out != expect && (status == 0 || !isPrefix && args[0] == "cat") {
		p.t.Errorf("%s: xetfs %s: status %d and wrong output of %d bytes", p.lie, strings.Join(args, " "), status, len(out))
	}
}

func (p *lieFixture) run(args ...string) (stdout string, status int) {
	var out, errs bytes.Buffer
	status = run(p.t.Context(), args, strings.NewReader(""), &out, &errs)
	return out.String(), status
}

// learn notes what commands print of the honest store.
func (p *lieFixture) learn() {
	p.honest = map[string]string{}
	for _, source := range []string{p.url, p.folder} {
		for _, args := range [][]string{p.ls(source), p.diff(source), {"history", source, "s"}} {
			out, status := p.run(args...)
			if status != 0 || out == "" {
				p.t.Fatalf("%v: status %d, %d bytes", args, status, len(out))
			}
			p.honest[strings.Join(args, " ")] = out
		}
	}
}

func (p *lieFixture) ls(source string) []string {
	return []string{"ls", "-R", "-l", source, "s@" + p.pin().String()}
}

func (p *lieFixture) diff(source string) []string {
	old := names.AsOf{Form: names.ByIdentity, Identity: p.a.identities[0]}
	return []string{"diff", "--quick", source, "s@" + old.String(), "s@" + p.pin().String()}
}

// A mountedView is a mount of this process.
type mountedView struct {
	dir    string
	server *fs.Server
}

func mountView(dir string, s *stack.Source, o fs.Options) (view, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	server, err := fs.Mount(dir, s.Catalog, s.Reader, o)
	if err != nil {
		return nil, err
	}
	if err := server.RefusePoll(); err != nil {
		return nil, errors.Join(err, server.Unmount())
	}
	return mountedView{dir, server}, nil
}

func (m mountedView) readFile(path string) ([]byte, error) {
	return os.ReadFile(filepath.Join(m.dir, path))
}

func (m mountedView) readDir(path string) ([]string, error) {
	f, err := os.Open(filepath.Join(m.dir, path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// end unmounts. It retries while another process uses the mount.
func (m mountedView) end() error {
	for {
		if err := m.server.Unmount(); !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// A treeView reads without a mount, where this machine cannot mount.
type treeView struct {
	ctx  context.Context
	s    *stack.Source
	tree catalog.Tree
}

func newTreeView(ctx context.Context, s *stack.Source, o fs.Options) (view, error) {
	t, err := s.Catalog.Open(ctx, o.Symbol, o.At)
	return treeView{ctx, s, t}, err
}

func (v treeView) readFile(path string) ([]byte, error) {
	e, err := v.tree.Lookup(v.ctx, path)
	if err != nil || e.Size == 0 || len(e.Inline) > 0 {
		return e.Inline, err
	}
	f, err := openFile(v.ctx, v.s, &e)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f.VerifyReader(v.ctx, catalog.ExpectedSHA256(v.tree, &e)))
}

func (v treeView) readDir(dir string) (list []string, err error) {
	for e, err := range v.tree.List(v.ctx, dir, "") {
		if err != nil {
			return list, err
		}
		list = append(list, filepath.Base(e.Path))
	}
	return list, nil
}

func (v treeView) end() error { return nil }
