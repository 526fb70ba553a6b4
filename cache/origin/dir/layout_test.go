package dir

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLayout(t *testing.T) {
	tests := []struct {
		name    string
		entries []string // folders
		hasKeys bool
		foreign string
	}{
		{"absent", nil, false, ""},
		{"new file system", []string{"lost+found"}, false, ""},
		{"catalog", []string{"cref", "tdata/shard", "tmp"}, true, ""},
		{"objects", []string{"tdata/xorb"}, true, ""},
		{"another folder", []string{"src"}, false, "src"},
		{"store with another folder", []string{"tdata/xorb", "src"}, true, "src"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "store")
			for _, e := range tt.entries {
				if err := os.MkdirAll(filepath.Join(folder, e), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if got := HasKeys(folder); got != tt.hasKeys {
				t.Errorf("HasKeys = %t, want %t", got, tt.hasKeys)
			}
			if got, err := ForeignEntry(folder); got != tt.foreign || err != nil {
				t.Errorf("ForeignEntry = %q, %v, want %q", got, err, tt.foreign)
			}
			store, rest := StoreAbove(filepath.Join(folder, "org", "model"))
			if want := map[bool]string{true: "org/model"}[tt.hasKeys]; rest != want || (store == folder) != tt.hasKeys {
				t.Errorf("StoreAbove = %q, %q, want %q", store, rest, want)
			}
		})
	}
}
