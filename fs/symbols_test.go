package fs

import (
	"errors"
	iofs "io/fs"
	"slices"
	"strings"
	"testing"
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
