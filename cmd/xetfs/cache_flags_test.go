package main

import "testing"

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
