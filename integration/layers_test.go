package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
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
	"codec":            {},
	"codec/chunker":    {"codec"},
	"codec/merkle":     {"codec"},
	"codec/xorb":       {"codec", "codec/merkle"},
	"codec/shard":      {"codec"},
	"codec/page":       {"codec", "codec/merkle"},
	"codec/strictjson": {"codec"},
	"codec/names":      {"codec", "codec/page", "codec/strictjson"},
	"codec/journal":    {"codec"},
	"codec/listing":    {"codec", "codec/names", "codec/page"},
	"codec/pack":       {"codec", "codec/chunker", "codec/merkle", "codec/xorb", "codec/shard"},
	"codec/codectest":  {"codec"},

	"cache/arena":               {"codec"},
	"cache/flight":              {},
	"cache/histogram":           {},
	"cache/logdedup":            {},
	"cache/lru":                 {},
	"cache/nowait":              {},
	"cache/recent":              {},
	"cache/disk/internal/vfs":   {"cache/nowait"},
	"cache/disk/internal/index": {"codec"},
	"cache/disk/internal/wal":   {"codec", "codec/journal", "cache/disk/internal/vfs", "cache/disk/internal/index"},
	"cache/disk": {"codec", "codec/journal", "codec/xorb", "cache/nowait",
		"cache/disk/internal/vfs", "cache/disk/internal/index", "cache/disk/internal/wal"},
	"cache/origin":           {"codec", "codec/listing", "codec/merkle", "codec/names", "codec/pack", "codec/page", "codec/shard", "codec/xorb"},
	"cache/origin/metacache": {"codec", "codec/merkle", "codec/page", "codec/shard", "codec/xorb", "cache/lru", "cache/origin"},
	"cache/origin/objects": {"codec", "codec/merkle", "codec/names", "codec/shard", "codec/xorb",
		"cache/flight", "cache/lru", "cache/origin", "cache/origin/metacache"},
	"cache/origin/mirror": {"codec", "codec/merkle", "codec/names", "cache/flight", "cache/origin"},
	"cache/origin/dedup": {"codec", "codec/merkle", "codec/names", "codec/pack", "codec/shard", "codec/xorb",
		"cache/origin", "cache/origin/mirror"},
	"cache/origin/upload": append(below("codec"), "cache/flight", "cache/lru", "cache/origin", "cache/origin/dedup", "cache/origin/mirror"),
	"cache/origin/wrap":   {"codec", "codec/shard", "codec/xorb", "cache/origin"},
	"cache/origin/dir": {"codec", "codec/listing", "codec/merkle", "codec/names", "codec/shard", "codec/xorb",
		"cache/nowait", "cache/recent", "cache/origin"},
	"cache/origin/fetch":      {"codec/names", "cache/flight", "cache/histogram", "cache/logdedup", "cache/origin"},
	"cache/origin/web":        {"codec", "codec/listing", "codec/names", "cache/flight", "cache/lru", "cache/origin", "cache/origin/fetch"},
	"cache/origin/s3":         {"codec/listing", "codec/names", "cache/flight", "cache/origin", "cache/origin/fetch"},
	"cache/origin/cas":        append(below("codec"), "cache/lru", "cache/flight", "cache/origin", "cache/origin/fetch", "cache/origin/metacache"),
	"cache/origin/hub":        {"codec", "codec/names", "codec/shard", "codec/xorb", "codec/merkle", "cache/lru", "cache/flight", "cache/origin", "cache/origin/fetch", "cache/origin/metacache"},
	"cache/origin/certtest":   {},
	"cache/origin/faulty":     {},
	"cache/origin/linktest":   {"cache/origin/faulty"},
	"cache/origin/origintest": append(below("codec"), below("cache")...),
	"cache/seen":              {"codec", "codec/merkle", "cache/lru"},
	"cache/byhash":            {"codec"},
	"cache": {"codec", "codec/merkle", "codec/page", "codec/shard", "codec/xorb",
		"cache/arena", "cache/flight", "cache/lru", "cache/disk", "cache/origin", "cache/seen", "cache/byhash"},

	"cache/origin/cas/casserve": {"codec", "codec/names", "codec/shard", "codec/xorb", "cache/flight", "cache/lru", "cache/origin", "cache/origin/upload"},
	"cache/origin/hub/hubtest":  {},
	"cache/origin/hub/hubserve": {"codec", "cache/lru", "cache/origin", "cache/origin/hub"},
	"cache/origin/hub/hubwrite": {"cache/origin/hub", "cache/origin/hub/hubserve", "cache/origin/upload"},

	"reconstruct": {"codec", "codec/merkle", "codec/shard", "codec/xorb",
		"cache", "cache/disk", "cache/flight", "cache/lru", "cache/origin", "cache/recent"},

	"fs/catalog/tree":      {"codec", "codec/page"},
	"fs/catalog":           {"codec", "codec/names", "codec/page", "cache/flight", "cache/lru", "cache/origin", "fs/catalog/tree"},
	"fs/catalog/bare":      {"codec", "codec/names", "codec/page", "codec/shard", "cache/origin", "fs/catalog"},
	"fs/catalog/writer":    append(below("codec"), "cache/origin", "fs/catalog", "fs/catalog/tree"),
	"fs/catalog/signature": {"codec/names", "codec/page", "cache/lru", "fs/catalog"},
	"fs/catalog/sweep":     append(below("codec"), "cache/lru", "cache/origin", "fs/catalog", "fs/catalog/tree"),
	"fs/catalog/repack":    append(below("codec"), "cache/lru", "cache/origin", "fs/catalog", "fs/catalog/tree", "fs/catalog/sweep", "fs/catalog/writer"),
	"fs/fusemount":         {},
	"fs/sequence":          {"codec", "codec/page", "cache/flight", "cache/lru"},
	"fs/meter":             {"cache/histogram"},
	"fs/claims":            {"codec"},
	"fs": {"codec", "codec/names", "codec/page", "cache/flight", "cache/logdedup", "cache/lru", "cache/origin", "cache/recent", "reconstruct",
		"fs/catalog", "fs/catalog/bare", "fs/claims", "fs/fusemount", "fs/meter", "fs/sequence"},
	"fs/fstest": {},

	in + "ui":        {},
	in + "ui/uitest": {},
	in + "fdcheck":   {},
	in + "loopback":  {},
	in + "connlimit": {},
	in + "ignore":    {},
	in + "manual":    {},
	in + "mountopts": {in + "hint", in + "ui"},
	in + "hint":      {"codec/names", "codec/page", "cache/origin/dir", "fs/catalog", in + "ui"},
	in + "statcache": {"codec", "codec/journal", "codec/page"},
	in + "inspect":   append(below("codec"), in+"ui"),
	in + "ingest":    {"codec", "codec/pack", "codec/page", in + "ui", in + "ignore", in + "statcache"},
	in + "publish": append(below("codec"), "cache/origin", "cache/origin/dedup", "cache/origin/mirror", "fs/catalog", "fs/catalog/writer",
		in+"ui", in+"ingest", in+"statcache"),
	in + "verify": append(below("codec"), "cache", "cache/origin", "reconstruct", "fs/catalog", "fs/catalog/sweep", in+"ui"),
	in + "warm": {"codec", "codec/page", "codec/shard", "cache", "cache/disk", "cache/origin", "reconstruct",
		"fs/catalog", in + "ui"},
	in + "doctor":  {},
	in + "extract": {"codec", "codec/page", "cache/origin", "reconstruct", "fs/catalog", in + "ui"},
	in + "delta":   {"codec", "codec/names", "codec/page", "codec/shard", "codec/xorb", "cache/lru", "cache/origin", "fs/catalog"},
	in + "picture": {"codec", in + "delta", in + "inspect", in + "ui"},
	in + "auth":    {},
	in + "serve": {"codec", "codec/merkle", "codec/names", "codec/page", "codec/listing", "codec/shard", "codec/xorb",
		"cache", "cache/flight", "cache/histogram", "cache/logdedup", "cache/lru", "cache/origin", "cache/origin/cas/casserve", "cache/origin/hub", "cache/origin/hub/hubserve", "cache/origin/hub/hubwrite", "cache/recent", "cache/origin/upload",
		"reconstruct", "fs/catalog", "fs/catalog/writer", in + "ui", in + "auth", in + "commits", in + "connlimit", in + "loopback"},
	in + "commits": {"codec", "codec/names", "codec/page", "cache/origin", "cache/origin/hub", "cache/origin/hub/hubserve", "cache/origin/hub/hubwrite", "cache/origin/upload",
		"fs/catalog", "fs/catalog/writer"},
	in + "hubimport": {"codec", "codec/names", "codec/page", "cache/flight", "cache/lru", "cache/origin", "cache/origin/dir", "cache/origin/hub",
		"fs/catalog", "fs/catalog/tree", "fs/catalog/writer"},
	in + "stack": append(append(below("codec"), below("cache")...), "reconstruct",
		"fs/catalog", "fs/catalog/bare", "fs/catalog/signature", "fs/catalog/writer", "fs/fusemount", in+"ui", in+"auth", in+"hubimport"),
	in + "signers":  {"codec/names", "fs/catalog/signature"},
	in + "document": append(below("codec"), in+"signers", in+"ui", in+"inspect", in+"delta"),
	in + "report": append(below("codec"), "cache/disk", "cache/origin", "fs/catalog/sweep", "fs/catalog/repack",
		in+"extract", in+"ui", in+"document", in+"inspect", in+"ingest", in+"publish", in+"verify", in+"warm"),
	in + "status":    {"cache", "cache/disk", "cache/histogram", "cache/origin/fetch", "fs", "fs/fusemount", "cmd/xetfs/page", in + "connlimit", in + "loopback", in + "serve", in + "stack", in + "ui"},
	in + "daemon":    {"cache/origin", "fs", "fs/fusemount", in + "connlimit", in + "loopback", in + "ui", in + "stack"},
	"cmd/xetfs/page": {},
	"cmd/xetfs": append(append(below("codec"), below("cache")...), "reconstruct", in+"extract", in+"doctor",
		"fs", "fs/fusemount", "fs/catalog", "fs/catalog/tree", "fs/catalog/bare", "fs/catalog/signature", "fs/catalog/writer", "fs/catalog/sweep", "fs/catalog/repack",
		in+"signers", in+"ui", in+"ignore", in+"statcache", in+"ingest", in+"publish", in+"verify", in+"warm", in+"delta",
		in+"inspect", in+"picture", in+"document", in+"report", in+"commits", in+"serve", in+"stack", in+"status", in+"daemon", in+"fdcheck", in+"hint", in+"manual", in+"mountopts"),

	"integration":                  {},
	"integration/bench":            {},
	"integration/interop":          {},
	"integration/monitor":          {},
	"integration/internal/harness": {"codec", "codec/merkle", "codec/shard", "codec/xorb", "codec/codectest"},
}

// below returns all packages of a floor except internal and test packages.
func below(floor string) []string {
	return map[string][]string{
		"codec": {
			"codec", "codec/chunker", "codec/merkle", "codec/xorb", "codec/shard", "codec/page",
			"codec/names", "codec/journal", "codec/listing", "codec/pack", "codec/strictjson",
		},
		"cache": {
			"cache", "cache/arena", "cache/disk", "cache/flight", "cache/histogram", "cache/logdedup", "cache/lru", "cache/nowait", "cache/recent",
			"cache/origin", "cache/origin/cas", "cache/origin/cas/casserve", "cache/origin/dedup", "cache/origin/dir", "cache/origin/faulty",
			"cache/origin/fetch", "cache/origin/hub", "cache/origin/metacache", "cache/origin/mirror", "cache/origin/objects",
			"cache/origin/hub/hubserve", "cache/origin/hub/hubwrite", "cache/origin/s3", "cache/origin/upload", "cache/origin/web", "cache/origin/wrap",
		},
	}[floor]
}

// onlyIn lists the packages that may import other modules and some packages of the standard
// library. An entry covers a package and all below it, "=" the package alone, and "!" excludes.
// A module without a row needs one, with the reason in the commit message.
var onlyIn = map[string][]string{
	"github.com/hanwen/go-fuse/v2":          {"=fs", "fs/meter"},
	"github.com/dgraph-io/ristretto/v2":     {"=cache"},
	"github.com/pierrec/lz4/v4":             {"codec/xorb"},
	"github.com/zeebo/blake3":               {"codec/merkle", "codec/page", "codec/names", "cache/origin/dir", "=fs"},
	"lukechampine.com/blake3":               {"codec/merkle"},
	"github.com/cespare/xxhash/v2":          {"codec/page"},
	"github.com/minio/minio-go/v7":          {"cache/origin/s3"},
	"github.com/failsafe-go/failsafe-go":    {"cache/origin/fetch"},
	"golang.org/x/sync":                     {"=cache", "cache/origin", "reconstruct", "codec/pack", "fs/catalog", "cmd/xetfs"},
	"golang.org/x/sys":                      {"codec/merkle", "cache/disk", "cache/nowait", "cache/origin/dir", "cache/origin/origintest", "cache/origin/upload", "=fs", "fs/fusemount", "fs/fstest", "cmd/xetfs", "integration"},
	"github.com/hiddeco/sshsig":             {"fs/catalog/signature"},
	"golang.org/x/crypto":                   {"fs/catalog/signature"},
	"golang.org/x/term":                     {in + "ui"},
	"github.com/moby/sys/mountinfo":         {"fs/fusemount"},
	"github.com/dustin/go-humanize":         {"=cmd/xetfs", in + "ui"},
	"github.com/spf13/cobra":                {"=cmd/xetfs"},
	"github.com/spf13/pflag":                {"=cmd/xetfs"},
	"github.com/schollz/progressbar/v3":     {in + "ui"},
	"github.com/coreos/go-systemd/v22":      {in + "daemon"},
	"github.com/KimMachineGun/automemlimit": {in + "stack"},
	"github.com/prometheus/client_golang":   {in + "status"},
	"github.com/rogpeppe/go-internal":       {},
	"pgregory.net/rapid":                    {"codec/codectest", "cache/origin/origintest"},
	"go.uber.org/goleak":                    {"codec/codectest", "cache/origin/origintest"},
	"github.com/google/go-cmp":              {"codec/codectest", "cache/origin/origintest"},
	"github.com/syndtr/goleveldb":           {},
	"github.com/kubernetes-csi/csi-test/v5": {},
	"github.com/chromedp/chromedp":          {},
	"github.com/chromedp/cdproto":           {},
	module + "/codec/codectest":             {"cache/origin/origintest"},
	module + "/cache/origin/hub/hubtest":    {},
	module + "/cache/origin/linktest":       {},
	module + "/cache/origin/origintest":     {},
	module + "/fs/fstest":                   {},
	module + "/" + in + "ui/uitest":         {},

	"net/http": {"cache/origin/fetch", "cache/origin/web", "cache/origin/s3", "cache/origin/hub", "cache/origin/cas", "cache/origin/faulty", "cache/origin/origintest", "cmd/xetfs", "integration"},
	"os":       {"=cache", "cache/disk", "cache/origin/dir", "cache/origin/mirror", "cache/origin/origintest", "reconstruct", "=fs", "fs/fusemount", "fs/fstest", "cmd/xetfs", "codec/codectest", "integration"},
	"log/slog": {"cache", "reconstruct", "fs", "cmd/xetfs"},
}

// calledIn lists the packages that may use single names of the standard library. "os.*" covers
// all names of os without a row. Package main passes the values of its environment in.
var calledIn = map[string][]string{
	"os.File":      {"=cache", "cache/disk", "cache/origin/dir", "cache/origin/mirror", "cache/origin/origintest", "reconstruct", "=fs", "fs/fusemount", "cmd/xetfs", "codec/codectest", "integration"},
	"os.Args":      onlyMain("fs/fstest", "codec/codectest"),
	"os.Exit":      onlyMain(),
	"os.Stdin":     onlyMain(),
	"os.Stdout":    onlyMain("codec/codectest"),
	"os.Stderr":    onlyMain("integration"),
	"os.Getenv":    onlyMain("fs/fstest", "codec/codectest", "cache/origin/origintest", "integration"),
	"os.LookupEnv": onlyMain("codec/codectest", "cache/origin/origintest"),
	"os.Environ":   onlyMain("fs/fstest", "integration"),
	"os.ExpandEnv": onlyMain(),
	"os.*":         {"cache/disk", "cache/origin/dir", "cache/origin/mirror", "fs/fusemount", "cmd/xetfs", "fs/fstest", "codec/codectest", "cache/origin/origintest", "integration"},
	"time.Now":     {"cache", "reconstruct", "fs", "cmd/xetfs", "integration"},
	"time.Since":   {"cache", "reconstruct", "fs", "cmd/xetfs", "integration"},
	"time.Until":   {"cache", "reconstruct", "fs", "cmd/xetfs", "integration"},
}

// onlyMain returns package main and some others.
func onlyMain(others ...string) []string { return append([]string{"=cmd/xetfs"}, others...) }

// floors is the order of the top-level folders. A test may import its own floor and those
// below, and never a floor above.
var floors = []string{"codec", "cache", "reconstruct", "fs", "cmd", "integration"}

// A listedPackage is one package as `go list -json` shows it.
type listedPackage struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func (p listedPackage) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

func TestLayers(t *testing.T) {
	all := list(t)
	for _, p := range all {
		problems := importProblems(p)
		for _, file := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			problems = append(problems, callProblems(p.name(), file, src)...)
		}
		for _, problem := range problems {
			t.Error(problem)
		}
	}
	for _, problem := range linkProblems(all) {
		t.Error(problem)
	}
}

// importProblems returns the imports of a package that its rows do not allow.
func importProblems(p listedPackage) (problems []string) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	allowed, ok := mayImport[p.name()]
	if !ok {
		report("%s has no row in mayImport", p.name())
	}
	for _, imp := range p.Imports {
		if ours, ok := strings.CutPrefix(imp, module+"/"); ok && !slices.Contains(allowed, ours) {
			report("%s imports %s: not in its row of mayImport", p.name(), ours)
		}
		known := false
		for path, pkgs := range onlyIn {
			if covers(path, imp) && !anyCovers(pkgs, p.name()) {
				report("%s imports %s: only %v may", p.name(), imp, pkgs)
			}
			known = known || covers(path, imp)
		}
		if foreign(imp) && !known {
			report("%s imports %s: no row in onlyIn", p.name(), imp)
		}
	}
	for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
		ours, own := strings.CutPrefix(imp, module+"/")
		known := slices.ContainsFunc(slices.Collect(maps.Keys(onlyIn)), func(path string) bool { return covers(path, imp) })
		switch {
		case own && slices.Index(floors, floor(ours)) > slices.Index(floors, floor(p.name())):
			report("tests of %s import %s, on a floor above", p.name(), ours)
		case foreign(imp) && !known:
			report("tests of %s import %s: no row in onlyIn", p.name(), imp)
		}
	}
	return problems
}

// The read path never links the packages that write to a store.
var (
	readPath   = []string{"fs", "reconstruct", "cache", "cache/origin/objects"}
	neverReads = []string{"fs/catalog/writer", "fs/catalog/sweep", "fs/catalog/repack", "cache/origin/dedup"}
)

// linkProblems returns the packages of the read path that link a package for writers.
func linkProblems(all []listedPackage) (problems []string) {
	imports := map[string][]string{}
	for _, p := range all {
		for _, imp := range p.Imports {
			imports[p.name()] = append(imports[p.name()], strings.TrimPrefix(imp, module+"/"))
		}
	}
	for _, from := range readPath {
		linked := map[string]bool{from: true}
		for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
			for _, imp := range imports[queue[0]] {
				if !linked[imp] {
					linked[imp] = true
					queue = append(queue, imp)
				}
			}
		}
		for _, pkg := range neverReads {
			if linked[pkg] {
				problems = append(problems, fmt.Sprintf("%s links %s", from, pkg))
			}
		}
	}
	return problems
}

// list returns all packages of the module.
func list(t *testing.T) []listedPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listedPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// callProblems returns the uses of names in one file that calledIn does not allow.
func callProblems(pkg, file string, src []byte) (problems []string) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
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
			if pkgs, ok := allowedCallers(imported[x.Name], sel.Sel.Name); ok && !anyCovers(pkgs, pkg) {
				problems = append(problems, fmt.Sprintf("%s/%s:%d uses %s.%s: only %v may", pkg, file, fset.Position(sel.Pos()).Line, imported[x.Name], sel.Sel.Name, pkgs))
			}
		}
		return true
	})
	return problems
}

func allowedCallers(path, name string) (pkgs []string, hasRow bool) {
	if pkgs, ok := calledIn[path+"."+name]; ok {
		return pkgs, true
	}
	pkgs, hasRow = calledIn[path+".*"]
	return pkgs, hasRow
}

// anyCovers reports whether a list of packages covers pkg.
func anyCovers(list []string, pkg string) bool {
	yes := false
	for _, w := range list {
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

// covers reports whether path is in dir or equal to it.
func covers(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// foreign reports whether an import path begins with a domain and belongs to another module.
func foreign(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return strings.Contains(first, ".") && !covers(module, imp)
}

func floor(pkg string) string {
	top, _, _ := strings.Cut(pkg, "/")
	return top
}

// TestLayersPlan checks the rows themselves: an import has a row, and leads down.
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
		list []string
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
		if got := anyCovers(tt.list, tt.pkg); got != tt.want {
			t.Errorf("anyCovers(%v, %q) = %t, want %t", tt.list, tt.pkg, got, tt.want)
		}
	}
}

// Each rule finds a deliberate violation.
func TestLayersViolations(t *testing.T) {
	imports := []struct{ pkg, imp, want string }{
		{"codec/new", "fmt", "has no row in mayImport"},
		{"codec", module + "/cache", "not in its row"},
		{"codec", "example.org/module", "no row in onlyIn"},
		{in + "ui", "github.com/spf13/cobra", "only [=cmd/xetfs] may"},
		{in + "stack", "github.com/spf13/pflag", "only [=cmd/xetfs] may"},
		{in + "publish", "github.com/dustin/go-humanize", "only"},
		{"fs", "github.com/moby/sys/mountinfo", "only [fs/fusemount] may"},
		{"cache/origin/web", "github.com/failsafe-go/failsafe-go", "only [cache/origin/fetch] may"},
		{"cache/disk", "github.com/google/renameio/v2", "no row in onlyIn"},
		{in + "ui", module + "/codec", "not in its row"},
		{in + "ignore", module + "/" + in + "ui", "not in its row"},
		{in + "statcache", module + "/cache/origin", "not in its row"},
		{in + "inspect", module + "/cache/origin", "not in its row"},
		{in + "ingest", module + "/" + in + "publish", "not in its row"},
		{in + "verify", module + "/" + in + "ingest", "not in its row"},
		{in + "warm", module + "/" + in + "stack", "not in its row"},
		{in + "verify", module + "/cache/origin/dir", "not in its row"},
		{in + "warm", module + "/cache/origin/web", "not in its row"},
		{in + "delta", module + "/cache/origin/dir", "not in its row"},
		{in + "publish", module + "/cache/origin/dir", "not in its row"},
		{"fs", module + "/fs/catalog/writer", "not in its row"},
		{"fs/catalog", module + "/cache/origin/dedup", "not in its row"},
	}
	for _, tt := range imports {
		got := importProblems(listedPackage{ImportPath: module + "/" + tt.pkg, Imports: []string{tt.imp}})
		if len(got) != 1 || !strings.Contains(got[0], tt.want) {
			t.Errorf("%s imports %s: problems are %q, want one with %q", tt.pkg, tt.imp, got, tt.want)
		}
	}
	for _, name := range []string{"Args", "Getenv", "LookupEnv", "Environ", "Exit", "Stdin", "Stdout", "Stderr"} {
		src := []byte("package p\n\nimport sys \"os\"\n\nvar _ = sys." + name)
		for pkg, want := range map[string]int{"cmd/xetfs": 0, in + "verify": 1, "fs": 1, "cache/disk": 1} {
			if got := callProblems(pkg, "a.go", src); len(got) != want {
				t.Errorf("%s uses os.%s: problems are %q, want %d", pkg, name, got, want)
			}
		}
	}
	links := []listedPackage{
		{ImportPath: module + "/fs", Imports: []string{module + "/fs/catalog"}},
		{ImportPath: module + "/fs/catalog", Imports: []string{module + "/fs/catalog/writer"}},
	}
	if got := linkProblems(links); !slices.Equal(got, []string{"fs links fs/catalog/writer"}) {
		t.Errorf("problems of the read path are %q", got)
	}
}
