package ui

import "testing"

func TestByteSize(t *testing.T) {
	tests := []struct {
		in   string
		want int64 // negative if in must be refused
		text string
	}{
		{"0", 0, "0B"},
		{"1048576", 1 << 20, "1MiB"},
		{"512MiB", 512 << 20, "512MiB"},
		{"512mib", 512 << 20, "512MiB"},
		{"512M", 512 << 20, "512MiB"},
		{"512 MB", 512 << 20, "512MiB"},
		{"3k", 3 << 10, "3KiB"},
		{"2G", 2 << 30, "2GiB"},
		{"1TiB", 1 << 40, "1024GiB"},
		{"1000", 1000, "1000B"},
		{"8388607TiB", 8388607 << 40, "8589933568GiB"},
		{"8388608TiB", -1, ""},
		{"-1", -1, ""},
		{"1.5G", -1, ""},
		{"MiB", -1, ""},
		{"", -1, ""},
		{"12 parsecs", -1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			var s ByteSize
			err := s.Set(tt.in)
			switch {
			case tt.want < 0 && err == nil:
				t.Errorf("Set(%q) = %d, want an error", tt.in, s)
			case tt.want >= 0 && (err != nil || int64(s) != tt.want || s.String() != tt.text):
				t.Errorf("Set(%q) = %d (%s), %v, want %d (%s)", tt.in, int64(s), s.String(), err, tt.want, tt.text)
			}
		})
	}
}
