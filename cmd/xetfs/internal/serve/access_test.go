package serve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/hub"
)

func TestGrantMatches(t *testing.T) {
	tests := []struct {
		patterns []string
		symbol   string
		want     bool
	}{
		{nil, "org/model", true},
		{[]string{"org/*"}, "org/model", true},
		{[]string{"org/*"}, "org/model/deep", false},
		{[]string{"org/*"}, "other/model", false},
		{[]string{"*"}, "org/model", false},
		{[]string{"*/*"}, "org/model", true},
		{[]string{"a", "org/m?del"}, "org/model", true},
		{[]string{"datasets/org/*"}, "datasets/org/data", true},
	}
	for _, tt := range tests {
		g := grant{patterns: tt.patterns}
		if got := g.matches(tt.symbol); got != tt.want {
			t.Errorf("%q may read %s: %t, want %t", tt.patterns, tt.symbol, got, tt.want)
		}
	}
}

// A repository has one symbol, or the symbol of a mirror. The patterns of a token name the symbol
// that a store would have.
func TestSymbolsOf(t *testing.T) {
	tests := []struct {
		mirror, pattern string
		id              hub.RepoID
		want            []string
		may             bool
	}{
		{"", "o/*", hub.RepoID{Type: hub.Model, Name: "o/n"}, []string{"models/o/n", "o/n"}, false},
		{"", "o", hub.RepoID{Type: hub.Model, Name: "o"}, []string{"models/o", "o"}, false},
		{"", "datasets/o/n", hub.RepoID{Type: hub.Dataset, Name: "o/n"}, []string{"datasets/o/n"}, true},
		{"", "datasets/*", hub.RepoID{Type: hub.Model, Name: "datasets/n"}, []string{"models/datasets/n"}, false},
		{"model/o/n", "o/*", hub.RepoID{Type: hub.Model, Name: "o/n"}, []string{"model/o/n"}, true},
		{"model/o/n", "models/o/*", hub.RepoID{Type: hub.Model, Name: "o/n"}, []string{"model/o/n"}, true},
		{"model/o/n", "p/*", hub.RepoID{Type: hub.Model, Name: "o/n"}, []string{"model/o/n"}, false},
		{"model/o/n", "*/*", hub.RepoID{Type: hub.Model, Name: "o/m"}, nil, true},
		{"dataset/o/n", "datasets/o/n", hub.RepoID{Type: hub.Dataset, Name: "o/n"}, []string{"dataset/o/n"}, true},
		{"dataset/o/n", "o/n", hub.RepoID{Type: hub.Model, Name: "o/n"}, nil, true},
	}
	for _, tt := range tests {
		r := NewMirrorRepos(nil, tt.mirror, nil, slog.New(slog.DiscardHandler))
		symbols := r.symbolsOf(tt.id)
		ctx := context.WithValue(t.Context(), grantKey{}, &grant{patterns: []string{tt.pattern}})
		if !slices.Equal(symbols, tt.want) {
			t.Errorf("mirror %q, %v: symbols %q, want %q", tt.mirror, tt.id, symbols, tt.want)
		}
		if len(symbols) > 0 && r.isReadable(ctx, tt.id, symbols[0]) != tt.may {
			t.Errorf("mirror %q, %v: %s may be read: %t, want %t", tt.mirror, tt.id, symbols[0], !tt.may, tt.may)
		}
	}
}

// The operator learns of tokens that cannot change what they seem to. No text quotes the file.
func TestWriteProblems(t *testing.T) {
	const canary = "CANARY-7f3a"
	none := "no line has the word write, so every upload is refused; add it behind a token, like: TOKEN write owner/*"
	never := func(line int) string {
		return fmt.Sprintf("line %d: a pattern of symbols fits no repository; write it like owner/* or datasets/owner/*", line)
	}
	tests := []struct {
		text string
		want []string
	}{
		{canary, []string{none}},
		{canary + " read\n" + canary + "2 write/* write\n", []string{none}},
		{canary + " write", nil},
		{canary + " write *\nb read a/b/c/d", nil},
		{canary + " write o/* o/[a-z]* *s/o/n models/?/** n", nil},
		{canary + " write datasets/o/* spaces/o/n d*/*/*", nil},
		{"a\n\n" + canary + " write o/n/*", []string{never(3)}},
		{canary + " write /o/n\nb write o/\nc write o//n\nd write */*/*/*\ne write o/n", []string{never(1), never(2), never(3), never(4)}},
	}
	for _, tt := range tests {
		file := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := NewAccess(file, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.WriteProblems(); !slices.Equal(got, tt.want) || strings.Contains(strings.Join(got, " "), canary) {
			t.Errorf("%q: problems %q, want %q", tt.text, got, tt.want)
		}
	}
	if got := (Access{}).WriteProblems(); got != nil {
		t.Errorf("without a file: %q", got)
	}
}
