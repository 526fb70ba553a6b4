package status

import (
	"strings"
	"testing"
)

// The mount of a path is the innermost one with the path in it.
func TestSelect(t *testing.T) {
	all := []Mount{{Dir: "/none/m"}, {Dir: "/none/m/x"}, {Dir: "/none/m/xy"}}
	for dir, want := range map[string]string{
		"/none/m":       "/none/m",
		"/none/m/x/":    "/none/m/x",
		"/none/m/x/a/b": "xetfs status /none/m/x shows it",
		"/none/m/a":     "xetfs status /none/m shows it",
		"/none/mm":      "no xetfs mount",
	} {
		chosen, err := Select(all, []string{dir})
		switch {
		case err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %s", dir, err, want)
		case err == nil && (len(chosen) != 1 || chosen[0].Dir != want):
			t.Errorf("%s: %v, want %s", dir, chosen, want)
		}
	}
}
