package ui

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
			if got := Printable(tt.in); got != tt.want {
				t.Errorf("printable(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// A name is read back as it was from what ls prints.
func TestQuoteName(t *testing.T) {
	for name, want := range map[string]string{
		"a b": "a b", "it's": "it's", `a\nb`: `a\nb`, "$HOME": "$HOME",
		"a\nb": `$'a\nb'`, "\xff'\\": `$'\xff\'\\'`, "$'x'": `$'$\'x\''`, "ä\x1b": `$'ä\x1b'`, "\U000e0001": `$'\U000e0001'`,
	} {
		got := QuoteName(name)
		if got != want {
			t.Errorf("quoteName(%q) = %s, want %s", name, got, want)
		}
		if back, ok := UnquoteName(got); ok != (got != name) || ok && back != name {
			t.Errorf("unquoteName(%s) = %q, %t", got, back, ok)
		}
	}
	for _, s := range []string{"", "$'", "'", "x", "$'a", `$'\'`, `$'\q'`} {
		if got, ok := UnquoteName(s); ok {
			t.Errorf("unquoteName(%s) = %q", s, got)
		}
	}
}
