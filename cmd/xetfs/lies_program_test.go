package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// F55: a sample of the lies through the built program: cat, and a mount in the background that
// is repeated with the honest server.
func TestF55_LiesProgram(t *testing.T) {
	a, b := newWorld(t, 1), newWorld(t, 2)
	p := newParty(t, a, b)
	bin := filepath.Join(t.TempDir(), "xetfs")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for i, l := range lies(a, b, max(6, *liesFlag/40)) {
		lying := p.changed(&l)
		p.lie = l.name
		cache := filepath.Join(p.dir, "program")
		p.server.lying.Store(&servedLie{objects: lying, after: l.after, turns: l.turns})
		p.program(i, bin, cache, false)
		p.server.lying.Store(nil)
		p.program(i, bin, cache, true)
		if err := os.RemoveAll(cache); err != nil {
			t.Fatal(err)
		}
	}
}

// program reads one file with cat, and all files through a mount.
func (p *party) program(i int, bin, cache string, honest bool) {
	want := p.allowed(true)[0]
	pin := "s@" + p.pin().String()
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
	out, err := command("cat", "--cache-dir", cache, p.url, pin, path)
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
	if _, err := command("mount", "--symbol", pin, "--cache-dir", cache, p.url, dir); err != nil {
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
func (t truth) paths() []string {
	var paths []string
	for path := range t {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}
