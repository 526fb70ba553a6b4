package integration

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/xetfs/xetfs"

// in is the folder of the packages of the commands.
const in = "cmd/xetfs/internal/"

// mayImport lists the packages of this module that a package may import. A new entry needs a
// reason in the commit message. A row may precede its package; a package needs its row.
var mayImport = map[string][]string{
	"codec":           {},
	"codec/chunker":   {"codec"},
	"codec/merkle":    {"codec"},
	"codec/xorb":      {"codec", "codec/merkle"},
	"codec/shard":     {"codec"},
	"codec/page":      {"codec"},
	"codec/names":     {"codec", "codec/page"},
	"codec/journal":   {"codec"},
	"codec/listing":   {"codec", "codec/names", "codec/page"},
	"codec/pack":      {"codec", "codec/chunker", "codec/merkle", "codec/xorb", "codec/shard"},
	"codec/codectest": {"codec"},

	"cache/arena":               {"codec"},
	"cache/flight":              {},
	"cache/lru":                 {},
	"cache/nowait":              {},
	"cache/recent":              {},
	"cache/disk/internal/vfs":   {"cache/nowait"},
	"cache/disk/internal/index": {"codec"},
	"cache/disk/internal/wal":   {"codec", "codec/journal", "cache/disk/internal/vfs", "cache/disk/internal/index"},
	"cache/disk": {"codec", "codec/journal", "codec/xorb", "cache/nowait",
		"cache/disk/internal/vfs", "cache/disk/internal/index", "cache/disk/internal/wal"},
	"cache/origin":           {"codec", "codec/merkle", "codec/names", "codec/pack", "codec/page", "codec/shard", "codec/xorb"},
	"cache/origin/metacache": {"codec", "codec/page", "codec/shard", "codec/xorb", "cache/origin"},
	"cache/origin/objects": {"codec", "codec/merkle", "codec/names", "codec/shard", "codec/xorb",
		"cache/flight", "cache/lru", "cache/origin", "cache/origin/metacache"},
	"cache/origin/dedup": {"codec", "codec/merkle", "codec/names", "codec/pack", "codec/shard", "codec/xorb", "cache/origin"},
	"cache/origin/wrap":  {"codec", "codec/names", "codec/shard", "codec/xorb", "cache/origin"},
	"cache/origin/dir": {"codec", "codec/listing", "codec/merkle", "codec/names", "codec/shard", "codec/xorb",
		"cache/nowait", "cache/recent", "cache/origin"},
	"cache/origin/fetch":      {"cache/origin"},
	"cache/origin/web":        {"codec/listing", "codec/names", "cache/origin", "cache/origin/fetch"},
	"cache/origin/s3":         {"codec/names", "cache/origin", "cache/origin/fetch"},
	"cache/origin/cas":        append(below("codec"), "cache/lru", "cache/flight", "cache/origin", "cache/origin/fetch", "cache/origin/metacache"),
	"cache/origin/hub":        {"codec", "codec/shard", "codec/xorb", "cache/origin", "cache/origin/cas", "cache/origin/fetch"},
	"cache/origin/faulty":     {},
	"cache/origin/origintest": append(below("codec"), below("cache")...),
	"cache": {"codec", "codec/page", "codec/shard", "codec/xorb",
		"cache/arena", "cache/flight", "cache/lru", "cache/disk", "cache/origin"},

	"reconstruct": {"codec", "codec/merkle", "codec/shard", "codec/xorb",
		"cache", "cache/disk", "cache/flight", "cache/lru", "cache/origin", "cache/recent"},

	"fs/catalog/tree":   {"codec", "codec/page"},
	"fs/catalog":        {"codec", "codec/names", "codec/page", "cache/lru", "cache/origin", "fs/catalog/tree"},
	"fs/catalog/bare":   {"codec", "codec/names", "codec/page", "codec/shard", "cache/origin", "fs/catalog"},
	"fs/catalog/writer": append(below("codec"), "cache/origin", "fs/catalog", "fs/catalog/tree"),
	"fs/catalog/sweep":  append(below("codec"), "cache/lru", "cache/origin", "fs/catalog", "fs/catalog/tree"),
	"fs/fusemount":      {},
	"fs": {"codec", "codec/names", "codec/page", "cache/origin", "cache/recent", "reconstruct",
		"fs/catalog", "fs/catalog/bare", "fs/fusemount"},
	"fs/fstest": {},

	in + "ui":        {},
	in + "ui/uitest": {},
	in + "ignore":    {},
	in + "statcache": {"codec", "codec/journal", "codec/page", in + "ui"},
	in + "inspect":   append(below("codec"), in+"ui"),
	in + "ingest":    {"codec", "codec/pack", "codec/page", in + "ui", in + "ignore", in + "statcache"},
	in + "publish": append(below("codec"), "cache/origin", "cache/origin/dedup", "fs/catalog", "fs/catalog/writer",
		in+"ui", in+"ingest", in+"statcache"),
	in + "verify": append(below("codec"), "cache", "cache/origin", "reconstruct", "fs/catalog", in+"ui"),
	in + "warm": {"codec", "codec/page", "codec/shard", "cache", "cache/disk", "cache/origin", "reconstruct",
		"fs/catalog", in + "ui"},
	in + "delta": {"codec", "codec/names", "codec/page", "codec/shard", "codec/xorb", "cache/origin", "fs/catalog", in + "ui"},
	in + "stack": append(append(below("codec"), below("cache")...), "reconstruct",
		"fs/catalog", "fs/catalog/bare", "fs/catalog/writer", in+"ui"),
	in + "daemon": {"cache/origin", "fs", "fs/fusemount", in + "ui", in + "stack"},
	"cmd/xetfs": append(append(below("codec"), below("cache")...), "reconstruct",
		"fs", "fs/fusemount", "fs/catalog", "fs/catalog/tree", "fs/catalog/bare", "fs/catalog/writer", "fs/catalog/sweep",
		in+"ui", in+"ignore", in+"statcache", in+"ingest", in+"publish", in+"verify", in+"warm", in+"delta",
		in+"inspect", in+"stack", in+"daemon"),

	"integration":                  {},
	"integration/bench":            {},
	"integration/interop":          {},
	"integration/internal/harness": {"codec", "codec/merkle", "codec/shard", "codec/xorb", "codec/codectest"},
}

// untilMoved lists imports that end when the last file has moved.
var untilMoved = map[string][]string{
	"cache/origin":     {"cache/flight", "cache/lru"},
	"fs/catalog":       {"codec/pack", "codec/shard", "codec/xorb"},
	"fs/catalog/sweep": {"fs/catalog/writer"},
}

// below returns all packages of a floor except internal and test packages.
func below(floor string) []string {
	return map[string][]string{
		"codec": {
			"codec", "codec/chunker", "codec/merkle", "codec/xorb", "codec/shard", "codec/page",
			"codec/names", "codec/journal", "codec/listing", "codec/pack",
		},
		"cache": {
			"cache", "cache/arena", "cache/disk", "cache/flight", "cache/lru", "cache/nowait", "cache/recent",
			"cache/origin", "cache/origin/cas", "cache/origin/dedup", "cache/origin/dir", "cache/origin/faulty",
			"cache/origin/fetch", "cache/origin/hub", "cache/origin/metacache", "cache/origin/objects",
			"cache/origin/s3", "cache/origin/web", "cache/origin/wrap",
		},
	}[floor]
}

// onlyIn is who may import what does not belong to us, a package with all below it. What
// begins with a domain and has no row here is a dependency that nobody argued for. A "!"
// takes a package and those below it out again.
var onlyIn = map[string][]string{
	"github.com/hanwen/go-fuse/v2":          {"fs", "!fs/catalog"},
	"github.com/dgraph-io/ristretto/v2":     {"=cache"},
	"github.com/pierrec/lz4/v4":             {"codec/xorb"},
	"github.com/zeebo/blake3":               {"codec/merkle", "codec/page", "codec/names", "cache/origin/dir", "=fs"},
	"lukechampine.com/blake3":               {"codec/merkle"},
	"github.com/cespare/xxhash/v2":          {"codec/page"},
	"github.com/minio/minio-go/v7":          {"cache/origin/s3"},
	"github.com/failsafe-go/failsafe-go":    {"cache/origin/fetch"},
	"golang.org/x/sync":                     {"=cache", "cache/origin", "reconstruct", "codec/pack", "fs/catalog", "cmd/xetfs"},
	"golang.org/x/sys":                      {"codec/merkle", "cache/disk", "cache/nowait", "cache/origin/dir", "=fs", "fs/fusemount", "fs/fstest", "cmd/xetfs", "integration"},
	"golang.org/x/term":                     {"cmd/xetfs"},
	"github.com/moby/sys/mountinfo":         {"fs/fusemount"},
	"github.com/dustin/go-humanize":         {"=cmd/xetfs", in + "ui"},
	"github.com/spf13/cobra":                {"=cmd/xetfs"},
	"github.com/spf13/pflag":                {"=cmd/xetfs"},
	"github.com/schollz/progressbar/v3":     {"cmd/xetfs"},
	"github.com/coreos/go-systemd/v22":      {"cmd/xetfs"},
	"github.com/KimMachineGun/automemlimit": {"cmd/xetfs"},
	"github.com/prometheus/client_golang":   {"cmd/xetfs"},
	"github.com/rogpeppe/go-internal":       {},
	"pgregory.net/rapid":                    {"codec/codectest", "cache/origin/origintest"},
	"go.uber.org/goleak":                    {"codec/codectest", "cache/origin/origintest"},
	"github.com/google/go-cmp":              {"codec/codectest", "cache/origin/origintest"},
	"github.com/syndtr/goleveldb":           {},
	"github.com/kubernetes-csi/csi-test/v5": {},
	module + "/codec/codectest":             {"cache/origin/origintest"},
	module + "/cache/origin/origintest":     {},
	module + "/fs/fstest":                   {},
	module + "/" + in + "ui/uitest":         {},

	"net/http": {"cache/origin", "cmd/xetfs", "integration"},
	"os":       {"=cache", "cache/disk", "cache/origin/dir", "cache/origin/origintest", "reconstruct", "=fs", "fs/fusemount", "fs/fstest", "cmd/xetfs", "codec/codectest", "integration"},
	"log/slog": {"cache", "reconstruct", "fs", "cmd/xetfs"},
}

// calledIn is who may use single names of the standard library. "os.*" is all of os but
// for the rows that name something of it.
var calledIn = map[string][]string{
	"os.File":      {"=cache", "cache/disk", "cache/origin/dir", "cache/origin/origintest", "reconstruct", "=fs", "fs/fusemount", "cmd/xetfs", "codec/codectest", "integration"},
	"os.Getenv":    {"cmd/xetfs", "fs/fstest", "codec/codectest", "cache/origin/origintest", "integration"},
	"os.LookupEnv": {"cmd/xetfs", "codec/codectest", "cache/origin/origintest"},
	"os.Environ":   {"cmd/xetfs", "fs/fstest", "integration"},
	"os.ExpandEnv": {"cmd/xetfs"},
	"os.*":         {"cache/disk", "cache/origin/dir", "fs/fusemount", "cmd/xetfs", "fs/fstest", "codec/codectest", "cache/origin/origintest", "integration"},
	"time.Now":     {"cache", "reconstruct", "fs", "cmd/xetfs", "integration"},
	"time.Since":   {"cache", "reconstruct", "fs", "cmd/xetfs", "integration"},
	"time.Until":   {"cache", "reconstruct", "fs", "cmd/xetfs", "integration"},
}

// floors is the order of the top-level folders. Tests may reach for anything on their
// own floor and below, which is real and fast, and never for what is above.
var floors = []string{"codec", "cache", "reconstruct", "fs", "cmd", "integration"}

// A listed is one package as `go list -json` shows it.
type listed struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func (p listed) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

func TestLayers(t *testing.T) {
	for _, p := range list(t) {
		allowed, ok := mayImport[p.name()]
		if !ok {
			t.Errorf("package %s is not in the plan", p.name())
		}
		for _, imp := range p.Imports {
			if ours, ok := strings.CutPrefix(imp, module+"/"); ok && !slices.Contains(allowed, ours) && !slices.Contains(untilMoved[p.name()], ours) {
				t.Errorf("%s imports %s: not in the plan", p.name(), ours)
			}
			checkForeign(t, p.name(), imp)
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			checkTestImport(t, p.name(), imp)
		}
		for _, file := range p.GoFiles {
			checkCalls(t, p.name(), filepath.Join(p.Dir, file))
		}
	}
}

// list asks the go command for all packages of the module.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func checkForeign(t *testing.T, pkg, imp string) {
	known := false
	for what, who := range onlyIn {
		if !covers(what, imp) {
			continue
		}
		known = true
		if !anyCovers(who, pkg) {
			t.Errorf("%s imports %s: only %v may", pkg, imp, who)
		}
	}
	if !known && foreign(imp) {
		t.Errorf("%s imports %s: no row of onlyIn knows it", pkg, imp)
	}
}

// checkTestImport is for tests, which may use any library that somebody argued for.
func checkTestImport(t *testing.T, pkg, imp string) {
	if ours, ok := strings.CutPrefix(imp, module+"/"); ok {
		if slices.Index(floors, floor(ours)) > slices.Index(floors, floor(pkg)) {
			t.Errorf("tests of %s import %s, which is on a floor above", pkg, ours)
		}
		return
	}
	known := slices.ContainsFunc(slices.Collect(maps.Keys(onlyIn)), func(what string) bool { return covers(what, imp) })
	if foreign(imp) && !known {
		t.Errorf("tests of %s import %s: no row of onlyIn knows it", pkg, imp)
	}
}

// checkCalls looks for the names of calledIn in one file.
func checkCalls(t *testing.T, pkg, file string) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]string{} // name in the file → path
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil || (path != "os" && path != "time") {
			continue
		}
		name := path
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = path
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && imported[x.Name] != "" {
			if who, ok := allowedCallers(imported[x.Name], sel.Sel.Name); ok && !anyCovers(who, pkg) {
				t.Errorf("%s: %s uses %s.%s: only %v may", fset.Position(sel.Pos()), pkg, x.Name, sel.Sel.Name, who)
			}
		}
		return true
	})
}

func allowedCallers(path, name string) (who []string, ruled bool) {
	if who, ok := calledIn[path+"."+name]; ok {
		return who, true
	}
	who, ok := calledIn[path+".*"]
	return who, ok
}

// anyCovers says whether a list of packages names pkg: itself or a folder above it. "="
// means the very package alone, "!" takes out.
func anyCovers(who []string, pkg string) bool {
	yes := false
	for _, w := range who {
		if out, ok := strings.CutPrefix(w, "!"); ok && covers(out, pkg) {
			return false
		}
		if exact, ok := strings.CutPrefix(w, "="); ok {
			yes = yes || exact == pkg
		} else {
			yes = yes || covers(w, pkg)
		}
	}
	return yes
}

// covers says whether path is what or below it.
func covers(what, path string) bool { return path == what || strings.HasPrefix(path, what+"/") }

// foreign says whether an import path begins with a domain, and it is not ours.
func foreign(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return strings.Contains(first, ".") && !covers(module, imp)
}

func floor(pkg string) string {
	top, _, _ := strings.Cut(pkg, "/")
	return top
}

// The plan itself must hold: arrows lead to packages of the plan, downwards, and never
// back.
func TestLayersPlan(t *testing.T) {
	for pkg, imports := range mayImport {
		for _, imp := range imports {
			if _, ok := mayImport[imp]; !ok {
				t.Errorf("%s may import %s, which is not in the plan", pkg, imp)
			}
			if slices.Index(floors, floor(imp)) > slices.Index(floors, floor(pkg)) {
				t.Errorf("%s may import %s, which is on a floor above", pkg, imp)
			}
			if slices.Contains(mayImport[imp], pkg) {
				t.Errorf("%s and %s may import each other", pkg, imp)
			}
		}
	}
}

func TestLayersCovers(t *testing.T) {
	tests := []struct {
		who  []string
		pkg  string
		want bool
	}{
		{[]string{"fs", "!fs/catalog"}, "fs", true},
		{[]string{"fs", "!fs/catalog"}, "fs/catalog", false},
		{[]string{"fs", "!fs/catalog"}, "fs/catalog/tree", false},
		{[]string{"=cache"}, "cache", true},
		{[]string{"=cache"}, "cache/origin", false},
		{[]string{"cache/origin"}, "cache/origin/s3", true},
		{[]string{"cache/origin"}, "cache/origins", false},
		{nil, "codec", false},
	}
	for _, tt := range tests {
		if got := anyCovers(tt.who, tt.pkg); got != tt.want {
			t.Errorf("anyCovers(%v, %q) = %t, want %t", tt.who, tt.pkg, got, tt.want)
		}
	}
}
