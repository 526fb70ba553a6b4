package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// maxLines bounds the lines of a package without tests. A higher bound needs a reason in the
// commit message.
var maxLines = map[string]int{
	"cache":                    3980,
	"cache/disk":               4700,
	"cache/origin/cas":         4290,
	"cache/origin/fetch":       3030,
	"cache/origin/origintest":  3220,
	"cmd/xetfs":                6900,
	"cmd/xetfs/internal/serve": 3500,
	"fs":                       5220,
	"fs/catalog/sweep":         2850,
	"fs/catalog/writer":        3430,
	"reconstruct":              3740,
}

// otherLines bounds packages without a row in maxLines.
const otherLines = 2700

// maxMainFiles bounds the files of package main without tests.
const maxMainFiles = 36

func TestSizes(t *testing.T) {
	lines := map[string]int{}
	for _, p := range list(t) {
		for _, file := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			lines[p.name()] += bytes.Count(src, []byte("\n"))
		}
		if p.name() == "cmd/xetfs" && len(p.GoFiles) > maxMainFiles {
			t.Errorf("cmd/xetfs has %d files, %d are allowed", len(p.GoFiles), maxMainFiles)
		}
	}
	for _, problem := range sizeProblems(lines) {
		t.Error(problem)
	}
}

// sizeProblems returns the packages that have too many lines.
func sizeProblems(lines map[string]int) (problems []string) {
	for pkg, n := range lines {
		bound, ok := maxLines[pkg]
		if !ok {
			bound = otherLines
		}
		if n >= bound {
			problems = append(problems, fmt.Sprintf("%s has %d lines, fewer than %d are allowed", pkg, n, bound))
		}
	}
	slices.Sort(problems)
	return problems
}

func TestSizeProblems(t *testing.T) {
	program := maxLines["cmd/xetfs"]
	lines := map[string]int{"cmd/xetfs": program, "cache/disk": maxLines["cache/disk"] - 1, "codec": otherLines, "codec/page": otherLines - 1}
	got := sizeProblems(lines)
	want := []string{
		fmt.Sprintf("cmd/xetfs has %d lines, fewer than %[1]d are allowed", program),
		fmt.Sprintf("codec has %d lines, fewer than %[1]d are allowed", otherLines),
	}
	if !slices.Equal(got, want) {
		t.Errorf("problems are %q, want %q", got, want)
	}
}
