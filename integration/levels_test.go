package integration

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The bounds of the levels and of the references in cycles. They may only shrink.
const (
	maxLevels = 6
	maxCycles = 0
)

// TestLevels checks the graph of the files of package main and the packages below it. A file
// or package is one level above all that it uses. A cycle contains a reference to a higher
// level.
func TestLevels(t *testing.T) {
	uses := map[string][]string{}
	var files []string
	for _, p := range list(t) {
		switch {
		case p.name() == "cmd/xetfs":
			for _, f := range p.GoFiles {
				files = append(files, filepath.Join(p.Dir, f))
			}
		case strings.HasPrefix(p.name(), in):
			uses[p.name()] = commandImports(p.Imports)
		}
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, path := range files {
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	maps.Copy(uses, fileUses(fset, parsed))
	levels, cycles := levelsOf(uses)
	for i, level := range levels {
		t.Logf("level %d: %s", i+1, strings.Join(level, " "))
	}
	for _, c := range cycles {
		t.Log(c)
	}
	if len(levels) > maxLevels || len(cycles) > maxCycles {
		t.Errorf("%d levels and %d references in cycles, at most %d and %d are allowed", len(levels), len(cycles), maxLevels, maxCycles)
	}
}

// commandImports returns the packages below cmd/xetfs among imports.
func commandImports(imports []string) (ours []string) {
	for _, imp := range imports {
		if name := strings.TrimPrefix(imp, module+"/"); strings.HasPrefix(name, in) {
			ours = append(ours, name)
		}
	}
	return ours
}

// fileUses returns, for each file of one package, the other files that declare names it uses,
// and the packages below cmd/xetfs that it imports. A method counts for the file of its type.
func fileUses(fset *token.FileSet, files []*ast.File) map[string][]string {
	base := func(f *ast.File) string { return filepath.Base(fset.Position(f.Package).Filename) }
	declared := map[string]string{} // name → file
	for _, f := range files {
		for name := range f.Scope.Objects {
			declared[name] = base(f)
		}
	}
	uses := map[string][]string{}
	for _, f := range files {
		keys := map[*ast.Ident]bool{} // names of fields in literals
		ast.Inspect(f, func(n ast.Node) bool {
			if kv, ok := n.(*ast.KeyValueExpr); ok {
				if id, ok := kv.Key.(*ast.Ident); ok {
					keys[id] = true
				}
			}
			return true
		})
		found := map[string]bool{}
		for _, id := range f.Unresolved {
			if file := declared[id.Name]; file != "" && !keys[id] {
				found[file] = true
			}
		}
		var imports []string
		for _, spec := range f.Imports {
			imports = append(imports, strings.Trim(spec.Path.Value, `"`))
		}
		uses[base(f)] = append(slices.Sorted(maps.Keys(found)), commandImports(imports)...)
	}
	return uses
}

// levelsOf returns the nodes of a graph by level, the highest first, and the references that
// are part of a cycle.
func levelsOf(uses map[string][]string) (levels [][]string, cycles []string) {
	reach := map[string]map[string]bool{}
	var walk func(from, to string)
	walk = func(from, to string) {
		for _, next := range uses[to] {
			if !reach[from][next] {
				reach[from][next] = true
				walk(from, next)
			}
		}
	}
	for n := range uses {
		reach[n] = map[string]bool{}
		walk(n, n)
	}
	height := map[string]int{} // nodes on the longest way down
	var measure func(n string) int
	measure = func(n string) int {
		if h, ok := height[n]; ok {
			return h
		}
		h := 1
		for _, next := range uses[n] {
			if !reach[next][n] {
				h = max(h, 1+measure(next))
			}
		}
		height[n] = h
		return h
	}
	top := 0
	for n := range uses {
		top = max(top, measure(n))
	}
	levels = make([][]string, top)
	for _, n := range slices.Sorted(maps.Keys(uses)) {
		levels[top-height[n]] = append(levels[top-height[n]], n)
		for _, next := range uses[n] {
			if reach[next][n] {
				cycles = append(cycles, fmt.Sprintf("%s uses %s, which uses %s", n, next, n))
			}
		}
	}
	return levels, cycles
}

func TestLevelsOf(t *testing.T) {
	tests := []struct {
		name   string
		uses   map[string][]string
		levels string
		cycles string
	}{
		{"chain", map[string][]string{"a": {"b", "c"}, "b": {"c"}, "c": nil}, "a/b/c", ""},
		{"two tops", map[string][]string{"a": {"c"}, "b": {"c"}, "c": nil}, "a b/c", ""},
		{"upwards", map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"b"}}, "a/b c", "b uses c, which uses b; c uses b, which uses c"},
	}
	for _, tt := range tests {
		levels, cycles := levelsOf(tt.uses)
		var text []string
		for _, l := range levels {
			text = append(text, strings.Join(l, " "))
		}
		if got := strings.Join(text, "/"); got != tt.levels || strings.Join(cycles, "; ") != tt.cycles {
			t.Errorf("%s: levels %q and cycles %q, want %q and %q", tt.name, got, cycles, tt.levels, tt.cycles)
		}
	}
}

func TestFileUses(t *testing.T) {
	fset := token.NewFileSet()
	var files []*ast.File
	for name, src := range map[string]string{
		"a.go": `package p; import "github.com/xetfs/xetfs/cmd/xetfs/internal/ui"; func a() { b(); ui.F() }`,
		"b.go": `package p; type T struct{ c int }; func b() T { c := 1; return T{c: c} }`,
		"c.go": `package p; const c = 2; func (T) m() {}`,
	} {
		f, err := parser.ParseFile(fset, name, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	got := fmt.Sprint(fileUses(fset, files))
	if want := "map[a.go:[b.go cmd/xetfs/internal/ui] b.go:[] c.go:[b.go]]"; got != want {
		t.Errorf("files use %s, want %s", got, want)
	}
}
