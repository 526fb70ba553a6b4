package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// script runs a shell script in dir; $M is the mount and $P the plain files beside it.
func (p *pair) script(t *testing.T, text string) {
	t.Helper()
	harness.Run(t, p.scratch(t), "bash", "-euc", fmt.Sprintf("M=%s P=%s\n%s", p.mount.Path("by-hash"), p.plain, text))
}

// A pair is a mount and the same files in an ordinary folder, with the same names.
type pair struct {
	mount *harness.Mount
	plain string
	names []string // by size
}

func (p *pair) scratch(t *testing.T) string { return t.TempDir() }

// newPair stores files of many sizes and kinds, mounts them and lays them down beside.
func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{plain: t.TempDir()}
	var files [][]byte
	for i, size := range []int{0, 1, 100, 4096, 65_537, 300_000} {
		files = append(files, harness.Noise(uint64(i), size), text(t, uint64(i), size+1))
	}
	files = append(files, text(t, 99, 9_000_000))
	dir := t.TempDir()
	_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.LZ4, files...)
	p.mount = harness.MountSource(t, dir)
	for i, s := range stored {
		name := s.Hash.String()
		p.names = append(p.names, name)
		if err := os.WriteFile(filepath.Join(p.plain, name), files[i], 0o444); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// text returns n bytes of JSON lines.
func text(t testing.TB, seed uint64, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := b.ReadFrom(harness.TextContent(seed, int64(n))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Ordinary programs see the same through the mount as in an ordinary folder.
func TestTools(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	tests := []struct {
		tool   string // that the script needs
		script string
	}{
		{"cat", `cat $M/* | cmp - <(cat $P/*)`},
		{"cmp", `for f in $P/*; do cmp $f $M/${f##*/}; done`},
		{"cp", `cp -r $M copy; diff -r copy $P`},
		{"cp", `cp --reflink=auto --sparse=always $M/* .; diff -r . $P`},
		{"cp", `cp -a $M/. copy; diff <(cd $M; stat -c '%n %s %Y %a' *) <(cd copy; stat -c '%n %s %Y %a' *)`},
		{"tar", `tar -C $M -cf - . | tar -xf -; diff -r . $P`},
		{"tar", `tar -C $M -cSf sparse.tar .; mkdir x; tar -C x -xf sparse.tar; diff -r x $P`},
		{"grep", `cmp <(cd $M; grep -c kestrel *) <(cd $P; grep -c kestrel *)`},
		{"grep", `cmp <(cd $M; grep -rl '"user":"raven-1' . | sort) <(cd $P; grep -rl '"user":"raven-1' . | sort)`},
		{"dd", `for f in $P/*; do dd if=$M/${f##*/} bs=7777 status=none | cmp - $f; done`},
		{"dd", `for f in $P/*; do dd if=$M/${f##*/} bs=1M iflag=direct status=none | cmp - $f; done`},
		{"dd", `for f in $P/*; do cmp <(dd if=$M/${f##*/} bs=1 skip=65530 count=20 status=none) <(dd if=$f bs=1 skip=65530 count=20 status=none); done`},
		{"find", `cmp <(find $M -type f -printf '%f %s %m\n' | sort) <(find $P -type f -printf '%f %s %m\n' | sort)`},
		{"find", `test $(find $M -type f -newermt 1960-01-01 | wc -l) = $(ls $P | wc -l)`},
		{"stat", `cmp <(cd $M; stat -c '%n %s %F %a' *) <(cd $P; stat -c '%n %s %F %a' *)`},
		{"sha256sum", `(cd $P; sha256sum *) >sums; cd $M; sha256sum --check --quiet $OLDPWD/sums`},
		{"md5sum", `(cd $P; md5sum *) >sums; cd $M; md5sum --check --quiet $OLDPWD/sums`},
		{"rsync", `rsync -rt $M/ copy; diff -r copy $P; test -z "$(rsync -rtin $M/ copy)"; test -z "$(rsync -rcin $P/ $M)"`},
		{"zip", `(cd $M; zip -qr - .) >all.zip; mkdir x; unzip -q all.zip -d x; diff -r x $P`},
		{"du", `cmp <(cd $M; du -b --apparent-size *) <(cd $P; du -b --apparent-size *)`},
		{"tail", `for f in $P/*; do cmp <(tail -c 1000 $M/${f##*/}) <(tail -c 1000 $f); cmp <(head -c 70000 $M/${f##*/}) <(head -c 70000 $f); done`},
		{"sort", `for f in $P/*; do cmp <(LC_ALL=C sort $M/${f##*/}) <(LC_ALL=C sort $f); done`},
		{"wc", `cmp <(cd $M; wc *) <(cd $P; wc *)`},
		{"git", `git diff --no-index --quiet $M $P`},
		{"df", `df $M >/dev/null; stat -f $M >/dev/null`},
	}
	for _, tt := range tests {
		t.Run(tt.tool, func(t *testing.T) {
			harness.NeedTool(t, tt.tool)
			p.script(t, tt.script)
		})
	}
}

// A store with one file, and the path of that file in a mount of it.
func mountFile(t *testing.T, content []byte) string {
	t.Helper()
	dir := t.TempDir()
	_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.LZ4, content)
	return harness.MountSource(t, dir).File(stored[0].Hash)
}

// mountPlainFile is the same for a file that a program has written.
func mountPlainFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return mountFile(t, b)
}

func TestToolSqlite(t *testing.T) {
	t.Parallel()
	sqlite := harness.NeedTool(t, "sqlite3")
	db := filepath.Join(t.TempDir(), "people.db")
	harness.Run(t, "", sqlite, db, `
		create table people(id integer primary key, name text, score real);
		with recursive n(i) as (select 1 union all select i+1 from n where i < 50000)
		insert into people select i, 'name-' || (i * 7919 % 50000), i / 3.0 from n;
		create index by_name on people(name);`)
	mounted := mountPlainFile(t, db)
	queries := []string{
		"select count(*), sum(score) from people",
		"select * from people where name = 'name-12345'",
		"select substr(name, 1, 8) as p, count(*) from people group by p order by p limit 20",
		"pragma integrity_check",
	}
	for _, path := range []string{"file:" + mounted + "?immutable=1", "file:" + mounted + "?mode=ro", mounted} {
		for _, q := range queries {
			for _, mmap := range []string{"0", "100000000"} {
				got := harness.Run(t, "", sqlite, "-cmd", "pragma mmap_size="+mmap, path, q)
				want := harness.Run(t, "", sqlite, "-cmd", "pragma mmap_size="+mmap, db, q)
				if got != want {
					t.Errorf("%s: %s: %q, want %q", path, q, got, want)
				}
			}
		}
	}
	if out, err := harness.Try(t, "", sqlite, mounted, "delete from people"); err == nil || !strings.Contains(out, "readonly") {
		t.Errorf("deleting says %q, %v, want that the database is read-only", out, err)
	}
}

func TestToolPythonMmap(t *testing.T) {
	python := harness.NeedTool(t, "python3")
	content := text(t, 5, 3_000_000)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, content, 0o644); err != nil {
		t.Fatal(err)
	}
	const program = `
import mmap, os, random, sys
with open(sys.argv[1], "rb") as f, open(sys.argv[2], "rb") as g:
    m, want = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ), g.read()
    random.seed(1)
    for _ in range(500):
        a = random.randrange(len(want)); b = a + random.randrange(100000)
        assert m[a:b] == want[a:b]
    assert m[:] == want and m.rfind(b"willow") == want.rfind(b"willow")
    assert os.pread(f.fileno(), 100, len(want) - 50) == want[-50:]
    f.seek(-10, 2); assert f.read() == want[-10:]
`
	harness.Run(t, "", python, "-c", program, mountFile(t, content), plain)
}

func TestToolSafetensors(t *testing.T) {
	t.Parallel()
	python := harness.ScientificPython(t)
	plain := filepath.Join(t.TempDir(), "model.safetensors")
	harness.Run(t, "", python, "-c", `
import numpy, safetensors.numpy, sys
r = numpy.random.default_rng(1)
safetensors.numpy.save_file({f"layer.{i}": r.standard_normal((257, 300 + i), dtype=numpy.float32) for i in range(12)}, sys.argv[1])
`, plain)
	harness.Run(t, "", python, "-c", `
import numpy, safetensors, safetensors.numpy, sys
mounted, plain = sys.argv[1:]
want = safetensors.numpy.load_file(plain)
got = safetensors.numpy.load_file(mounted)
assert got.keys() == want.keys()
for k in want: assert numpy.array_equal(got[k], want[k]), k
with safetensors.safe_open(mounted, framework="numpy") as f:
    for k in reversed(sorted(want)):
        assert numpy.array_equal(f.get_slice(k)[100:120, 7:9], want[k][100:120, 7:9]), k
        assert numpy.array_equal(f.get_tensor(k), want[k]), k
`, mountPlainFile(t, plain), plain)
}

func TestToolNumpyMemmap(t *testing.T) {
	t.Parallel()
	python := harness.ScientificPython(t)
	plain := filepath.Join(t.TempDir(), "numbers.npy")
	harness.Run(t, "", python, "-c", `
import numpy, sys
numpy.save(sys.argv[1], numpy.random.default_rng(2).standard_normal((1000, 777)))
`, plain)
	harness.Run(t, "", python, "-c", `
import numpy, os, sys
mounted, plain = sys.argv[1:]
want = numpy.load(plain)
for mode in "r", "c":
    got = numpy.load(mounted, mmap_mode=mode)
    assert numpy.array_equal(got[::-1, ::3], want[::-1, ::3]) and got.sum() == want.sum()
raw = numpy.memmap(mounted, dtype=numpy.uint8, mode="r")
assert len(raw) == os.stat(plain).st_size and bytes(raw[:6]) == b"\x93NUMPY"
try:
    numpy.memmap(mounted, mode="r+")
    raise SystemExit("a mapping for writing was granted")
except OSError as e:
    assert e.errno == 30, e
`, mountPlainFile(t, plain), plain)
}

// loader runs programs that have no x bit, as the files of a bare mount.
func loader(t *testing.T, program string) string {
	t.Helper()
	out := harness.Run(t, "", harness.NeedTool(t, "readelf"), "-l", program)
	_, rest, ok := strings.Cut(out, "Requesting program interpreter: ")
	path, _, _ := strings.Cut(rest, "]")
	if !ok {
		t.Fatalf("%s has no interpreter:\n%s", program, out)
	}
	return path
}

const (
	librarySource = `
#include <string.h>
static const char table[300000] = {[0] = 1, [150000] = 2, [299999] = 39};
int answer(void) { int sum = 0; for (unsigned i = 0; i < sizeof table; i++) sum += table[i]; return sum; }
`
	programSource = `
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
	void *library = dlopen(argv[1], RTLD_NOW);
	if (!library) { puts(dlerror()); return 1; }
	int (*answer)(void) = (int (*)(void))dlsym(library, "answer");
	printf("the answer is %d\n", answer());
	return 0;
}
`
)

// A program and a library that it loads are both served by the mount.
func TestK21_Execution(t *testing.T) {
	t.Parallel()
	cc := harness.NeedTool(t, "cc")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	library, program := filepath.Join(dir, "answer.so"), filepath.Join(dir, "program")
	harness.Run(t, dir, cc, "-shared", "-fPIC", "-o", library, write("answer.c", librarySource))
	harness.Run(t, dir, cc, "-o", program, write("program.c", programSource), "-ldl")

	mountedProgram, mountedLibrary := mountPlainFile(t, program), mountPlainFile(t, library)
	const want = "the answer is 42\n"
	if got := harness.Run(t, "", loader(t, program), mountedProgram, mountedLibrary); got != want {
		t.Errorf("through the loader: %q, want %q", got, want)
	}
	if got, err := harness.Try(t, "", mountedProgram, mountedLibrary); err == nil {
		t.Errorf("without an x bit it runs and says %q", got)
	}
	script := mountFile(t, []byte("echo the script says $1\n"))
	if got := harness.Run(t, "", "sh", script, "yes"); got != "the script says yes\n" {
		t.Errorf("sh: %q", got)
	}
	if python, err := exec.LookPath("python3"); err == nil {
		if got := harness.Run(t, "", python, "-c", "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).answer())", mountedLibrary); got != "42\n" {
			t.Errorf("ctypes: %q", got)
		}
	}
}
