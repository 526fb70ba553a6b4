package serve

import (
	"errors"
	iofs "io/fs"
	"testing"
)

// No symbol makes a scope look like one of another kind.
func TestScope(t *testing.T) {
	for _, symbol := range []string{"o/n", "upload x", "upload 0123456789abcdef0123456789abcdef o/n", "read * o/n", "o/n@", " "} {
		for _, want := range []scope{{readScope, allVersions, symbol}, {readScope, "00ff", symbol}, {uploadScope, "00ff", symbol}, {objectScope, "00:ff:1", symbol}} {
			if got, err := parseScope(want.String()); got != want || err != nil {
				t.Errorf("%q: %q, %v, want %q", want.String(), got, err, want)
			}
		}
	}
	for _, text := range []string{"", "o/n@", "upload", "upload 0123456789abcdef0123456789abcdef"} {
		if got, err := parseScope(text); !errors.Is(err, iofs.ErrPermission) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
