package main

import (
	"bytes"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// F55: a sample of false stores through the built program: cat, and a mount in the background
// that is repeated with the honest server.
func TestF55_LiesProgram(t *testing.T) {
	a, b := newWorld(t, 1), newWorld(t, 2)
	p := newLieFixture(t, a, b)
	bin := program(t)
	for i, l := range allLies(a, b, max(6, *liesFlag/40)) {
		lying := p.changed(&l)
		p.lie = l.name
		cache := filepath.Join(p.dir, "program")
		p.server.lying.Store(&servedLie{objects: lying, after: l.after, turns: l.turns})
		pin := "s@" + p.pin().String()
		p.program(i, bin, pin, cache, false)
		p.server.lying.Store(nil)
		p.program(i, bin, pin, cache, true)
		if err := os.RemoveAll(cache); err != nil {
			t.Fatal(err)
		}
	}
}

// F58: a server exchanges the terms of two files of one size over https. The program never
// shows the bytes of the other file, and with the honest server all files are right.
func TestF58_ExchangeProgram(t *testing.T) {
	w := newWorld(t, 1)
	p := newLieFixture(t, w, w)
	s := httptest.NewTLSServer(p.server)
	t.Cleanup(s.Close)
	p.url = s.URL
	roots := filepath.Join(t.TempDir(), "roots.pem")
	write(t, roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	t.Setenv("SSL_CERT_FILE", roots)
	bin := program(t)
	lying := exchangeFiles(t, w, len(w.trees)-1)
	cache := filepath.Join(p.dir, "program")
	for _, symbol := range []string{"s", "s@" + p.pin().String()} {
		for i, path := range p.allowed(byPin)[0].paths() {
			if !slices.Contains([]string{"a", "b"}, path) {
				continue
			}
			p.lie = "exchange of " + path + " in " + symbol
			p.server.lying.Store(&servedLie{objects: lying})
			p.program(i, bin, symbol, cache, false)
			p.server.lying.Store(nil)
			if out, status := p.run("cache", "verify", "--cache-dir", cache); status != 0 {
				t.Errorf("%s: xetfs cache verify: status %d: %s", p.lie, status, out)
			}
			p.program(i, bin, symbol, cache, true)
			if err := os.RemoveAll(cache); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// program reads one file with cat, and all files through a mount.
func (p *lieFixture) program(i int, bin, symbol, cache string, honest bool) {
	want := p.allowed(byPin)[0]
	paths := want.paths()
	path := paths[i%len(paths)]
	command := func(args ...string) (string, error) {
		cmd := exec.CommandContext(p.t.Context(), bin, args...)
		cmd.Env = append(os.Environ(), "HOME="+p.dir, "XDG_STATE_HOME=")
		var out bytes.Buffer
		cmd.Stdout = &out
		err := cmd.Run()
		return out.String(), err
	}
	out, err := command("cat", "--cache-dir", cache, p.url, symbol, path)
	if err == nil && out != want[path] || err != nil && honest {
		p.t.Errorf("%s: xetfs cat %s: %d bytes, %v", p.lie, path, len(out), err)
	}
	if !p.mount {
		return
	}
	dir := filepath.Join(p.dir, "program-mount")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if _, err := command("mount", "--symbol", symbol, "--cache-dir", cache, p.url, dir); err != nil {
		if honest {
			p.t.Errorf("%s: xetfs mount: %v", p.lie, err)
		}
		return
	}
	for _, path := range paths {
		b, err := os.ReadFile(filepath.Join(dir, path))
		if err == nil && string(b) != want[path] || err != nil && honest {
			p.t.Errorf("%s: %s in a mount of the program: %d bytes, %v: %s", p.lie, path, len(b), err, p.whose(b))
		}
	}
	if _, err := command("umount", dir); err != nil {
		p.t.Errorf("%s: xetfs umount: %v", p.lie, err)
	}
}

// paths returns the paths of all files, sorted.
func (t treeContent) paths() []string {
	var paths []string
	for path := range t {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}
