package catalog_test

import (
	"strings"
	"testing"

	"github.com/xetfs/xetfs/fs/catalog"
)

func TestOutermost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"b a", "b a"},
		{"a a", "a"},
		{"a/b a a/b/c", "a"},
		{"a/b/c a/c a/b", "a/c a/b"},
		{"a-b a/c a", "a-b a"},
		{"ab a ab/c", "ab a"},
		{"a . a/b .", "."}, // "." means ""
	} {
		paths := strings.Fields(tt.in)
		for i := range paths {
			paths[i] = strings.TrimPrefix(paths[i], ".")
		}
		got := catalog.Outermost(paths)
		for i := range got {
			if got[i] == "" {
				got[i] = "."
			}
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("Outermost(%s) = %s, want %s", tt.in, text, tt.want)
		}
	}
}
