package fetch

import (
	"fmt"
	"testing"
)

func TestParseContentRange(t *testing.T) {
	tests := []struct {
		text string
		want byteRange
		ok   bool
	}{
		{"bytes 0-99/1000", byteRange{0, 100, 1000}, true},
		{"bytes 999-999/1000", byteRange{999, 1000, 1000}, true},
		{"bytes 5-9/*", byteRange{5, 10, -1}, true},
		{"bytes 0-99/99", byteRange{}, false},
		{"bytes 9-5/1000", byteRange{}, false},
		{"bytes */1000", byteRange{}, false},
		{"bytes 0-/1000", byteRange{}, false},
		{"bytes -5/1000", byteRange{}, false},
		{"bytes 0-99", byteRange{}, false},
		{"0-99/1000", byteRange{}, false},
		{"items 0-99/1000", byteRange{}, false},
		{"bytes 0--1/0", byteRange{}, false},
		{"bytes 0-9223372036854775807/*", byteRange{}, false},
		{"bytes 0-99999999999999999999/*", byteRange{}, false},
		{"", byteRange{}, false},
	}
	for _, tt := range tests {
		got, ok := parseContentRange(tt.text)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("parseContentRange(%q) = %v, %t, want %v, %t", tt.text, got, ok, tt.want, tt.ok)
		}
	}
}

// FuzzContentRange checks two promises. The parser never panics. An accepted text is a range
// that is not empty, and the range is the same when it is written and parsed again.
func FuzzContentRange(f *testing.F) {
	f.Add("bytes 0-99/1000")
	f.Add("bytes 0-99/*")
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := parseContentRange(text)
		if !ok {
			return
		}
		if r.start < 0 || r.start >= r.end || r.size >= 0 && r.end > r.size {
			t.Fatalf("%q is %+v", text, r)
		}
		total := "*"
		if r.size >= 0 {
			total = fmt.Sprint(r.size)
		}
		again, ok := parseContentRange(fmt.Sprintf("bytes %d-%d/%s", r.start, r.end-1, total))
		if !ok || again != r {
			t.Errorf("%q is %+v, and then %+v, %t", text, r, again, ok)
		}
	})
}
