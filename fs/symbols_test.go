package fs

import (
	"errors"
	iofs "io/fs"
	"slices"
	"strings"
	"testing"
	"time"
)

// Symbols are directories where there are several.
func TestSymbolTree(t *testing.T) {
	tree, hidden := newSymbolTree([]string{"a-b", "a/b", "a/b/c", "a/b-c", "org/m/x", "org/m/x/y/z"})
	if want := []string{"a/b/c", "org/m/x/y/z"}; !slices.Equal(hidden, want) {
		t.Errorf("hidden are %q, want %q", hidden, want)
	}
	lists := []struct{ dir, after, want string }{
		{"", "", "a a-b org"},
		{"", "a", "a-b org"},
		{"", "a!", "a-b org"},
		{"", "org", ""},
		{"a", "", "a/b a/b-c"},
		{"org/m", "", "org/m/x"},
		{"org/m/x", "", "file does not exist"},
		{"nowhere", "", "file does not exist"},
	}
	for _, tt := range lists {
		var got []string
		for en, err := range tree.List(t.Context(), tt.dir, tt.after) {
			if err != nil {
				got = append(got, errors.Unwrap(err).Error())
				break
			}
			got = append(got, en.Path)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("List(%q, %q) = %q, want %q", tt.dir, tt.after, s, tt.want)
		}
	}
	for _, path := range []string{"", "a", "a/b", "org", "org/m", "org/m/x"} {
		if en, err := tree.Lookup(t.Context(), path); en.Path != path || err != nil {
			t.Errorf("Lookup(%q) = %q, %v", path, en.Path, err)
		}
	}
	for _, path := range []string{"b", "a/", "a/c", "a/b/c", "or", "org/m/x/y"} {
		if _, err := tree.Lookup(t.Context(), path); !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("Lookup(%q): %v", path, err)
		}
	}
}

// A listed symbol that does not open is being published, and may exist in a moment. The absence
// of an unlisted one may be cached.
func TestSymbolsAbsent(t *testing.T) {
	log := newSyncBuffer()
	from := &source{log: logger(log), follow: time.Hour}
	v := newSymbols(from, []string{"a", "org/m"})
	for path, want := range map[string]time.Duration{"a": moment, "org/m": moment, "b": minute, "org/x": minute} {
		if got := v.ttlOfAbsent(path); got != want {
			t.Errorf("that %s is absent is kept for %v, want %v", path, got, want)
		}
	}
}

// A hidden symbol is logged once, with the one that hides it.
func TestSymbolsHidden(t *testing.T) {
	log := newSyncBuffer()
	from := &source{log: logger(log)}
	one := from.symbolTree([]string{"a", "a/b", "a/b/c"}, nil)
	two := from.symbolTree([]string{"a", "a/b", "a/b/c", "d", "d/e"}, one)
	from.symbolTree([]string{"a", "a/b", "a/b/c", "d", "d/e"}, two)
	want := []string{"symbol=a/b by=a", "symbol=a/b/c by=a", "symbol=d/e by=d"}
	lines := log.lines("event=symbol_hidden")
	if len(lines) != len(want) {
		t.Fatalf("log = %q", lines)
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) {
			t.Errorf("line %d is %q, want %s", i, line, want[i])
		}
	}
}
