package hint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each case has the folders store (with objects), empty and model.
func TestMissing(t *testing.T) {
	const (
		ls      = "ls SOURCE [SYMBOL] [PATH]"
		mount   = "mount SOURCE MOUNTPOINT"
		publish = "publish STORE SYMBOL FOLDER"
		pack    = "pack STORE FOLDER…"
	)
	tests := []struct{ name, usage, args, want string }{
		{"nothing is missing", ls, "store org/model", ""},
		{"similar folder", ls, "stroe org/model", "; did you mean store?"},
		{"no similar folder", ls, "xyz org/model", ""},
		{"address", ls, "http://host/store org/model", ""},
		{"order", ls, "org/model store", "; store is a store, and STORE comes first: xetfs ls store org/model"},
		{"order with an address", ls, "org/model s3://bucket/x", "; s3://bucket/x is a store, and STORE comes first: xetfs ls s3://bucket/x org/model"},
		{"address with a secret", ls, "org/model http://me:secret@host", ""},
		{"address in the place of a folder", pack, "model s3://bucket/x", "; s3://bucket/x is a store, and STORE comes first: xetfs pack s3://bucket/x model"},
		{"two addresses", publish, "s3://bucket/x org/model s3://bucket/x", "; FOLDER is local, not an address"},
		{"path to a symbol", ls, "store/org/model", "; store is a store, and its symbols are no folders: type store org/model"},
		{"path to a symbol to mount", mount, "store/org/model empty", "; store is a store, and its symbols are no folders: type --symbol org/model store"},
		{"publish creates STORE", publish, "new org/model model", ""},
		{"order of SYMBOL and FOLDER", publish, "new model org/x", "; model is a folder, and SYMBOL comes before FOLDER: xetfs publish new org/x model"},
		{"second folder of pack", pack, "new model modek", "; did you mean model?"},
		{"no arguments", ls, "", ""},
	}
	t.Chdir(t.TempDir())
	for _, folder := range []string{"store/tdata/xorb", "empty", "model"} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name, _, _ := strings.Cut(tt.usage, " ")
			got := Missing(Call{
				Command: "xetfs " + name, Usage: tt.usage, Args: strings.Fields(tt.args),
				IsAddress: func(arg string) bool { return strings.Contains(arg, "://") },
			})
			if got != tt.want {
				t.Errorf("Missing = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMountOrder(t *testing.T) {
	work := t.TempDir()
	path := func(name string) string { return filepath.Join(work, name) }
	for _, folder := range []string{"store/tdata/xorb", "empty", "model/src"} {
		if err := os.MkdirAll(path(folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ source, mountpoint, want string }{
		{"empty", "store", "is empty"},
		{"absent", "store", "does not exist"},
		{"model", "store", ""},
		{"store", "empty", ""},
	}
	for _, tt := range tests {
		got := MountOrder(path(tt.source), path(tt.mountpoint))
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("MountOrder(%s, %s) = %q, want %q", tt.source, tt.mountpoint, got, tt.want)
		}
	}
}
