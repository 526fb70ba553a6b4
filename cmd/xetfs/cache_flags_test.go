package main

import (
	"testing"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
)

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
			r := newOptional("SIZE", "", atLeast(stack.MinCacheSize))
			err := r.Set(tt.in)
			if tt.want < 0 {
				if err == nil || r.given() {
					t.Errorf("Set accepts it as %s", &r)
				}
				return
			}
			if err != nil || r.value.of(total) != tt.want || r.String() != tt.text {
				t.Errorf("%d bytes, %q, %v, want %d, %q", r.value.of(total), &r, err, tt.want, tt.text)
			}
			// A background mount gets the text of the flag.
			if again, err := atLeast(stack.MinCacheSize)(r.String()); err != nil || again != r.value {
				t.Errorf("parsed again: %+v, %v, want %+v", again, err, r.value)
			}
		})
	}
	free := newOptional("SIZE", "", atLeast(0)) // --cache-free
	if err := free.Set("0"); err != nil || !free.given() || free.value.of(total) != 0 {
		t.Errorf("Set(0) = %v, %+v", err, free)
	}
}

func TestCacheWanted(t *testing.T) {
	const far, near = "https://example.org/store", "/data/store"
	tests := []struct {
		name   string
		source string
		flags  map[string]string
		want   bool
	}{
		{"far", far, nil, true},
		{"near", near, nil, false},
		{"far, off", far, map[string]string{"cache-dir": "off"}, false},
		{"far, never whole", far, map[string]string{"materialize": "never"}, true},
		{"near, a folder is named", near, map[string]string{"cache-dir": "/c"}, true},
		{"near, whole files", near, map[string]string{"materialize": "auto"}, true},
		{"near, always", near, map[string]string{"materialize": "always"}, true},
		{"near, never", near, map[string]string{"materialize": "never"}, false},
		{"near, a folder is named, never", near, map[string]string{"materialize": "never", "cache-dir": "/c"}, true},
		{"near, a size alone", near, map[string]string{"cache-size": "1GiB"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var flags cacheFlags
			cmd := newVersion() // any will do
			flags.addFlags(cmd, "")
			flags.addMaterialize(cmd)
			for name, value := range tt.flags {
				if err := cmd.Flags().Set(name, value); err != nil {
					t.Fatal(err)
				}
			}
			if got := flags.usesCache(tt.source); got != tt.want {
				t.Errorf("wanted = %v", got)
			}
		})
	}
}
