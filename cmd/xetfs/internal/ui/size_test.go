package ui

import "testing"

func TestParseSize(t *testing.T) {
	tests := []struct {
		in   string
		want int64 // negative if in must be refused
		text string
	}{
		{"0", 0, "0B"},
		{"1048576", 1 << 20, "1MiB"},
		{"512MiB", 512 << 20, "512MiB"},
		{"512mib", 512 << 20, "512MiB"},
		{"512M", 512e6, "500000KiB"},
		{"512 MB", 512e6, "500000KiB"},
		{"512mb", 512e6, "500000KiB"},
		{"3k", 3000, "3000B"},
		{"3KB", 3000, "3000B"},
		{"3KiB", 3 << 10, "3KiB"},
		{"3Ki", 3 << 10, "3KiB"},
		{"2G", 2e9, "1953125KiB"},
		{"2GB", 2e9, "1953125KiB"},
		{"2GiB", 2 << 30, "2GiB"},
		{"10GB", 10e9, "9765625KiB"},
		{"1T", 1e12, "976562500KiB"},
		{"1TB", 1e12, "976562500KiB"},
		{"1TiB", 1 << 40, "1024GiB"},
		{"1000", 1000, "1000B"},
		{"8388607TiB", 8388607 << 40, "8589933568GiB"},
		{"8388608TiB", -1, ""},
		{"-1", -1, ""},
		{"1.5G", -1, ""},
		{"1,5G", -1, ""},
		{"1,000", -1, ""},
		{"9.3EB", -1, ""},
		{"10EB", -1, ""},
		{"MiB", -1, ""},
		{"", -1, ""},
		{"12 parsecs", -1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			s, err := ParseSize(tt.in)
			switch {
			case tt.want < 0 && err == nil:
				t.Errorf("ParseSize(%q) = %d, want an error", tt.in, int64(s))
			case tt.want >= 0 && (err != nil || int64(s) != tt.want || s.String() != tt.text):
				t.Errorf("ParseSize(%q) = %d (%s), %v, want %d (%s)", tt.in, int64(s), s, err, tt.want, tt.text)
			}
		})
	}
}

func TestParseBytes(t *testing.T) {
	tests := []struct {
		in   string
		want int64 // negative if in must be refused
	}{
		{"125MB", 125e6},
		{"12.5MB", 12_500_000},
		{"12.5M", 12_500_000},
		{"8MiB", 8 << 20},
		{"300KB", 300_000},
		{" 1 GB ", 1e9},
		{"0.5", 0},
		{"12,5MB", -1},
		{"NaN", -1},
		{"1e6", -1},
		{"-1", -1},
		{"", -1},
	}
	for _, tt := range tests {
		got, err := ParseBytes(tt.in)
		if tt.want < 0 && err == nil || tt.want >= 0 && (err != nil || got != tt.want) {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", tt.in, got, err, tt.want)
		}
	}
}
