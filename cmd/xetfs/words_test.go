package main

import (
	"math"
	"os/exec"
	"testing"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

func TestByteRange(t *testing.T) {
	tests := []struct {
		in   string
		want byteRange
		ok   bool
	}{
		{"0-10", byteRange{0, 10}, true},
		{"10-", byteRange{10, math.MaxInt64}, true},
		{"7-7", byteRange{7, 7}, true},
		{"9223372036854775807-", byteRange{math.MaxInt64, math.MaxInt64}, true},
		{"-10", byteRange{}, false},
		{"10", byteRange{}, false},
		{"10-9", byteRange{}, false},
		{"9223372036854775808-", byteRange{}, false},
		{"1-2-3", byteRange{}, false},
		{"", byteRange{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			r, err := parseByteRange(tt.in)
			if (err == nil) != tt.ok || tt.ok && r != tt.want {
				t.Errorf("parseByteRange = %+v, %v, want %+v", r, err, tt.want)
			}
		})
	}
}

// Output for pasting is one word to a shell, and the right one.
func TestShellWord(t *testing.T) {
	for _, s := range []string{"/mnt/x", "a b", "it's", `a\b`, "$HOME", "", "*", "a\nb", "\x1b[2J'\\", "ä", "a\U000e0001b", "a\u200b1", "-f", "~", "a;b"} {
		out, err := exec.Command("bash", "-c", "printf %s "+ui.ShellWord(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q is %s to the shell: %q, %v", s, ui.ShellWord(s), out, err)
		}
	}
}

func TestCleanPath(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "/": "", ".": "", "by-hash": "by-hash", "/by-hash/": "by-hash", "a//b/../c": "a/c", "../../etc": "etc",
	} {
		if got := cleanPath(in); got != want {
			t.Errorf("cleanPath(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTreePath(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "/": "", "..a": "..a", "a/../b/": "b", "/a/b/../..": "", "...": "...",
	} {
		if got, err := treePath(in); err != nil || got != want {
			t.Errorf("treePath(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"..", "../x", "/../x", "a/../../x", "./..", "//../x"} {
		if got, err := treePath(in); err == nil {
			t.Errorf("treePath(%q) = %q, want an error", in, got)
		}
	}
}

func TestMany(t *testing.T) {
	for noun, want := range map[string]string{
		"byte": "2 bytes", "entry": "2 entries", "key": "2 keys", "index page": "2 index pages", "day": "2 days",
	} {
		if got := ui.Plural(2, noun); got != want {
			t.Errorf("many(2, %q) = %q, want %q", noun, got, want)
		}
		if got := ui.Plural(1, noun); got != "1 "+noun {
			t.Errorf("many(1, %q) = %q", noun, got)
		}
	}
}
