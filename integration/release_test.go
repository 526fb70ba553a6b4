package integration

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

var release = flag.Bool("release", false, "build the packages of a release twice, and compare them")

// The SBOM of a program names exactly the modules in its build info.
func TestSBOM(t *testing.T) {
	program := harness.Program(t)
	cmd := exec.Command("go", "run", "../cmd/xetfs/packaging/release/sbom.go", program, "1.2.3")
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	compareSBOM(t, out, program)
}

// compareSBOM compares an SPDX document with the build info of a program.
func compareSBOM(t *testing.T, document []byte, program string) {
	t.Helper()
	var d struct {
		Packages []struct {
			ID      string `json:"SPDXID"`
			Name    string `json:"name"`
			Version string `json:"versionInfo"`
		} `json:"packages"`
		Relationships []struct {
			Related string `json:"relatedSpdxElement"`
		} `json:"relationships"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		t.Fatal(err)
	}
	var got, ids, related []string
	for _, p := range d.Packages[1:] {
		got = append(got, p.Name+" "+p.Version)
	}
	for i, p := range d.Packages {
		ids, related = append(ids, p.ID), append(related, d.Relationships[i].Related)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range info.Deps {
		want = append(want, m.Path+" "+m.Version)
	}
	want = append(want, "std "+strings.TrimPrefix(info.GoVersion, "go"))
	if !slices.Equal(got, want) || d.Packages[0].Name != info.Main.Path {
		t.Errorf("%s has the modules %q, the SBOM names %q", d.Packages[0].Name, want, got)
	}
	if !slices.Equal(ids, related) {
		t.Errorf("packages %q, relationships %q", ids, related)
	}
}

// Two builds of one commit are the same byte by byte. The programs are static, and the sums are
// those of the files.
func TestRelease(t *testing.T) {
	if !*release {
		t.Skip("only with -release: it builds the program six times")
	}
	first, second := buildRelease(t), buildRelease(t)
	sums, err := os.ReadFile(filepath.Join(first, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(filepath.Join(second, "SHA256SUMS")); err != nil || !bytes.Equal(sums, again) {
		t.Errorf("two builds of one commit differ:\n%s\n%s\n%v", sums, again, err)
	}
	kinds := map[string]int{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := os.ReadFile(filepath.Join(first, name))
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(content)) != sum {
			t.Errorf("%s: another sum than in SHA256SUMS, or %v", name, err)
		}
		kinds[filepath.Ext(name)]++
	}
	if want := map[string]int{"": 2, ".gz": 2, ".deb": 2, ".rpm": 2, ".json": 2}; fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("files %v, want %v", kinds, want)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		program := filepath.Join(first, "linux_"+arch, "xetfs")
		isStatic(t, program)
		found, err := filepath.Glob(filepath.Join(first, "*_"+arch+".spdx.json"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%d SBOMs for %s, %v", len(found), arch, err)
		}
		document, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		compareSBOM(t, document, program)
	}
}

// buildRelease builds the release of this commit in a clone, and returns its folder dist.
func buildRelease(t *testing.T) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	for _, args := range [][]string{{"git", "clone", "--quiet", "..", clone}, {"make", "-C", clone, "dist"}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	return filepath.Join(clone, "dist")
}

// isStatic checks that a program needs no library and no dynamic linker.
func isStatic(t *testing.T, program string) {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) > 0 || slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Errorf("%s is not static: libraries %q, %v", program, libraries, err)
	}
}
