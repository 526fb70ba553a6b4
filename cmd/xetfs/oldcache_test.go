package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	iofs "io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

var oldProgram = flag.String("old-program", "", "write testdata/oldcache.tar.gz with this program, of the version before proofs")

// oldCache holds the stores catalog.example and bare.example, and the disk cache of a program
// that believed File Infos without proof. The cache remembers the addresses of its stores, so
// a proxy serves them. "want" has the content of the files, and "pin" a version.
const oldCache = "testdata/oldcache.tar.gz"

// F58: a cache of the version before proofs, with false File Infos, and with chunks that no
// list names. Its File Infos are read anew from the shards, once. All other objects stay. The
// catalog of format 1 is refused, with or without what the cache has of it.
func TestF58_OldCacheProgram(t *testing.T) {
	if *oldProgram != "" {
		makeOldCache(t)
	}
	if !canMount() {
		t.Skip("needs a mount")
	}
	dir := t.TempDir()
	unpackOldCache(t, dir)
	p := newOldFixture(t, program(t), dir)
	p.run("cache", "verify", "--cache-dir", p.path("cache"))
	pin, err := os.ReadFile(p.path("pin"))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		out, err := p.command("mount", "--cache-dir", p.path("cache"), "--symbol", "s@"+string(pin), "http://catalog.example", t.TempDir()).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "publish the folders anew") {
			t.Errorf("a mount of format 1: %v\n%s", err, out)
		}
		m := p.mount("http://bare.example")
		p.compare("bare.example", filepath.Join(m, "by-hash"))
		if n := p.requested("bare.example", names.XorbKind); (n == 0) != (round == 1) {
			t.Errorf("round %d: %d requests for xorbs without hashes", round, n)
		}
		p.unmount(m)
		p.run("cache", "verify", "--cache-dir", p.path("cache"))
	}
}

// An oldFixture runs a program with a cache and the servers of its stores.
type oldFixture struct {
	t      *testing.T
	bin    string
	dir    string
	proxy  string
	stores map[string]*lieServer // by host
	mu     sync.Mutex
	counts map[string]map[names.Kind]int // requests by host and kind of object
}

func newOldFixture(t *testing.T, bin, dir string) *oldFixture {
	p := &oldFixture{t: t, bin: bin, dir: dir, stores: map[string]*lieServer{}, counts: map[string]map[names.Kind]int{}}
	for _, host := range []string{"catalog.example", "bare.example"} {
		p.stores[host] = &lieServer{honest: objectMap{}}
		for path, b := range p.files(host) {
			p.stores[host].honest[names.Key(path)] = b
		}
	}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.proxy = s.URL
	return p
}

// ServeHTTP implements http.Handler, as a proxy.
func (p *oldFixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	store := p.stores[r.Host]
	if store == nil {
		http.NotFound(w, r)
		return
	}
	if key, err := names.ParseKey(names.Key(strings.TrimPrefix(r.URL.Path, "/"))); err == nil {
		p.mu.Lock()
		if p.counts[r.Host] == nil {
			p.counts[r.Host] = map[names.Kind]int{}
		}
		p.counts[r.Host][key.Kind]++
		p.mu.Unlock()
	}
	store.ServeHTTP(w, r)
}

// requested returns the requests since the last call.
func (p *oldFixture) requested(host string, kind names.Kind) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.counts[host][kind]
	delete(p.counts[host], kind)
	return n
}

func (p *oldFixture) path(name string) string { return filepath.Join(p.dir, name) }

// files returns the content of all files below a folder.
func (p *oldFixture) files(name string) map[string][]byte {
	files := map[string][]byte{}
	err := filepath.WalkDir(p.path(name), func(path string, d iofs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(p.path(name), path)
		files[rel] = b
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return files
}

func (p *oldFixture) run(args ...string) {
	p.t.Helper()
	if out, err := p.command(args...).CombinedOutput(); err != nil {
		p.t.Fatalf("xetfs %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (p *oldFixture) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), p.bin, args...)
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "XDG_STATE_HOME=", "http_proxy="+p.proxy, "HTTP_PROXY="+p.proxy, "no_proxy=", "NO_PROXY=")
	return cmd
}

func (p *oldFixture) mount(url string, flags ...string) string {
	p.t.Helper()
	m := filepath.Join(p.t.TempDir(), "mount")
	if err := os.Mkdir(m, 0o755); err != nil {
		p.t.Fatal(err)
	}
	p.run(append(append([]string{"mount", "--cache-dir", p.path("cache")}, flags...), url, m)...)
	p.t.Cleanup(func() { unmountBelow(p.t, filepath.Dir(m)) })
	return m
}

func (p *oldFixture) unmount(m string) {
	p.t.Helper()
	p.run("umount", m)
}

// compare reads all files of a store.
func (p *oldFixture) compare(host, m string) {
	p.t.Helper()
	for path, want := range p.files("want/" + host) {
		if b, err := os.ReadFile(filepath.Join(m, path)); err != nil || !bytes.Equal(b, want) {
			p.t.Errorf("%s in %s: %d bytes, %v, want other bytes", path, host, len(b), err)
		}
	}
}

// makeOldCache writes oldCache.
func makeOldCache(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, 1)
	put := func(path string, b []byte) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, b)
	}
	for k, b := range w.objects {
		put("catalog.example/"+string(k), b)
	}
	last := len(w.trees) - 1
	pin := names.AsOf{Form: names.ByIdentity, Identity: w.identities[last]}.String()
	put("pin", []byte(pin))
	for path, content := range w.trees[last] {
		put("want/catalog.example/"+path, []byte(content))
	}
	bare := origintest.NewBuilder(t, origintest.Form{NoFooter: true, NoCASInfo: true, Schemes: []xorb.Scheme{xorb.None}})
	x := bare.Xorb(origintest.Text(1, lieChunk), origintest.Text(2, lieChunk), origintest.Text(3, lieChunk), origintest.Text(4, lieChunk))
	for i := range 2 {
		f := bare.File(x.Term(2*i, 2*i+2))
		put("want/bare.example/"+f.Info.File.String(), f.Bytes())
	}
	for k, b := range bare.Objects() {
		put("bare.example/"+string(k), b)
	}

	p := newOldFixture(t, *oldProgram, dir)
	catalog := p.stores["catalog.example"]
	catalog.lying.Store(&servedLie{objects: exchangeFiles(t, w, last)})
	read := func(m, path string, n int64) {
		f, err := os.Open(filepath.Join(m, path))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := io.CopyN(io.Discard, f, n); err != nil && err != io.EOF {
			t.Logf("%s: %v", path, err)
		}
	}
	pinned := []string{"--symbol", "s@" + pin}
	m := p.mount("http://catalog.example", pinned...)
	for _, path := range []string{"a", "b", "dir/c", "new/g", "z"} {
		read(m, path, 20_000)
	}
	p.unmount(m)
	catalog.lying.Store(nil)
	m = p.mount("http://catalog.example", pinned...)
	for path := range w.trees[last] {
		read(m, path, lieChunk)
		read(m, path, 20_000)
	}
	p.unmount(m)
	p.run("warm", "--cache-dir", p.path("cache"), "http://catalog.example", "s@"+pin, "dir/sub")
	p.run("warm", "--cache-dir", p.path("cache"), "--chunks", "http://catalog.example", "s@"+pin)

	falseBytes := objectMap{}
	for k, b := range p.stores["bare.example"].honest {
		falseBytes[k] = bytes.ReplaceAll(b, origintest.Text(1, lieChunk), origintest.Text(9, lieChunk))
	}
	p.stores["bare.example"].lying.Store(&servedLie{objects: falseBytes})
	m = p.mount("http://bare.example")
	for path := range p.files("want/bare.example") {
		read(m, "by-hash/"+path, 2*lieChunk)
	}
	p.unmount(m)
	p.run("cache", "verify", "--cache-dir", p.path("cache"))

	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	tw := tar.NewWriter(z)
	for _, name := range []string{"pin", "catalog.example", "bare.example", "want", "cache"} {
		if err := filepath.WalkDir(p.path(name), func(path string, d iofs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(dir, path)
			if err := tw.WriteHeader(&tar.Header{Name: rel, Size: int64(len(b)), Mode: 0o600}); err != nil {
				return err
			}
			_, err = tw.Write(b)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, oldCache, out.Bytes())
}

// exchangeFiles returns the objects of a store where two files of one tree and one size have
// each the terms of the other.
func exchangeFiles(t *testing.T, w *lieStore, tree int) objectMap {
	used := map[string]bool{}
	for _, content := range w.trees[tree] {
		used[content] = true
	}
	lying := maps.Clone(w.objects)
	for _, k := range w.keys[names.ShardKind] {
		s, ok := readRecords(w.objects[k])
		if !ok {
			t.Fatal(k)
		}
		one := -1
		for i, f := range s.files {
			switch {
			case !used[w.content[f.File]] || f.Size() != 3*lieChunk || len(f.Terms) != 1:
			case one < 0:
				one = i
			default:
				l := liar{a: w}
				l.twoFiles(k, one, i)
				l.lies[len(l.lies)-1].edit(lying)
				one = -1
			}
		}
	}
	return lying
}

// unpackOldCache unpacks oldCache into a folder.
func unpackOldCache(t *testing.T, dir string) {
	f, err := os.Open(oldCache)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, b)
	}
}
