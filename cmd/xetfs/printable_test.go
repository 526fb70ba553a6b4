package main

import "testing"

func TestS02_Printable(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "by-hash/ä b,c", "by-hash/ä b,c"},
		{"newline", "a\nb", `a\nb`},
		{"escape code", "\x1b[2Jx", `\x1b[2Jx`},
		{"delete", "\x7f", `\x7f`},
		{"not UTF-8", "a\xffb", `a\xffb`},
		{"a real replacement character", "\ufffd", "\ufffd"},
		{"C1 control", "\u009b", `\u009b`},
		{"right to left override", "\u202e", `\u202e`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := printable(tt.in); got != tt.want {
				t.Errorf("printable(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}
