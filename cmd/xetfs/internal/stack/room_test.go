package stack

import "testing"

func TestRoom(t *testing.T) {
	const total = 1000 << 30
	tests := []struct {
		in   string
		want int64  // of total; -1: refused
		text string // of the flag
	}{
		{"20GiB", 20 << 30, "20GiB"},
		{"16MiB", 16 << 20, "16MiB"},
		{"20000000", 20_000_000, "20000000B"},
		{"5%", 50 << 30, "5%"},
		{" 12.5 %", 125 << 30, "12.5%"},
		{"100%", total, "100%"},
		{"15MiB", -1, ""},
		{"0", -1, ""},
		{"0%", -1, ""},
		{"-5%", -1, ""},
		{"101%", -1, ""},
		{"NaN%", -1, ""},
		{"%", -1, ""},
		{"", -1, ""},
		{"much", -1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			r, err := ParseRoom(MinCacheSize)(tt.in)
			if tt.want < 0 {
				if err == nil {
					t.Errorf("it is accepted as %s", r)
				}
				return
			}
			if err != nil || r.Limit(total) != tt.want || r.String() != tt.text {
				t.Errorf("%d bytes, %q, %v, want %d, %q", r.Limit(total), r, err, tt.want, tt.text)
			}
			// A background mount gets the text of the flag.
			if again, err := ParseRoom(MinCacheSize)(r.String()); err != nil || again != r {
				t.Errorf("parsed again: %+v, %v, want %+v", again, err, r)
			}
		})
	}
	if free, err := ParseRoom(0)("0"); err != nil || free.Limit(total) != 0 { // --cache-free
		t.Errorf("0 is %+v, %v", free, err)
	}
}
