package hint

import (
	"slices"
	"strings"
	"testing"
)

func TestClosest(t *testing.T) {
	tests := []struct{ typed, names, want string }{
		{"org/moddel", "org/data org/model other", "org/model"},
		{"ORG/Model", "org/model", "org/model"},
		{"model", "org/data org/model", "org/model"},
		{"org", "org/b org/a other", "org/a org/b"},
		{"README", "LICENSE README.md src", "README.md"},
		{"config.json.bak", "config.json", "config.json"},
		{"x", "a b c", ""},
		{"ab", "cd", ""},
		{"nosuch", "org/model", ""},
		{"", "a b", ""},
		{"shard-1", "shard-2 shard-3 shard-4 shard-5", "shard-2 shard-3 shard-4"},
	}
	for _, tt := range tests {
		if got := strings.Join(Closest(tt.typed, slices.Values(strings.Fields(tt.names))), " "); got != tt.want {
			t.Errorf("Closest(%q, %s) = %q, want %q", tt.typed, tt.names, got, tt.want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"mont", "mount", 1}, {"muont", "mount", 1}, {"abc", "abc", 0}} {
		if got := editDistance(tt.a, tt.b); got != tt.want || editDistance(tt.b, tt.a) != tt.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
